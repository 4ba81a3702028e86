"""`python -m research_exchange.cli`."""

from research_exchange.cli import main

main()
