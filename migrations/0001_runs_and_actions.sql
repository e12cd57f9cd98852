-- Runs, their actions, and everything that happened to them. Times are RFC 3339 in UTC with milliseconds, so that they
-- sort as text; phases and kinds are names.

CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    org TEXT NOT NULL,
    project TEXT NOT NULL,
    domain TEXT NOT NULL,
    name TEXT NOT NULL,
    phase TEXT NOT NULL,
    task_project TEXT,
    task_domain TEXT,
    task_name TEXT,
    task_version TEXT,
    short_name TEXT,
    function_name TEXT,
    environment_name TEXT,
    created_by TEXT,
    source INTEGER NOT NULL,
    labels TEXT NOT NULL,
    created_at TEXT NOT NULL,
    started_at TEXT,
    updated_at TEXT NOT NULL,
    ended_at TEXT,
    duration_ms INTEGER,
    run_spec_digest TEXT NOT NULL
);

CREATE UNIQUE INDEX runs_by_identity ON runs (org, project, domain, name);
CREATE INDEX runs_by_project ON runs (project, domain, id);

CREATE TABLE actions (
    id INTEGER PRIMARY KEY,
    run_id INTEGER NOT NULL REFERENCES runs (id),
    run_name TEXT NOT NULL,
    name TEXT NOT NULL,
    parent TEXT,
    kind TEXT NOT NULL,
    phase TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    group_name TEXT,
    task_project TEXT,
    task_domain TEXT,
    task_name TEXT,
    task_version TEXT,
    short_name TEXT,
    function_name TEXT,
    environment_name TEXT,
    created_by TEXT,
    created_at TEXT NOT NULL,
    started_at TEXT,
    updated_at TEXT NOT NULL,
    ended_at TEXT,
    duration_ms INTEGER,
    -- 1 while objects of the action may be in the cluster: the executor's work list.
    in_cluster INTEGER NOT NULL,
    -- The number of the last change, over all actions.
    seq INTEGER NOT NULL,
    spec_digest TEXT NOT NULL,
    -- What lists show beyond the columns, as JSON.
    meta TEXT NOT NULL,
    -- The action's whole record without its state document, as JSON. The truth; columns repeat parts of it.
    record TEXT NOT NULL
);

CREATE UNIQUE INDEX actions_by_name ON actions (run_id, name);
CREATE INDEX actions_by_parent ON actions (run_id, parent, id);
CREATE INDEX actions_in_cluster ON actions (in_cluster, id);
CREATE INDEX actions_by_seq ON actions (seq);

-- Every attempt of every task.
CREATE TABLE attempts (
    action_id INTEGER NOT NULL REFERENCES actions (id),
    attempt INTEGER NOT NULL,
    phase TEXT NOT NULL,
    pod TEXT,
    created_at TEXT NOT NULL,
    started_at TEXT,
    ended_at TEXT,
    error_kind TEXT,
    error_code TEXT,
    error_message TEXT,
    PRIMARY KEY (action_id, attempt)
);

-- Every phase that every action went through.
CREATE TABLE transitions (
    id INTEGER PRIMARY KEY,
    action_id INTEGER NOT NULL REFERENCES actions (id),
    attempt INTEGER NOT NULL,
    phase TEXT NOT NULL,
    at TEXT NOT NULL,
    message TEXT NOT NULL
);

CREATE INDEX transitions_by_action ON transitions (action_id, id);

-- Serialised specifications, kept once for all that share them.
CREATE TABLE specs (
    digest TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    bytes BLOB NOT NULL
);
