"""What Alembic runs: the migrations, on the connection that `migrating.py` hands over, in its transaction."""

from alembic import context

from quilt_mcp.requirements.schema_state import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    version_table=VERSION_TABLE,
    transactional_ddl=False,  # the caller's transaction is the only one
)
context.run_migrations()
