CREATE TABLE workflows ( id TEXT PRIMARY KEY, name TEXT NOT NULL, description TEXT NOT NULL, metadata TEXT NOT NULL, created_at TEXT NOT NULL, updated_at TEXT NOT NULL, status TEXT NOT NULL, started_at TEXT, completed_at TEXT);
INSERT INTO workflows (id, name, description, metadata, created_at, updated_at, status, started_at, completed_at) VALUES ('w', 'Title', '', '{}', '2026-11-22T08:00:00Z', '2026-11-22T08:00:00Z', 'created', NULL, NULL);
CREATE TABLE steps ( position INTEGER PRIMARY KEY, workflow_id TEXT NOT NULL REFERENCES workflows (id), id TEXT NOT NULL, description TEXT NOT NULL, step_type TEXT NOT NULL, dependencies TEXT NOT NULL, metadata TEXT NOT NULL, created_at TEXT NOT NULL, status TEXT NOT NULL, started_at TEXT, completed_at TEXT, error_message TEXT, result TEXT, UNIQUE (workflow_id, id));
INSERT INTO steps (position, workflow_id, id, description, step_type, dependencies, metadata, created_at, status, started_at, completed_at, error_message, result) VALUES (1, 'w', 's', 'Do', 'manual', '[]', '{}', '2026-11-22T08:00:00Z', 'pending', NULL, NULL, NULL, NULL);
CREATE TABLE log ( position INTEGER PRIMARY KEY, workflow_id TEXT NOT NULL, step_id TEXT NOT NULL, timestamp TEXT NOT NULL, status_change TEXT NOT NULL, message TEXT, FOREIGN KEY (workflow_id, step_id) REFERENCES steps (workflow_id, id));
CREATE INDEX workflows_by_update ON workflows (updated_at DESC, id);
CREATE INDEX log_of_workflow ON log (workflow_id, position);
PRAGMA user_version = 1;
