"""Alembic's scripts, inside the distribution: an installed Exchange brings its own database up to date."""
