"""Alembic's migrations of the requirements database. Each is frozen: it does not import the tables."""
