"""Storage that domains share, on SQLAlchemy Core and Alembic."""
