"""What Alembic runs: the migrations, on the connection that `research_exchange.store.database` passes in."""

from alembic import context

from research_exchange.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
