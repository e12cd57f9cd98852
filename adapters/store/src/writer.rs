//! The one writer: takes what has arrived, does it in one transaction with one sync, then answers and publishes.

use crate::clock::Clock;
use crate::error::{ApplyError, ReadError, WriteError, bounded};
use crate::hub::Hub;
use crate::row::{ActionRow, NewChild, NewRun, Spec};
use crate::sql;
use crate::visitor::Visitors;
use flyte_core::transition::{Effect, Transition};
use flyte_core::{Action, ActionId, Attempt, Input, RunId, Step, step};
use sha2::{Digest, Sha256};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};
use turso::{Connection, Row, Value};

/// What an enqueued action became.
#[derive(Clone, Debug, PartialEq)]
pub enum Enqueued {
    /// It is new.
    Created(Arc<ActionRow>),
    /// The same request had been taken before; this is what became of it.
    Same(Arc<ActionRow>),
}

impl Enqueued {
    /// The action.
    pub fn row(&self) -> &Arc<ActionRow> {
        match self {
            Self::Created(row) | Self::Same(row) => row,
        }
    }
}

type Reply<T> = oneshot::Sender<T>;

pub(crate) enum Command {
    CreateRun(Box<NewRun>, Reply<Result<Arc<ActionRow>, WriteError>>),
    Enqueue(Box<NewChild>, Reply<Result<Enqueued, WriteError>>),
    Apply(Box<(ActionId, Input)>, Reply<Result<Arc<ActionRow>, ApplyError>>),
    Close(Reply<()>),
}

/// An answer that is sent once the transaction is durable.
enum Answer {
    CreateRun(Result<Arc<ActionRow>, WriteError>),
    Enqueue(Result<Enqueued, WriteError>),
    Apply(Result<Arc<ActionRow>, ApplyError>),
}

/// What ended a transaction.
enum Trouble {
    Engine(turso::Error),
    Read(ReadError),
    Broken(String),
}

impl From<turso::Error> for Trouble {
    fn from(error: turso::Error) -> Self {
        Self::Engine(error)
    }
}

