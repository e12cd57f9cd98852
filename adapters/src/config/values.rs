//! Values by key: from the file, from the environment, or the defaults.

use super::keys::{self, KEYS, Key, Kind};
use super::tree;
use std::collections::BTreeMap;
use std::fmt;

/// Where a value was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the file, on this line.
    Line(u64),
    /// In this environment variable.
    Variable(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Variable(name) => write!(f, "environment variable {name}"),
        }
    }
}

/// What was said, by path; all of it belongs to known keys and is of their kinds.
#[derive(Debug, Default)]
pub struct Values {
    said: BTreeMap<String, String>,
    /// Things to tell that are no errors.
    pub warnings: Vec<String>,
}

impl Values {
    /// Takes the file's entries and then the environment's, which win.
    ///
    /// # Errors
    /// A sentence for each key or value that is wrong, one a line.
    pub fn collect(
        text: &str,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, String> {
        let mut values = Self::default();
        let mut faults = Vec::new();
        for entry in tree::read(text)? {
            let Some(value) = entry.value else {
                // A key without a value says nothing; a wrong one is told of all the same.
                if find(&entry.path).is_none() && !is_section(&entry.path) && !keys::is_ignored(&entry.path) {
                    faults.push(unknown(&entry.path, &Origin::Line(entry.line)));
                }
                continue;
            };
            values.take(&entry.path, value, &Origin::Line(entry.line), &mut faults);
        }
        let environment: BTreeMap<String, String> =
            environment.into_iter().filter(|(name, _)| name.starts_with("FLYTE_MANAGER__")).collect();
        for (name, value) in environment {
            match path_of(&name) {
                Some(path) => values.take(&path, value, &Origin::Variable(name), &mut faults),
                None => {
                    let all = KEYS.iter().map(|key| keys::variable(key.path));
                    let nearest = nearest(&name, all).map(|near| format!("; did you mean {near}?"));
                    faults.push(format!(
                        "environment variable {name} belongs to no key{}",
                        nearest.unwrap_or_default()
                    ));
                }
            }
        }
        if faults.is_empty() { Ok(values) } else { Err(faults.join("\n")) }
    }

    fn take(&mut self, path: &str, value: String, origin: &Origin, faults: &mut Vec<String>) {
        match find(path) {
            Some(key) => match check(key, &value) {
                Ok(()) => {
                    self.said.insert(path.to_string(), value);
                }
                Err(why) => faults.push(format!("{path} ({origin}): '{value}' {why}")),
            },
            None if keys::is_ignored(path) => self
                .warnings
                .push(format!("{path} ({origin}) is a key of the older manager that has no meaning here")),
            None => faults.push(unknown(path, origin)),
        }
    }

    /// The text of a key: what was said, else the default; `None` when there is neither.
    pub fn text(&self, path: &str) -> Option<String> {
        let said = self.said.get(path).cloned();
        let default = || find(path).map(|key| key.default.to_string());
        said.or_else(default).filter(|text| !text.is_empty())
    }

    /// A text that has a default.
    pub fn required(&self, path: &str) -> String {
        self.text(path).unwrap_or_default()
    }

    /// A port.
    pub fn port(&self, path: &str) -> u16 {
        self.number(path).try_into().unwrap_or(u16::MAX)
    }

    /// A whole number.
    pub fn number(&self, path: &str) -> u64 {
        self.text(path).and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// A yes or no.
    pub fn is_on(&self, path: &str) -> bool {
        self.text(path).as_deref() == Some("true")
    }

    /// A time span in milliseconds.
    pub fn duration_ms(&self, path: &str) -> u64 {
        self.text(path).and_then(|text| duration_ms(&text)).unwrap_or_default()
    }

    /// The names below a key of kind map.
    pub fn map(&self, path: &str) -> BTreeMap<String, String> {
        let prefix = format!("{path}.");
        self.said
            .iter()
            .filter_map(|(path, value)| Some((path.strip_prefix(&prefix)?.to_string(), value.clone())))
            .collect()
    }
}

fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| match key.kind {
        Kind::Map => path.strip_prefix(key.path).is_some_and(|rest| rest.len() > 1 && rest.starts_with('.')),
        _ => key.path == path,
    })
}

