//! List requests as SQL. Column names come from the core's table of fields alone; everything of a client's is a value.

use flyte_core::listing::{Field, Filter, Function, Position, Request, SortKey, Value};
use turso::Value as Sql;

/// Which runs are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunScope {
    /// All.
    All,
    /// Those of an organisation.
    Org(String),
    /// Those of a project's domain.
    Project {
        /// The organisation.
        org: String,
        /// The project.
        project: String,
        /// The domain.
        domain: String,
    },
    /// Those of all versions of a task.
    TaskName {
        /// The organisation.
        org: String,
        /// The project.
        project: String,
        /// The domain.
        domain: String,
        /// The task's name.
        name: String,
    },
    /// Those of one version of a task.
    Task(crate::row::TaskId),
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// The entries.
    pub items: Vec<T>,
    /// The token of the next page; empty when there is none.
    pub next_token: String,
}

/// Conditions and their values, in order.
#[derive(Default)]
pub(crate) struct Where {
    conditions: Vec<String>,
    values: Vec<Sql>,
}

impl Where {
    /// A place for a value.
    fn bind(&mut self, value: Sql) -> String {
        self.values.push(value);
        format!("?{}", self.values.len())
    }

    pub(crate) fn equals(&mut self, column: &str, value: Sql) {
        let place = self.bind(value);
        self.conditions.push(format!("{column} = {place}"));
    }

    pub(crate) fn scope(&mut self, scope: &RunScope) {
        let mut all = |pairs: &[(&str, &String)]| {
            for (column, value) in pairs {
                self.equals(column, Sql::Text((*value).clone()));
            }
        };
        match scope {
            RunScope::All => {}
            RunScope::Org(org) => all(&[("t.org", org)]),
            RunScope::Project { org, project, domain } => {
                all(&[("t.org", org), ("t.project", project), ("t.domain", domain)])
            }
            RunScope::TaskName { org, project, domain, name } => all(&[
                ("t.org", org),
                ("t.task_project", project),
                ("t.task_domain", domain),
                ("t.task_name", name),
            ]),
            RunScope::Task(task) => all(&[
                ("t.org", &task.org),
                ("t.task_project", &task.project),
                ("t.task_domain", &task.domain),
                ("t.task_name", &task.name),
                ("t.task_version", &task.version),
            ]),
        }
    }

    fn filter(&mut self, filter: &Filter) {
        let column = match &filter.field {
            Field::Column(column) => format!("t.{column}"),
            Field::Label(label) => {
                // A JSON path with the label in quotes; quotes and backslashes in it are escaped as JSON does.
                let path = format!("$.{}", serde_json::Value::String(label.clone()));
                let place = self.bind(Sql::Text(path));
                format!("json_extract(t.labels, {place})")
            }
        };
        let places: Vec<String> = filter.values.iter().map(|value| self.bind(sql(value))).collect();
        let list = places.join(", ");
        let one = places.first().map_or("NULL", String::as_str);
        self.conditions.push(match filter.function {
            Function::Equal => format!("{column} = {one}"),
            Function::NotEqual => format!("({column} IS NULL OR {column} <> {one})"),
            Function::GreaterThan => format!("{column} > {one}"),
            Function::GreaterThanOrEqual => format!("{column} >= {one}"),
            Function::LessThan => format!("{column} < {one}"),
            Function::LessThanOrEqual => format!("{column} <= {one}"),
            Function::Contains => format!("instr({column}, {one}) > 0"),
            Function::ContainsCaseInsensitive => format!("instr(lower({column}), lower({one})) > 0"),
            Function::ValueIn => format!("{column} IN ({list})"),
            Function::ValueNotIn => format!("({column} IS NULL OR {column} NOT IN ({list}))"),
            Function::EndsWith => ends_with(&column, one),
            Function::NotEndsWith => format!("({column} IS NULL OR NOT {})", ends_with(&column, one)),
            Function::Exists => format!("{column} IS NOT NULL"),
            Function::NotExists => format!("{column} IS NULL"),
        });
    }

    /// Rows after the position, in the order of the sort.
    fn after(&mut self, request: &Request, after: &Position) {
        let mut keys: Vec<(String, Sql, bool)> = request
            .sort
            .iter()
            .zip(&after.keys)
            .map(|(key, value)| (key_column(key), sql(value), key.ascending))
            .collect();
        keys.push(("t.id".into(), Sql::Integer(after.row_id), request.ties_ascend()));
        let mut condition = String::new();
        for (column, value, ascending) in keys.into_iter().rev() {
            let place = self.bind(value);
            let sign = if ascending { '>' } else { '<' };
            condition = match condition.as_str() {
                "" => format!("{column} {sign} {place}"),
                inner => format!("({column} {sign} {place} OR ({column} = {place} AND {inner}))"),
            };
        }
        self.conditions.push(condition);
    }

    /// The condition, order and limit of a list, and all values. One row more than the page is asked for.
    pub(crate) fn finish(mut self, request: &Request) -> (String, Vec<Sql>) {
        request.filters.iter().for_each(|filter| self.filter(filter));
        if let Some(after) = &request.after {
            self.after(request, after);
        }
        let mut text = String::new();
        if !self.conditions.is_empty() {
            text += &format!(" WHERE {}", self.conditions.join(" AND "));
        }
        let direction = |ascending| if ascending { "ASC" } else { "DESC" };
        let mut order: Vec<String> = request
            .sort
            .iter()
            .map(|key| format!("{} {}", key_column(key), direction(key.ascending)))
            .collect();
        order.push(format!("t.id {}", direction(request.ties_ascend())));
        text += &format!(" ORDER BY {} LIMIT {}", order.join(", "), request.limit + 1);
        (text, self.values)
    }
}

/// The columns that a position is made of.
pub(crate) fn key_columns(request: &Request) -> String {
    request.sort.iter().map(|key| format!(", {}", key_column(key))).collect()
}

/// The sort column without NULLs, which compare with nothing.
fn key_column(key: &SortKey) -> String {
    let empty = if key.is_number { "-1" } else { "''" };
    format!("COALESCE(t.{}, {empty})", key.column)
}

fn ends_with(column: &str, place: &str) -> String {
    format!("({place} = '' OR substr({column}, -length({place})) = {place})")
}

fn sql(value: &Value) -> Sql {
    match value {
        Value::Text(text) => Sql::Text(text.clone()),
        Value::Integer(number) => Sql::Integer(*number),
    }
}

pub(crate) fn key(value: Sql) -> Option<Value> {
    match value {
        Sql::Text(text) => Some(Value::Text(text)),
        Sql::Integer(number) => Some(Value::Integer(number)),
        _ => None,
    }
}