impl From<ReadError> for Trouble {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl From<serde_json::Error> for Trouble {
    fn from(error: serde_json::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

/// What a failed transaction means for the commands in it.
enum Outcome {
    /// They failed; the next may succeed.
    Failed(WriteError),
    /// Nobody knows what the file holds beyond what was acknowledged: nothing is written any more.
    Fatal(String),
}

impl Trouble {
    fn outcome(self) -> Outcome {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        use turso::Error as E;
        match self {
            Trouble::Engine(E::DatabaseFull(reason)) => {
                Outcome::Failed(WriteError::DiskFull(bounded(&reason)))
            }
            Trouble::Engine(E::IoError(StorageFull | QuotaExceeded, what)) => {
                Outcome::Failed(WriteError::DiskFull(format!("no room for {what}")))
            }
            Trouble::Engine(error @ (E::IoError(..) | E::Corrupt(_) | E::NotAdb(_))) => {
                Outcome::Fatal(bounded(&error.to_string()))
            }
            Trouble::Engine(error) => Outcome::Failed(WriteError::Unavailable(bounded(&error.to_string()))),
            Trouble::Read(error) => Outcome::Failed(WriteError::Unavailable(error.to_string())),
            Trouble::Broken(reason) => Outcome::Failed(WriteError::Unavailable(bounded(&reason))),
        }
    }
}

pub(crate) struct Writer {
    pub(crate) connection: Connection,
    pub(crate) clock: Clock,
    pub(crate) hub: Hub,
    pub(crate) visitors: Option<Visitors>,
    pub(crate) batch_max: usize,
    pub(crate) next_seq: i64,
    pub(crate) failed: watch::Sender<Option<String>>,
}

impl Writer {
    /// The number of the last change that is stored.
    pub(crate) async fn last_seq(connection: &Connection) -> Result<i64, ReadError> {
        let mut rows = connection.query("SELECT COALESCE(MAX(seq), 0) FROM actions", ()).await?;
        let mut last = 0;
        while let Some(row) = rows.next().await? {
            last = sql::integer(&row, 0)?;
        }
        Ok(last)
    }

    pub(crate) async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let mut closing = None;
        while let Some(first) = commands.recv().await {
            let mut batch = vec![first];
            while batch.len() < self.batch_max {
                match commands.try_recv() {
                    Ok(command) => batch.push(command),
                    Err(_) => break,
                }
            }
            if let Some(at) = batch.iter().position(|command| matches!(command, Command::Close(_))) {
                let mut rest = batch.split_off(at);
                if let Some(Command::Close(reply)) = rest.drain(..1).next() {
                    closing = Some(reply);
                }
                rest.into_iter().for_each(|command| refuse(command, &closed()));
            }
            self.perform(batch).await;
            if closing.is_some() {
                break;
            }
        }
        commands.close();
        while let Some(command) = commands.recv().await {
            refuse(command, &closed());
        }
        if self.failed.borrow().is_none()
            && let Err(error) = self.checkpoint().await
        {
            tracing::warn!(%error, "the write-ahead log stays; it is read at the next start");
        }
        self.hub.close();
        drop(self.connection);
        drop(self.visitors);
        if let Some(reply) = closing {
            let _ = reply.send(());
        }
    }

    async fn checkpoint(&self) -> Result<(), turso::Error> {
        let mut rows = self.connection.query("PRAGMA wal_checkpoint(TRUNCATE)", ()).await?;
        while rows.next().await?.is_some() {}
        Ok(())
    }

    async fn perform(&mut self, batch: Vec<Command>) {
        if batch.is_empty() {
            return;
        }
        let broken = self.failed.borrow().clone();
        if let Some(reason) = broken {
            batch.into_iter().for_each(|command| refuse(command, &WriteError::Unavailable(reason.clone())));
            return;
        }
        match self.transact(&batch).await {
            Ok((answers, changed)) => {
                if let Some(visitors) = &self.visitors {
                    visitors.refresh();
                }
                changed.iter().for_each(|row| self.hub.publish(row));
                batch.into_iter().zip(answers).for_each(|(command, answer)| reply(command, answer));
            }
            Err(Outcome::Fatal(reason)) => {
                tracing::error!(%reason, "the database failed; nothing is written any more");
                self.failed.send_replace(Some(reason.clone()));
                batch
                    .into_iter()
                    .for_each(|command| refuse(command, &WriteError::Unavailable(reason.clone())));
            }
            // One command must not take the others with it.
            Err(Outcome::Failed(WriteError::Unavailable(_))) if batch.len() > 1 => {
                for command in batch {
                    Box::pin(self.perform(vec![command])).await;
                }
            }
            Err(Outcome::Failed(error)) => {
                tracing::warn!(%error, "a transaction was rolled back");
                batch.into_iter().for_each(|command| refuse(command, &error));
            }
        }
    }

    /// Does all commands in one transaction: what to answer each, and what has changed, in order.
    async fn transact(&mut self, batch: &[Command]) -> Result<(Vec<Answer>, Vec<Arc<ActionRow>>), Outcome> {
        let first_seq = self.next_seq;
        let mut changed = Vec::new();
        let done = async {
            self.execute("BEGIN IMMEDIATE", Vec::new()).await?;
            let mut answers = Vec::with_capacity(batch.len());
            for command in batch {
                answers.push(self.command(command, &mut changed).await?);
            }
            self.execute("COMMIT", Vec::new()).await?;
            Ok::<_, Trouble>(answers)
        }
        .await;
        match done {
            Ok(answers) => Ok((answers, changed)),
            Err(trouble) => {
                self.next_seq = first_seq;
                let outcome = trouble.outcome();
                if !self.connection.is_autocommit().unwrap_or(false)
                    && let Err(error) = self.connection.execute("ROLLBACK", ()).await
                {
                    return Err(Outcome::Fatal(format!(
                        "a transaction could not be rolled back: {}",
                        bounded(&error.to_string())
                    )));
                }
                Err(outcome)
            }
        }
    }

    async fn command(
        &mut self,
        command: &Command,
        changed: &mut Vec<Arc<ActionRow>>,
    ) -> Result<Answer, Trouble> {
        Ok(match command {
            Command::CreateRun(new, _) => Answer::CreateRun(self.create_run(new, changed).await?),
            Command::Enqueue(new, _) => Answer::Enqueue(self.enqueue(new, changed).await?),
            Command::Apply(change, _) => Answer::Apply(self.apply(&change.0, &change.1, changed).await?),
            Command::Close(_) => return Err(Trouble::Broken("closing is no change".into())),
        })
    }

    async fn create_run(
        &mut self,
        new: &NewRun,
        changed: &mut Vec<Arc<ActionRow>>,
    ) -> Result<Result<Arc<ActionRow>, WriteError>, Trouble> {
        let id = &new.root.id;
        if self.load(id).await?.is_some() {
            return Ok(Err(WriteError::AlreadyExists(format!(
                "run {} exists already; choose another name",
                id.run
            ))));
        }
        let run_spec_digest = digest_of(&new.run_spec);
        self.put_spec(&run_spec_digest, sql::RUN_SPEC_KIND, &new.run_spec).await?;
        let mut row = self.admit(&new.spec, new.root.clone(), new.meta.clone()).await?;
        let values = sql::run_values(&row, &new.labels, new.source, &run_spec_digest);
        self.execute(sql::INSERT_RUN, values).await?;
        let run_row_id = self.connection.last_insert_rowid();
        self.insert_action(run_row_id, &mut row).await?;
        let row = Arc::new(row);
        changed.push(row.clone());
        Ok(Ok(row))
    }

    async fn enqueue(
        &mut self,
        new: &NewChild,
        changed: &mut Vec<Arc<ActionRow>>,
    ) -> Result<Result<Enqueued, WriteError>, Trouble> {
        let id = &new.action.id;
        if let Some(found) = self.load(id).await? {
            return Ok(if found.action.request_digest == new.action.request_digest {
                Ok(Enqueued::Same(Arc::new(found)))
            } else {
                Err(WriteError::AlreadyExists(format!("action {id} exists already, made by another request")))
            });
        }
        let Some(run_row_id) = self.run_row_id(&id.run).await? else {
            return Ok(Err(WriteError::NotFound(format!("there is no run {}", id.run))));
        };
        if let Some(parent_id) = new.action.parent.as_ref().map(|name| id.run.action(name.clone())) {
            match self.load(&parent_id).await? {
                None => {
                    return Ok(Err(WriteError::NotFound(format!("there is no parent action {parent_id}"))));
                }
                Some(parent) if parent.action.phase.is_terminal() => {
                    return Ok(Err(WriteError::ParentEnded(format!(
                        "action {id} is not taken: its parent {} has already ended as {}",
                        parent.action.id.name, parent.action.phase
                    ))));
                }
                Some(_) => {}
            }
        }
        let mut row = self.admit(&new.spec, new.action.clone(), new.meta.clone()).await?;
        self.insert_action(run_row_id, &mut row).await?;
        let row = Arc::new(row);
        changed.push(row.clone());
        Ok(Ok(Enqueued::Created(row)))
    }

    async fn apply(
        &mut self,
        id: &ActionId,
        input: &Input,
        changed: &mut Vec<Arc<ActionRow>>,
    ) -> Result<Result<Arc<ActionRow>, ApplyError>, Trouble> {
        let Some(found) = self.load(id).await? else {
            return Ok(Err(ApplyError::NotFound(id.clone())));
        };
        let now = self.clock.now();
        // A broken invariant is a fault of ours; it ends this command and not the writer.
        let stepped = match catch_unwind(AssertUnwindSafe(|| step(&found.action, input, now))) {
            Ok(Ok(stepped)) => stepped,
            Ok(Err(refusal)) => return Ok(Err(ApplyError::Refused(refusal, Arc::new(found)))),
            Err(_) => {
                let reason =
                    format!("a change of action {id} would have broken an invariant; the log has it");
                return Ok(Err(ApplyError::Write(WriteError::Unavailable(reason))));
            }
        };
        let effects = stepped.effects.clone();
        let row = self.save(found, stepped).await?;
        changed.push(row.clone());
        self.follow(&row, effects, changed).await?;
        Ok(Ok(row))
    }

    /// Does what has to follow a change, in the same transaction.
    async fn follow(
        &mut self,
        row: &ActionRow,
        effects: Vec<Effect>,
        changed: &mut Vec<Arc<ActionRow>>,
    ) -> Result<(), Trouble> {
        let mut open: Vec<(ActionId, Effect)> =
            effects.into_iter().map(|effect| (row.action.id.clone(), effect)).collect();
        while let Some((parent, Effect::AbortDescendants { reason })) = open.pop() {
            for child in self.live_children(&parent).await? {
                let input = Input::Abort { reason: reason.clone(), by: String::new() };
                let now = self.clock.now();
                match catch_unwind(AssertUnwindSafe(|| step(&child.action, &input, now))) {
                    Ok(Ok(stepped)) => {
                        let id = child.action.id.clone();
                        open.extend(stepped.effects.iter().map(|effect| (id.clone(), effect.clone())));
                        changed.push(self.save(child, stepped).await?);
                    }
                    Ok(Err(_)) => {}
                    Err(_) => return Err(Trouble::Broken(format!("a child of {parent} cannot be aborted"))),
                }
            }
        }
        Ok(())
    }

    async fn admit(
        &mut self,
        spec: &Spec,
        new: flyte_core::NewAction,
        meta: crate::row::ActionMeta,
    ) -> Result<ActionRow, Trouble> {
        self.put_spec(&spec.digest, sql::spec_kind(spec.kind), &spec.bytes).await?;
        let action = Action::admit(new, self.clock.now());
        flyte_core::invariant::check(&action).map_err(|broken| Trouble::Broken(broken.to_string()))?;
        Ok(ActionRow { row_id: 0, seq: self.take_seq(), action, meta, spec_digest: spec.digest.clone() })
    }

    async fn insert_action(&mut self, run_row_id: i64, row: &mut ActionRow) -> Result<(), Trouble> {
        self.execute(sql::INSERT_ACTION, sql::action_values(run_row_id, row)?).await?;
        row.row_id = self.connection.last_insert_rowid();
        for attempt in &row.action.attempts {
            self.execute(sql::PUT_ATTEMPT, sql::attempt_values(row.row_id, attempt)).await?;
        }
        let first = Transition {
            attempt: 1,
            phase: row.action.phase,
            at: row.action.ended_at.unwrap_or(row.action.created_at),
            message: String::new(),
        };
        self.insert_transition(row.row_id, &first).await
    }

    async fn save(&mut self, before: ActionRow, stepped: Step) -> Result<Arc<ActionRow>, Trouble> {
        let row = ActionRow { seq: self.take_seq(), action: stepped.action, ..before.clone() };
        self.execute(sql::UPDATE_ACTION, sql::action_update_values(&row)?).await?;
        for attempt in changed_attempts(&before.action, &row.action) {
            self.execute(sql::PUT_ATTEMPT, sql::attempt_values(row.row_id, attempt)).await?;
        }
        for transition in &stepped.transitions {
            self.insert_transition(row.row_id, transition).await?;
        }
        if row.action.id.is_root() {
            self.execute(sql::UPDATE_RUN, sql::run_update_values(&row)).await?;
        }
        Ok(Arc::new(row))
    }

    async fn insert_transition(&self, action_row_id: i64, transition: &Transition) -> Result<(), Trouble> {
        let values = vec![
            Value::Integer(action_row_id),
            Value::Integer(transition.attempt.into()),
            Value::Text(transition.phase.name().to_string()),
            Value::Text(transition.at.to_string()),
            Value::Text(transition.message.clone()),
        ];
        let insert =
            "INSERT INTO transitions (action_id, attempt, phase, at, message) VALUES (?1, ?2, ?3, ?4, ?5)";
        self.execute(insert, values).await
    }

    async fn put_spec(&self, digest: &str, kind: &str, bytes: &[u8]) -> Result<(), Trouble> {
        let values =
            vec![Value::Text(digest.to_string()), Value::Text(kind.to_string()), Value::Blob(bytes.to_vec())];
        self.execute("INSERT OR IGNORE INTO specs (digest, kind, bytes) VALUES (?1, ?2, ?3)", values).await
    }

    fn take_seq(&mut self) -> i64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        seq
    }

