//! Every key there is, with its meaning. The table in the README is made of this one.

/// What a value has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// A TCP port; 0 lets the system choose.
    Port,
    /// `true` or `false`.
    Bool,
    /// A whole number between these two.
    Integer(u64, u64),
    /// A time span such as `500ms`, `30s`, `5m` or `1h`.
    Duration,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Names of one's own below this key, each with a text.
    Map,
}

/// One key of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The dotted path.
    pub path: &'static str,
    /// What its value has to be.
    pub kind: Kind,
    /// The value when nobody says otherwise, as it would be written; empty for none.
    pub default: &'static str,
    /// What it means, for people.
    pub doc: &'static str,
}

const fn key(path: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Key {
    Key { path, kind, default, doc }
}

/// The words of `manager.kubernetes.mode`.
pub const MODES: &[&str] = &["auto", "cluster", "embedded"];

/// All keys.
pub const KEYS: &[Key] = &[
    key("manager.runsService.host", Kind::Text, "0.0.0.0", "Address that the runs service listens on."),
    key(
        "manager.runsService.port",
        Kind::Port,
        "8090",
        "Port of the runs service, the one that clients use.",
    ),
    key("manager.queueService.host", Kind::Text, "0.0.0.0", "Address that the queue service listens on."),
    key("manager.queueService.port", Kind::Port, "8089", "Port of the queue service."),
    key("manager.executor.healthProbePort", Kind::Port, "8081", "Port of the executor's health probes."),
    key(
        "manager.executor.maxConcurrent",
        Kind::Integer(1, 4096),
        "32",
        "How many actions are worked on in the cluster at once.",
    ),
    key(
        "manager.executor.resyncInterval",
        Kind::Duration,
        "60s",
        "How often every action is looked at anew.",
    ),
    key(
        "manager.executor.taskActionTtl",
        Kind::Duration,
        "1h",
        "How long the TaskAction of an ended action stays in the cluster.",
    ),
    key(
        "manager.executor.maxSystemRetries",
        Kind::Integer(0, 100),
        "3",
        "Further attempts of an action after failures of the cluster's.",
    ),
    key("manager.executor.backoffBase", Kind::Duration, "1s", "Wait before the second attempt of an action."),
    key(
        "manager.executor.backoffCap",
        Kind::Duration,
        "60s",
        "Longest wait between two attempts of an action.",
    ),
    key(
        "manager.executor.imagePullGrace",
        Kind::Duration,
        "3m",
        "How long image pulls may fail before an attempt is given up.",
    ),
    key(
        "manager.executor.createContainerGrace",
        Kind::Duration,
        "3m",
        "How long a container may fail to be created before an attempt is given up.",
    ),
    key(
        "manager.executor.podPendingTimeout",
        Kind::Duration,
        "0s",
        "How long a Pod may wait for a node before its attempt is given up; 0s is for ever.",
    ),
    key(
        "manager.executor.serviceAccount",
        Kind::Text,
        "",
        "Service account of Pods whose run names none; empty is the namespace's default.",
    ),
    key(
        "manager.executor.endpoint",
        Kind::Text,
        "",
        "Where task Pods reach the runs service, such as flyte-manager.flyte:8090; needed in a cluster, known in embedded mode.",
    ),
    key(
        "manager.executor.copilotImage",
        Kind::Text,
        "",
        "Image with flyte-manager in it, for raw containers in a cluster; empty refuses them there.",
    ),
    key("manager.executor.env", Kind::Map, "", "Environment variables of every task container."),
    key("manager.kubernetes.namespace", Kind::Text, "flyte", "Namespace of TaskActions and Pods."),
    key(
        "manager.kubernetes.kubeconfig",
        Kind::Text,
        "",
        "Path of a kubeconfig; when set it is the only one tried.",
    ),
    key(
        "manager.kubernetes.mode",
        Kind::OneOf(MODES),
        "auto",
        "cluster: a real cluster only; embedded: a cluster inside this process; auto: a real one when there is a configuration for one, else embedded.",
    ),
    key(
        "manager.kubernetes.embedded.port",
        Kind::Port,
        "0",
        "Loopback port of the embedded API server for kubectl; 0 lets the system choose.",
    ),
    key(
        "manager.kubernetes.embedded.dir",
        Kind::Text,
        "",
        "Directory of the embedded cluster's kubeconfig and of its processes; empty is storage.dir with .cluster behind it.",
    ),
    key(
        "manager.kubernetes.embedded.allowRemote",
        Kind::Bool,
        "false",
        "Listen on the configured host in embedded mode too, where every caller may run commands on this machine.",
    ),
    key("database.type", Kind::OneOf(&["sqlite"]), "sqlite", "Kind of database."),
    key("database.sqlite.file", Kind::Text, "flyte.db", "The database's file."),
    key("storage.dir", Kind::Text, "flyte-data", "Directory of inputs, outputs, logs and bundles."),
    key(
        "logger.level",
        Kind::Integer(0, 6),
        "4",
        "0 panic, 1 fatal, 2 error, 3 warn, 4 info, 5 debug, 6 trace.",
    ),
    key("logger.show-source", Kind::Bool, "false", "Show file and line of each log entry."),
    key("logger.format", Kind::OneOf(&["text", "json"]), "text", "Form of log entries."),
    key(
        "limits.requestMaxBytes",
        Kind::Integer(1024, 1_073_741_824),
        "10485760",
        "Largest request, before and after decompression.",
    ),
    key(
        "limits.connectionsMax",
        Kind::Integer(1, 1_000_000),
        "4096",
        "Most connections to one port; further ones wait.",
    ),
];

/// Keys of the older manager that mean nothing here; they are told of and ignored.
pub const IGNORED: &[&str] = &[
    "manager.server.host",
    "manager.server.port",
    "database.postgres.",
    "database.maxIdleConnections",
    "database.maxOpenConnections",
    "database.connMaxLifeTime",
    "logger.mute",
    "logger.formatter.type",
    "dataproxy.",
    "storage.type",
    "storage.container",
    "storage.enable-multicontainer",
    "storage.connection.",
    "storage.stow.",
    "storage.cache.",
    "storage.limits.",
    "storage.defaultHttpClient",
    "storage.signedUrl",
];

/// Whether the key is one of the older manager's that means nothing here.
pub fn is_ignored(path: &str) -> bool {
    IGNORED.iter().any(|ignored| match ignored.strip_suffix('.') {
        Some(parent) => {
            path.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        }
        None => path == *ignored,
    })
}

/// The environment variable of a key: `FLYTE_MANAGER__` and the path in upper case, words parted by `_`, levels by `__`.
pub fn variable(path: &str) -> String {
    let mut name = String::from("FLYTE_MANAGER_");
    for level in path.split('.') {
        name.push('_');
        let mut before_upper = false;
        name.push('_');
        for c in level.chars() {
            if c == '-' {
                name.push('_');
                before_upper = false;
                continue;
            }
            if c.is_ascii_uppercase() && before_upper {
                name.push('_');
            }
            before_upper = c.is_ascii_lowercase() || c.is_ascii_digit();
            name.push(c.to_ascii_uppercase());
        }
    }
    name.replacen("FLYTE_MANAGER___", "FLYTE_MANAGER__", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_paths_in_capitals() {
        for (path, name) in [
            ("manager.runsService.port", "FLYTE_MANAGER__MANAGER__RUNS_SERVICE__PORT"),
            ("logger.show-source", "FLYTE_MANAGER__LOGGER__SHOW_SOURCE"),
            ("manager.executor.healthProbePort", "FLYTE_MANAGER__MANAGER__EXECUTOR__HEALTH_PROBE_PORT"),
            ("database.sqlite.file", "FLYTE_MANAGER__DATABASE__SQLITE__FILE"),
        ] {
            assert_eq!(variable(path), name);
        }
        let names: std::collections::BTreeSet<String> = KEYS.iter().map(|key| variable(key.path)).collect();
        assert_eq!(names.len(), KEYS.len(), "each key has a variable of its own");
    }

    #[test]
    fn keys_of_the_older_manager_are_known() {
        assert!(is_ignored("database.postgres.host"));
        assert!(is_ignored("logger.formatter.type"));
        assert!(!is_ignored("database.postgresql"));
        assert!(!is_ignored("database.sqlite.file"));
    }
}
