//! Reads, on connections of their own. No read holds a snapshot while it waits for anything else.

use crate::Store;
use crate::error::{ReadError, bounded};
use crate::list::{self, Page, RunScope, Where};
use crate::row::{ActionRow, RunRow, Spec, TransitionRow};
use crate::sql;
use flyte_core::listing::{Position, Request};
use flyte_core::{ActionId, Phase, RunId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;
use turso::{Connection, Row, Value};

/// Connections that reads take turns on.
pub(crate) struct Readers {
    free: Mutex<Vec<Connection>>,
    permits: Semaphore,
}

impl Readers {
    pub(crate) fn new(connections: Vec<Connection>) -> Self {
        Self { permits: Semaphore::new(connections.len()), free: Mutex::new(connections) }
    }

    fn take(&self) -> Option<Connection> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn put(&self, connection: Connection) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }

    /// Ends all reads that begin from now on.
    pub(crate) fn close(&self) {
        self.permits.close();
        self.free.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    async fn table(&self, sql: &str) -> Result<Vec<Vec<String>>, ReadError> {
        self.query(sql, Vec::new(), |row| {
            (0..row.column_count())
                .map(|index| {
                    Ok(match row.get_value(index)? {
                        Value::Null => String::new(),
                        Value::Integer(number) => number.to_string(),
                        Value::Real(number) => number.to_string(),
                        Value::Text(text) => text,
                        Value::Blob(bytes) => format!("{} bytes", bytes.len()),
                    })
                })
                .collect()
        })
        .await
    }

    async fn query<T>(
        &self,
        sql: &str,
        values: Vec<Value>,
        read: impl Fn(&Row) -> Result<T, ReadError>,
    ) -> Result<Vec<T>, ReadError> {
        struct Lent<'a>(&'a Readers, Option<Connection>);
        impl Drop for Lent<'_> {
            fn drop(&mut self) {
                if let Some(connection) = self.1.take() {
                    self.0.put(connection);
                }
            }
        }
        let closed = || ReadError::Unavailable("the manager is stopping".into());
        let _permit = self.permits.acquire().await.map_err(|_| closed())?;
        let lent = Lent(self, self.take());
        let connection = lent.1.as_ref().ok_or_else(closed)?;
        let mut statement = connection.prepare_cached(sql).await?;
        let mut rows = statement.query(values).await?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().await? {
            found.push(read(&row)?);
        }
        Ok(found)
    }
}