    async fn load(&self, id: &ActionId) -> Result<Option<ActionRow>, Trouble> {
        let sql = format!("SELECT {} {}", sql::ACTION_COLUMNS, sql::ACTION_BY_ID);
        Ok(self.query(&sql, sql::identity(id), sql::action_row).await?.pop())
    }

    async fn live_children(&self, parent: &ActionId) -> Result<Vec<ActionRow>, Trouble> {
        let sql = format!("SELECT {} {} ORDER BY a.id", sql::ACTION_COLUMNS, sql::CHILDREN_OF);
        let children = self.query(&sql, sql::identity(parent), sql::action_row).await?;
        Ok(children.into_iter().filter(|child| !child.action.phase.is_terminal()).collect())
    }

    async fn run_row_id(&self, id: &RunId) -> Result<Option<i64>, Trouble> {
        let sql = format!("SELECT r.id {}", sql::RUN_BY_ID);
        Ok(self.query(&sql, sql::run_identity(id), |row| sql::integer(row, 0)).await?.pop())
    }

    async fn query<T>(
        &self,
        sql: &str,
        values: Vec<Value>,
        read: impl Fn(&Row) -> Result<T, ReadError>,
    ) -> Result<Vec<T>, Trouble> {
        let mut statement = self.connection.prepare_cached(sql).await?;
        let mut rows = statement.query(values).await?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().await? {
            found.push(read(&row)?);
        }
        Ok(found)
    }

