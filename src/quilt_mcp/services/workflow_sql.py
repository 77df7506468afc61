"""The workflow file's schema and statements. Values are always bound, never written into a statement."""

SCHEMA_VERSION = 1

SCHEMA = (
    """CREATE TABLE workflows (
        id TEXT PRIMARY KEY, name TEXT NOT NULL, description TEXT NOT NULL, metadata TEXT NOT NULL,
        created_at TEXT NOT NULL, updated_at TEXT NOT NULL,
        status TEXT NOT NULL, started_at TEXT, completed_at TEXT)""",
    "CREATE INDEX workflows_by_update ON workflows (updated_at DESC, id)",
    """CREATE TABLE steps (
        position INTEGER PRIMARY KEY,
        workflow_id TEXT NOT NULL REFERENCES workflows (id), id TEXT NOT NULL,
        description TEXT NOT NULL, step_type TEXT NOT NULL, dependencies TEXT NOT NULL, metadata TEXT NOT NULL,
        created_at TEXT NOT NULL,
        status TEXT NOT NULL, started_at TEXT, completed_at TEXT, error_message TEXT, result TEXT,
        UNIQUE (workflow_id, id))""",
    """CREATE TABLE log (
        position INTEGER PRIMARY KEY,
        workflow_id TEXT NOT NULL, step_id TEXT NOT NULL,
        timestamp TEXT NOT NULL, status_change TEXT NOT NULL, message TEXT,
        FOREIGN KEY (workflow_id, step_id) REFERENCES steps (workflow_id, id))""",
    "CREATE INDEX log_of_workflow ON log (workflow_id, position)",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)

WORKFLOW = """
    SELECT id, name, description, metadata, created_at, updated_at, status, started_at, completed_at
    FROM workflows WHERE id = ?"""

STEPS = """
    SELECT id, description, step_type, dependencies, metadata, created_at,
           status, started_at, completed_at, error_message, result
    FROM steps WHERE workflow_id = ? ORDER BY position"""

LOG = "SELECT timestamp, step_id, status_change, message FROM log WHERE workflow_id = ? ORDER BY position"

NEWEST = """
    SELECT w.id, w.name, w.status, w.created_at, w.updated_at,
           COUNT(s.id) AS total_steps,
           COALESCE(SUM(s.status = 'completed'), 0) AS completed_steps,
           COALESCE(SUM(s.status = 'skipped'), 0) AS skipped_steps
    FROM (SELECT * FROM workflows ORDER BY updated_at DESC, id LIMIT ?) AS w
    LEFT JOIN steps AS s ON s.workflow_id = w.id
    GROUP BY w.id ORDER BY w.updated_at DESC, w.id"""

IDS = "SELECT id FROM workflows ORDER BY updated_at DESC, id LIMIT ?"

COUNTS = "SELECT status, COUNT(*) AS workflows FROM workflows GROUP BY status"

SAVE_WORKFLOW = """
    INSERT INTO workflows (id, name, description, metadata, created_at, updated_at, status, started_at, completed_at)
    VALUES (:id, :name, :description, :metadata, :created_at, :updated_at, :status, :started_at, :completed_at)
    ON CONFLICT (id) DO UPDATE SET
        updated_at = excluded.updated_at, status = excluded.status,
        started_at = excluded.started_at, completed_at = excluded.completed_at"""

SAVE_STEP = """
    INSERT INTO steps (workflow_id, id, description, step_type, dependencies, metadata, created_at,
                       status, started_at, completed_at, error_message, result)
    VALUES (:workflow_id, :id, :description, :step_type, :dependencies, :metadata, :created_at,
            :status, :started_at, :completed_at, :error_message, :result)
    ON CONFLICT (workflow_id, id) DO UPDATE SET
        status = excluded.status, started_at = excluded.started_at, completed_at = excluded.completed_at,
        error_message = excluded.error_message, result = excluded.result"""

ADD_LOG_ENTRY = """
    INSERT INTO log (workflow_id, step_id, timestamp, status_change, message)
    VALUES (:workflow_id, :step_id, :timestamp, :status_change, :message)"""

TRIM_LOG = """
    DELETE FROM log WHERE workflow_id = :workflow_id AND position <= (
        SELECT position FROM log WHERE workflow_id = :workflow_id ORDER BY position DESC LIMIT 1 OFFSET :kept)"""