impl Store {
    /// Whether the database answers and can be written.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub async fn probe(&self) -> Result<(), ReadError> {
        if let Some(reason) = self.inner.failed.borrow().clone() {
            return Err(ReadError::Unavailable(reason));
        }
        self.query("SELECT 1", Vec::new(), |row| sql::integer(row, 0)).await.map(drop)
    }

    /// An action; `None` when there is none.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn action(&self, id: &ActionId) -> Result<Option<Arc<ActionRow>>, ReadError> {
        let sql = format!("SELECT {} {}", sql::ACTION_COLUMNS, sql::ACTION_BY_ID);
        Ok(self.query(&sql, sql::identity(id), sql::action_row).await?.pop().map(Arc::new))
    }

    /// A run; `None` when there is none.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn run(&self, id: &RunId) -> Result<Option<RunRow>, ReadError> {
        let sql = format!("SELECT {} {}", sql::RUN_COLUMNS, sql::RUN_BY_ID);
        let Some((mut run, digest)) = self.query(&sql, sql::run_identity(id), sql::run_row).await?.pop()
        else {
            return Ok(None);
        };
        let bytes = self
            .query("SELECT bytes FROM specs WHERE digest = ?1", vec![Value::Text(digest)], |row| {
                sql::blob(row, 0)
            })
            .await?;
        run.run_spec = bytes
            .into_iter()
            .next()
            .ok_or_else(|| ReadError::Corrupt(format!("the specification of run {id} is missing")))?;
        Ok(Some(run))
    }

    /// A specification; `None` when there is none.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn spec(&self, digest: &str) -> Result<Option<Arc<Spec>>, ReadError> {
        let sql = "SELECT kind, bytes FROM specs WHERE digest = ?1";
        let values = vec![Value::Text(digest.to_string())];
        Ok(self.query(sql, values, |row| sql::spec(digest, row)).await?.pop().map(Arc::new))
    }

    /// The children of an action after `after_row_id`, oldest first, at most `limit`.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn children(
        &self,
        parent: &ActionId,
        after_row_id: i64,
        limit: usize,
    ) -> Result<Vec<Arc<ActionRow>>, ReadError> {
        let sql = format!(
            "SELECT {} {} AND a.id > ?6 ORDER BY a.id LIMIT ?7",
            sql::ACTION_COLUMNS,
            sql::CHILDREN_OF
        );
        let mut values = sql::identity(parent);
        values.extend([Value::Integer(after_row_id), count(limit)]);
        self.actions(&sql, values).await
    }

    /// The actions of a run after `after_row_id`, oldest first, at most `limit`.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn run_actions(
        &self,
        run: &RunId,
        after_row_id: i64,
        limit: usize,
    ) -> Result<Vec<Arc<ActionRow>>, ReadError> {
        let sql = format!(
            "SELECT {} FROM actions a WHERE a.run_id = (SELECT r.id {}) AND a.id > ?5 ORDER BY a.id LIMIT ?6",
            sql::ACTION_COLUMNS,
            sql::RUN_BY_ID
        );
        let mut values = sql::run_identity(run);
        values.extend([Value::Integer(after_row_id), count(limit)]);
        self.actions(&sql, values).await
    }

    /// The executor's work list after `after_row_id`: actions that may have objects in the cluster, oldest first, at
    /// most `limit`.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn in_cluster(
        &self,
        after_row_id: i64,
        limit: usize,
    ) -> Result<Vec<Arc<ActionRow>>, ReadError> {
        let sql = format!(
            "SELECT {} FROM actions a WHERE a.in_cluster = 1 AND a.id > ?1 ORDER BY a.id LIMIT ?2",
            sql::ACTION_COLUMNS
        );
        self.actions(&sql, vec![Value::Integer(after_row_id), count(limit)]).await
    }

    /// The transitions of an action after `after_seq`, oldest first, at most `limit`.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn transitions(
        &self,
        id: &ActionId,
        after_seq: i64,
        limit: usize,
    ) -> Result<Vec<TransitionRow>, ReadError> {
        let sql = format!(
            "SELECT t.id, t.attempt, t.phase, t.at, t.message FROM transitions t \
             WHERE t.action_id = (SELECT a.id {}) AND t.id > ?6 ORDER BY t.id LIMIT ?7",
            sql::ACTION_BY_ID
        );
        let mut values = sql::identity(id);
        values.extend([Value::Integer(after_seq), count(limit)]);
        self.query(&sql, values, |row| {
            Ok(TransitionRow {
                seq: sql::integer(row, 0)?,
                attempt: u32::try_from(sql::integer(row, 1)?)
                    .map_err(|error| ReadError::Corrupt(format!("the attempt of a transition: {error}")))?,
                phase: sql::phase(&sql::text(row, 2)?)?,
                at: sql::time(&sql::text(row, 3)?)?,
                message: sql::text(row, 4)?,
            })
        })
        .await
    }

    /// One page of runs with their root actions. Their specifications are left out.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn list_runs(
        &self,
        scope: &RunScope,
        request: &Request,
    ) -> Result<Page<(RunRow, Arc<ActionRow>)>, ReadError> {
        let mut conditions = Where::default();
        conditions.scope(scope);
        let (rest, values) = conditions.finish(request);
        let columns = sql::RUN_COLUMNS.replace("r.", "t.");
        let sql = format!("SELECT {columns}{} FROM runs t{rest}", list::key_columns(request));
        let found = self
            .query(&sql, values, |row| {
                let run = sql::run_row(row)?.0;
                let position = position(row, RUN_COLUMN_COUNT, request, run.row_id)?;
                Ok((run, position))
            })
            .await?;
        let (runs, next_token) = cut(found, request);
        let mut items = Vec::with_capacity(runs.len());
        for mut run in runs {
            // The root may have changed since: what is shown of a run is of one moment.
            let Some(root) = self.action(&run.id.root()).await? else {
                return Err(ReadError::Corrupt(format!("run {} has no root action", run.id)));
            };
            run.phase = root.action.phase;
            run.updated_at = root.action.updated_at;
            run.ended_at = root.action.ended_at;
            items.push((run, root));
        }
        Ok(Page { items, next_token })
    }

    /// One page of the actions of a run.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn list_actions(
        &self,
        run: &RunId,
        request: &Request,
    ) -> Result<Page<Arc<ActionRow>>, ReadError> {
        let sql = format!("SELECT r.id {}", sql::RUN_BY_ID);
        let Some(run_row_id) =
            self.query(&sql, sql::run_identity(run), |row| sql::integer(row, 0)).await?.pop()
        else {
            return Ok(Page { items: Vec::new(), next_token: String::new() });
        };
        let mut conditions = Where::default();
        conditions.equals("t.run_id", Value::Integer(run_row_id));
        let (rest, values) = conditions.finish(request);
        let columns = sql::ACTION_COLUMNS.replace("a.", "t.");
        let sql = format!("SELECT {columns}{} FROM actions t{rest}", list::key_columns(request));
        let found = self
            .query(&sql, values, |row| {
                let action = sql::action_row(row)?;
                let position = position(row, ACTION_COLUMN_COUNT, request, action.row_id)?;
                Ok((Arc::new(action), position))
            })
            .await?;
        let (items, next_token) = cut(found, request);
        Ok(Page { items, next_token })
    }

    /// How many actions of a run are in each phase.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn counts(&self, run: &RunId) -> Result<BTreeMap<Phase, u64>, ReadError> {
        let sql = format!(
            "SELECT a.phase, COUNT(*) FROM actions a WHERE a.run_id = (SELECT r.id {}) GROUP BY a.phase",
            sql::RUN_BY_ID
        );
        let counts = self
            .query(&sql, sql::run_identity(run), |row| {
                let count = u64::try_from(sql::integer(row, 1)?)
                    .map_err(|error| ReadError::Corrupt(format!("a count of actions: {error}")))?;
                Ok((sql::phase(&sql::text(row, 0)?)?, count))
            })
            .await?;
        Ok(counts.into_iter().collect())
    }

    /// The answer to any SELECT as text, for people who look at the database.
    ///
    /// # Errors
    /// When the statement makes no sense or the database fails.
    pub async fn select(&self, sql: &str) -> Result<Vec<Vec<String>>, ReadError> {
        self.inner.readers.table(sql).await
    }

    async fn actions(&self, sql: &str, values: Vec<Value>) -> Result<Vec<Arc<ActionRow>>, ReadError> {
        self.query(sql, values, |row| sql::action_row(row).map(Arc::new)).await
    }

    async fn query<T>(
        &self,
        sql: &str,
        values: Vec<Value>,
        read: impl Fn(&Row) -> Result<T, ReadError>,
    ) -> Result<Vec<T>, ReadError> {
        self.inner.readers.query(sql, values, read).await
    }
}

const RUN_COLUMN_COUNT: usize = 12;
const ACTION_COLUMN_COUNT: usize = 6;

fn count(limit: usize) -> Value {
    Value::Integer(i64::try_from(limit).unwrap_or(i64::MAX))
}

fn position(row: &Row, first: usize, request: &Request, row_id: i64) -> Result<Position, ReadError> {
    let keys = (0..request.sort.len())
        .map(|index| {
            let value = row.get_value(first + index)?;
            let shown = bounded(&format!("{value:?}"));
            list::key(value).ok_or_else(|| ReadError::Corrupt(format!("a sort key is {shown}")))
        })
        .collect::<Result<_, ReadError>>()?;
    Ok(Position { keys, row_id })
}

/// Cuts the row that was read beyond the page, and makes the token when there was one.
fn cut<T>(mut found: Vec<(T, Position)>, request: &Request) -> (Vec<T>, String) {
    let limit = request.limit as usize;
    let more = found.len() > limit;
    found.truncate(limit);
    let next_token = match found.last() {
        Some((_, last)) if more => request.token(last),
        _ => String::new(),
    };
    (found.into_iter().map(|(item, _)| item).collect(), next_token)
}