    async fn execute(&self, sql: &str, values: Vec<Value>) -> Result<(), Trouble> {
        let mut statement = self.connection.prepare_cached(sql).await?;
        statement.execute(values).await?;
        Ok(())
    }
}

/// Attempts that are new or other than before.
fn changed_attempts<'a>(before: &Action, after: &'a Action) -> impl Iterator<Item = &'a Attempt> {
    let before = before.attempts.clone();
    after
        .attempts
        .iter()
        .enumerate()
        .filter(move |(index, attempt)| before.get(*index) != Some(attempt))
        .map(|(_, a)| a)
}

pub(crate) fn digest_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        use std::fmt::Write;
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn closed() -> WriteError {
    WriteError::Unavailable("the manager is stopping".into())
}

fn refuse(command: Command, error: &WriteError) {
    match command {
        Command::CreateRun(_, reply) => drop(reply.send(Err(error.clone()))),
        Command::Enqueue(_, reply) => drop(reply.send(Err(error.clone()))),
        Command::Apply(_, reply) => drop(reply.send(Err(ApplyError::Write(error.clone())))),
        Command::Close(reply) => drop(reply.send(())),
    }
}

fn reply(command: Command, answer: Answer) {
    match (command, answer) {
        (Command::CreateRun(_, reply), Answer::CreateRun(answer)) => drop(reply.send(answer)),
        (Command::Enqueue(_, reply), Answer::Enqueue(answer)) => drop(reply.send(answer)),
        (Command::Apply(_, reply), Answer::Apply(answer)) => drop(reply.send(answer)),
        (command, _) => refuse(command, &WriteError::Unavailable("the answer is of another kind".into())),
    }
}
