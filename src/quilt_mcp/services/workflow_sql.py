"""The workflow file's schema, and the statements, which SQLite and PostgreSQL both take.

Values are always bound, never written into a statement.

Every row belongs to an owner, the caller that made it, and every statement is bound to one: `:owner`. Two owners may
use the same id.
"""

SCHEMA_VERSION = 2

_TABLES = (
    """CREATE TABLE workflows (
        owner TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, description TEXT NOT NULL, metadata TEXT NOT NULL,
        created_at TEXT NOT NULL, updated_at TEXT NOT NULL,
        status TEXT NOT NULL, started_at TEXT, completed_at TEXT,
        PRIMARY KEY (owner, id))""",
    "CREATE INDEX workflows_by_update ON workflows (owner, updated_at DESC, id)",
    """CREATE TABLE steps (
        position INTEGER PRIMARY KEY,
        owner TEXT NOT NULL, workflow_id TEXT NOT NULL, id TEXT NOT NULL,
        description TEXT NOT NULL, step_type TEXT NOT NULL, dependencies TEXT NOT NULL, metadata TEXT NOT NULL,
        created_at TEXT NOT NULL,
        status TEXT NOT NULL, started_at TEXT, completed_at TEXT, error_message TEXT, result TEXT,
        UNIQUE (owner, workflow_id, id),
        FOREIGN KEY (owner, workflow_id) REFERENCES workflows (owner, id))""",
    """CREATE TABLE log (
        position INTEGER PRIMARY KEY,
        owner TEXT NOT NULL, workflow_id TEXT NOT NULL, step_id TEXT NOT NULL,
        timestamp TEXT NOT NULL, status_change TEXT NOT NULL, message TEXT,
        FOREIGN KEY (owner, workflow_id, step_id) REFERENCES steps (owner, workflow_id, id))""",
    "CREATE INDEX log_of_workflow ON log (owner, workflow_id, position)",
)
_MARK_VERSION = f"PRAGMA user_version = {SCHEMA_VERSION}"

SCHEMA = (*_TABLES, _MARK_VERSION)

# Version 1 had no owners: whoever used the file was the person at this machine.
FROM_VERSION_1 = (
    "DROP INDEX workflows_by_update",
    "DROP INDEX log_of_workflow",
    "ALTER TABLE workflows RENAME TO workflows_1",
    "ALTER TABLE steps RENAME TO steps_1",
    "ALTER TABLE log RENAME TO log_1",
    *_TABLES,
    """INSERT INTO workflows (owner, id, name, description, metadata, created_at, updated_at,
                              status, started_at, completed_at)
       SELECT 'local', id, name, description, metadata, created_at, updated_at, status, started_at, completed_at
       FROM workflows_1""",
    """INSERT INTO steps (position, owner, workflow_id, id, description, step_type, dependencies, metadata, created_at,
                          status, started_at, completed_at, error_message, result)
       SELECT position, 'local', workflow_id, id, description, step_type, dependencies, metadata, created_at,
              status, started_at, completed_at, error_message, result
       FROM steps_1""",
    """INSERT INTO log (position, owner, workflow_id, step_id, timestamp, status_change, message)
       SELECT position, 'local', workflow_id, step_id, timestamp, status_change, message
       FROM log_1""",
    "DROP TABLE log_1",  # it refers to the steps, and these to the workflows
    "DROP TABLE steps_1",
    "DROP TABLE workflows_1",
    _MARK_VERSION,
)

WORKFLOW = """
    SELECT id, name, description, metadata, created_at, updated_at, status, started_at, completed_at
    FROM workflows WHERE owner = :owner AND id = :id"""

STEPS = """
    SELECT id, description, step_type, dependencies, metadata, created_at,
           status, started_at, completed_at, error_message, result
    FROM steps WHERE owner = :owner AND workflow_id = :id ORDER BY position"""

LOG = """
    SELECT timestamp, step_id, status_change, message
    FROM log WHERE owner = :owner AND workflow_id = :id ORDER BY position"""

NEWEST = """
    SELECT w.id, w.name, w.status, w.created_at, w.updated_at,
           COUNT(s.id) AS total_steps,
           COUNT(*) FILTER (WHERE s.status = 'completed') AS completed_steps,
           COUNT(*) FILTER (WHERE s.status = 'skipped') AS skipped_steps
    FROM (SELECT * FROM workflows WHERE owner = :owner ORDER BY updated_at DESC, id LIMIT :limit) AS w
    LEFT JOIN steps AS s ON s.owner = :owner AND s.workflow_id = w.id
    GROUP BY w.id, w.name, w.status, w.created_at, w.updated_at ORDER BY w.updated_at DESC, w.id"""

IDS = "SELECT id FROM workflows WHERE owner = :owner ORDER BY updated_at DESC, id LIMIT :limit"

COUNTS = "SELECT status, COUNT(*) AS workflows FROM workflows WHERE owner = :owner GROUP BY status"

SAVE_WORKFLOW = """
    INSERT INTO workflows (owner, id, name, description, metadata, created_at, updated_at,
                           status, started_at, completed_at)
    VALUES (:owner, :id, :name, :description, :metadata, :created_at, :updated_at,
            :status, :started_at, :completed_at)
    ON CONFLICT (owner, id) DO UPDATE SET
        updated_at = excluded.updated_at, status = excluded.status,
        started_at = excluded.started_at, completed_at = excluded.completed_at"""

SAVE_STEP = """
    INSERT INTO steps (owner, workflow_id, id, description, step_type, dependencies, metadata, created_at,
                       status, started_at, completed_at, error_message, result)
    VALUES (:owner, :workflow_id, :id, :description, :step_type, :dependencies, :metadata, :created_at,
            :status, :started_at, :completed_at, :error_message, :result)
    ON CONFLICT (owner, workflow_id, id) DO UPDATE SET
        status = excluded.status, started_at = excluded.started_at, completed_at = excluded.completed_at,
        error_message = excluded.error_message, result = excluded.result"""

ADD_LOG_ENTRY = """
    INSERT INTO log (owner, workflow_id, step_id, timestamp, status_change, message)
    VALUES (:owner, :workflow_id, :step_id, :timestamp, :status_change, :message)"""

TRIM_LOG = """
    DELETE FROM log WHERE owner = :owner AND workflow_id = :workflow_id AND position <= (
        SELECT position FROM log WHERE owner = :owner AND workflow_id = :workflow_id
        ORDER BY position DESC LIMIT 1 OFFSET :kept)"""
