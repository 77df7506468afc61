-- The tables of the earlier requirements system, as far as they matter: what it has beyond ours, and what it lacks.
CREATE TABLE schema_migrations (version BIGINT PRIMARY KEY, dirty BOOLEAN NOT NULL);
CREATE SEQUENCE epic_ref_seq;
CREATE TABLE users (
    id UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    username VARCHAR(255) NOT NULL UNIQUE, email VARCHAR(255) NOT NULL UNIQUE,
    password_hash VARCHAR(255) NOT NULL, role VARCHAR(50) NOT NULL CHECK (role IN ('Administrator', 'User', 'Commenter')),
    created_at TIMESTAMPTZ DEFAULT now(), updated_at TIMESTAMPTZ DEFAULT now()
);
CREATE TABLE requirement_types (
    id UUID PRIMARY KEY DEFAULT gen_random_uuid(), name VARCHAR(255) NOT NULL UNIQUE, description TEXT,
    created_at TIMESTAMPTZ DEFAULT now(), updated_at TIMESTAMPTZ DEFAULT now()
);
CREATE TABLE relationship_types (LIKE requirement_types INCLUDING ALL);
CREATE TABLE epics (
    id UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    reference_id VARCHAR(20) NOT NULL UNIQUE DEFAULT ('EP-' || lpad(nextval('epic_ref_seq')::text, 3, '0')),
    creator_id UUID NOT NULL REFERENCES users ON DELETE RESTRICT,
    assignee_id UUID NOT NULL REFERENCES users ON DELETE RESTRICT,
    created_at TIMESTAMPTZ DEFAULT now(), updated_at TIMESTAMPTZ DEFAULT now(),
    priority INTEGER NOT NULL CHECK (priority BETWEEN 1 AND 4), status VARCHAR(50) NOT NULL,
    title VARCHAR(500) NOT NULL, description TEXT
);
CREATE TABLE user_stories (LIKE epics INCLUDING ALL);
ALTER TABLE user_stories ADD epic_id UUID NOT NULL REFERENCES epics ON DELETE CASCADE;
CREATE TABLE acceptance_criteria (
    id UUID PRIMARY KEY DEFAULT gen_random_uuid(), reference_id VARCHAR(20) NOT NULL UNIQUE,
    user_story_id UUID NOT NULL REFERENCES user_stories ON DELETE CASCADE,
    author_id UUID NOT NULL REFERENCES users ON DELETE RESTRICT,
    created_at TIMESTAMPTZ DEFAULT now(), updated_at TIMESTAMPTZ DEFAULT now(), description TEXT NOT NULL
);
CREATE TABLE requirements (LIKE epics INCLUDING ALL);
ALTER TABLE requirements
    ADD user_story_id UUID NOT NULL REFERENCES user_stories ON DELETE CASCADE,
    ADD acceptance_criteria_id UUID REFERENCES acceptance_criteria ON DELETE SET NULL,
    ADD type_id UUID NOT NULL REFERENCES requirement_types ON DELETE RESTRICT;
CREATE TABLE requirement_relationships (
    id UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    source_requirement_id UUID NOT NULL REFERENCES requirements ON DELETE CASCADE,
    target_requirement_id UUID NOT NULL REFERENCES requirements ON DELETE CASCADE,
    relationship_type_id UUID NOT NULL REFERENCES relationship_types ON DELETE RESTRICT,
    created_by UUID NOT NULL REFERENCES users ON DELETE RESTRICT, created_at TIMESTAMPTZ DEFAULT now(),
    UNIQUE (source_requirement_id, target_requirement_id, relationship_type_id)
);
CREATE TABLE comments (id UUID PRIMARY KEY, entity_type VARCHAR(50) NOT NULL, entity_id UUID NOT NULL, content TEXT);

INSERT INTO users (id, username, email, password_hash, role) VALUES
    ('11111111-1111-4111-8111-111111111111', 'ada', 'ada@example.com', '$2a$10$not-a-hash', 'Administrator');
INSERT INTO requirement_types (id, name) VALUES ('22222222-2222-4222-8222-222222222222', 'Functional');
INSERT INTO relationship_types (id, name) VALUES ('33333333-3333-4333-8333-333333333333', 'depends_on');
INSERT INTO epics (id, reference_id, creator_id, assignee_id, priority, status, title, description) VALUES
    ('44444444-4444-4444-8444-444444444444', 'EP-204', '11111111-1111-4111-8111-111111111111',
     '11111111-1111-4111-8111-111111111111', 2, 'On Hold', 'List the resources', NULL);
INSERT INTO user_stories (id, reference_id, creator_id, assignee_id, priority, status, title, epic_id) VALUES
    ('55555555-5555-4555-8555-555555555555', 'US-001', '11111111-1111-4111-8111-111111111111',
     '11111111-1111-4111-8111-111111111111', 3, 'Backlog', 'See them by page', '44444444-4444-4444-8444-444444444444');
INSERT INTO acceptance_criteria (id, reference_id, user_story_id, author_id, description) VALUES
    ('66666666-6666-4666-8666-666666666666', 'AC-001', '55555555-5555-4555-8555-555555555555',
     '11111111-1111-4111-8111-111111111111', 'WHEN a client lists THEN the server SHALL page.');
INSERT INTO requirements (id, reference_id, creator_id, assignee_id, priority, status, title, user_story_id, type_id) VALUES
    ('77777777-7777-4777-8777-777777777777', 'REQ-001', '11111111-1111-4111-8111-111111111111',
     '11111111-1111-4111-8111-111111111111', 1, 'Active', 'Page by key', '55555555-5555-4555-8555-555555555555',
     '22222222-2222-4222-8222-222222222222');