fn is_section(path: &str) -> bool {
    KEYS.iter()
        .any(|key| key.path == path || key.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

fn path_of(variable: &str) -> Option<String> {
    KEYS.iter().find_map(|key| {
        let name = keys::variable(key.path);
        match key.kind {
            Kind::Map => variable
                .strip_prefix(&format!("{name}__"))
                .filter(|rest| !rest.is_empty())
                .map(|rest| format!("{}.{rest}", key.path)),
            _ => (name == variable).then(|| key.path.to_string()),
        }
    })
}

fn unknown(path: &str, origin: &Origin) -> String {
    let all = KEYS.iter().map(|key| key.path.to_string());
    let nearest = nearest(path, all).map(|near| format!("; did you mean {near}?"));
    format!("{path} ({origin}) is not a key of the configuration{}", nearest.unwrap_or_default())
}

fn nearest(wrong: &str, all: impl Iterator<Item = String>) -> Option<String> {
    all.map(|known| (strsim::jaro_winkler(wrong, &known), known))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(likeness, _)| *likeness > 0.7)
        .map(|(_, known)| known)
}

fn check(key: &Key, value: &str) -> Result<(), String> {
    let ok = match key.kind {
        Kind::Text | Kind::Map => true,
        Kind::Port => value.parse::<u16>().is_ok(),
        Kind::Bool => matches!(value, "true" | "false"),
        Kind::Integer(from, to) => value.parse::<u64>().is_ok_and(|number| (from..=to).contains(&number)),
        Kind::Duration => duration_ms(value).is_some(),
        Kind::OneOf(words) => words.contains(&value),
    };
    if ok {
        return Ok(());
    }
    Err(match key.kind {
        Kind::Port => "is not a port, a whole number from 0 to 65535".into(),
        Kind::Bool => "is neither true nor false".into(),
        Kind::Integer(from, to) => format!("is not a whole number from {from} to {to}"),
        Kind::Duration => "is not a time span such as 500ms, 30s, 5m or 1h".into(),
        Kind::OneOf(words) => {
            let near = nearest(value, words.iter().map(ToString::to_string));
            let near = near.map(|near| format!("; did you mean {near}?"));
            format!("is not one of {}{}", words.join(", "), near.unwrap_or_default())
        }
        Kind::Text | Kind::Map => "is no text".into(),
    })
}

/// The longest span that is taken: a hundred years.
const DURATION_MAX_MS: u64 = 100 * 366 * 24 * 3_600_000;

fn duration_ms(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor).filter(|ms| *ms <= DURATION_MAX_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> Vec<(String, String)> {
        Vec::new()
    }

    #[test]
    fn what_nobody_said_has_its_default_and_the_environment_wins() {
        let text = "manager:\n  runsService: {port: 1234}\n  executor:\n    env: {A: x, B: 2}\n";
        let environment = [
            ("FLYTE_MANAGER__MANAGER__RUNS_SERVICE__PORT".to_string(), "4321".to_string()),
            ("FLYTE_MANAGER__MANAGER__EXECUTOR__ENV__HTTP_PROXY".to_string(), "p".to_string()),
            ("PATH".to_string(), "/bin".to_string()),
        ];
        let file = Values::collect(text, none()).unwrap();
        assert_eq!(
            (file.port("manager.runsService.port"), file.port("manager.queueService.port")),
            (1234, 8089)
        );
        let both = Values::collect(text, environment).unwrap();
        assert_eq!(both.port("manager.runsService.port"), 4321);
        assert_eq!(
            both.map("manager.executor.env").into_iter().collect::<Vec<_>>(),
            [("A", "x"), ("B", "2"), ("HTTP_PROXY", "p")].map(|(k, v)| (k.to_string(), v.to_string()))
        );
        assert_eq!(both.duration_ms("manager.executor.taskActionTtl"), 3_600_000);
    }

    #[test]
    fn every_default_is_of_its_kind() {
        for key in KEYS.iter().filter(|key| !key.default.is_empty()) {
            assert_eq!(check(key, key.default), Ok(()), "{}", key.path);
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_key_line_and_the_nearest_key() {
        for (text, said) in [
            (
                "manager:\n  runService:\n    port: 8090\n",
                "manager.runService.port (line 3) is not a key of the configuration; did you mean manager.runsService.port?",
            ),
            (
                "manager:\n  runsService:\n    port: 80900\n",
                "manager.runsService.port (line 3): '80900' is not a port, a whole number from 0 to 65535",
            ),
            ("logger:\n  level: seven\n", "logger.level (line 2): 'seven' is not a whole number from 0 to 6"),
            (
                "manager: {kubernetes: {mode: embeded}}\n",
                "manager.kubernetes.mode (line 1): 'embeded' is not one of auto, cluster, embedded; did you mean embedded?",
            ),
            (
                "manager:\n  executor:\n    resyncInterval: 60\n",
                "manager.executor.resyncInterval (line 3): '60' is not a time span such as 500ms, 30s, 5m or 1h",
            ),
            ("qqqq: 1\n", "qqqq (line 1) is not a key of the configuration"),
            ("loger:\n", "loger (line 1) is not a key of the configuration; did you mean logger.level?"),
            (
                "database:\n  sqlite: x.db\n",
                "database.sqlite (line 2) is not a key of the configuration; did you mean database.sqlite.file?",
            ),
        ] {
            assert_eq!(Values::collect(text, none()).unwrap_err(), said);
        }
        let wrong = [("FLYTE_MANAGER__MANAGER__RUNSSERVICE__PORT".to_string(), "1".to_string())];
        assert_eq!(
            Values::collect("", wrong).unwrap_err(),
            "environment variable FLYTE_MANAGER__MANAGER__RUNSSERVICE__PORT belongs to no key; did you mean \
             FLYTE_MANAGER__MANAGER__RUNS_SERVICE__PORT?"
        );
    }

    #[test]
    fn keys_of_the_older_manager_are_told_of_and_ignored() {
        let values = Values::collect("database:\n  maxOpenConnections: 100\n", none()).unwrap();
        assert_eq!(
            values.warnings,
            ["database.maxOpenConnections (line 2) is a key of the older manager that has no meaning here"]
        );
    }
}
