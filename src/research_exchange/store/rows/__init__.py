"""What can be asked of each kind of row and added to it; `research_exchange.store.transactions` puts them together."""
