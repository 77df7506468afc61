"""Alembic's migrations of the workflow database. Each is frozen: it does not import the tables."""
