//! The store as its users hold it.

use crate::clock::Clock;
use crate::error::{ApplyError, OpenError, WriteError, bounded};
use crate::hub::{Hub, Subscription, Topic};
use crate::read::Readers;
use crate::row::{ActionRow, NewChild, NewRun};
use crate::schema;
use crate::visitor::Visitors;
use crate::writer::{Command, Enqueued, Writer};
use flyte_core::{ActionId, Input};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// How long a statement waits for another process's lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// How to open a store.
#[derive(Clone)]
pub struct Options {
    /// The database file; it is created when it is missing.
    pub path: String,
    /// The disk; `None` is the operating system's.
    pub io: Option<Arc<dyn turso_core::IO>>,
    /// The wall clock.
    pub clock: Clock,
    /// The most commands of one transaction.
    pub batch_max: usize,
    /// The most commands that wait for the writer.
    pub queue_max: usize,
    /// The most changes that wait for one subscriber before it lags.
    pub watch_buffer: usize,
    /// How many reads go on at once.
    pub readers: usize,
}

impl Options {
    /// A file on the operating system's disk, with the usual limits.
    pub fn file(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            io: None,
            clock: Clock::system(),
            batch_max: 128,
            queue_max: 4096,
            watch_buffer: 1024,
            readers: 4,
        }
    }
}

pub(crate) struct Inner {
    commands: mpsc::Sender<Command>,
    pub(crate) readers: Readers,
    hub: Hub,
    clock: Clock,
    pub(crate) failed: watch::Receiver<Option<String>>,
}

/// Runs and actions in one SQLite file. Clones share it.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

impl Store {
    /// Opens the database, brings its schema up to date and starts the writer.
    ///
    /// # Errors
    /// When the file is no database of ours, is newer than this program, or cannot be read or written.
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        let failed = |error: turso::Error| OpenError::Open {
            path: options.path.clone(),
            reason: bounded(&error.to_string()),
        };
        let visitors = match options.io {
            Some(_) => None,
            None => Some(
                Visitors::admit(&options.path)
                    .map_err(|reason| OpenError::Open { path: options.path.clone(), reason })?,
            ),
        };
        let mut builder =
            turso::Builder::new_local(&options.path).experimental_multiprocess_wal(options.io.is_none());
        if let Some(io) = options.io.clone() {
            builder = builder.with_io_impl(io);
        }
        let database = builder.build().await.map_err(failed)?;
        let connect = || {
            let connection = database.connect()?;
            connection.busy_timeout(BUSY_TIMEOUT)?;
            Ok(connection)
        };
        let connection = connect().map_err(failed)?;
        schema::migrate(&connection, &options.clock).await.map_err(OpenError::Migrate)?;
        let next_seq = Writer::last_seq(&connection)
            .await
            .map_err(|error| OpenError::Open { path: options.path.clone(), reason: error.to_string() })?
            + 1;
        let readers =
            (0..options.readers.max(1)).map(|_| connect()).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let hub = Hub::new(options.watch_buffer);
        let (failed_sender, failed) = watch::channel(None);
        let (commands, receiver) = mpsc::channel(options.queue_max.max(1));
        let writer = Writer {
            connection,
            clock: options.clock.clone(),
            hub: hub.clone(),
            visitors,
            batch_max: options.batch_max.max(1),
            next_seq,
            failed: failed_sender.clone(),
        };
        let writing = tokio::spawn(writer.run(receiver));
        // The engine panics where it cannot go on, such as after a sync that failed: what it then has in memory may not
        // be what the disk has, and only a new start can tell.
        tokio::spawn(async move {
            if let Err(ended) = writing.await
                && ended.is_panic()
            {
                failed_sender.send_replace(Some("its engine gave up; the log says why".into()));
            }
        });
        let inner = Inner { commands, readers: Readers::new(readers), hub, clock: options.clock, failed };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Does what was accepted, then closes the file. Every later command is refused.
    pub async fn close(&self) {
        let (reply, done) = oneshot::channel();
        self.inner.readers.close();
        if self.inner.commands.send(Command::Close(reply)).await.is_ok() {
            let _ = done.await;
        }
    }

    /// Returns when the database has failed in a way that only a new start can cure, with the reason.
    pub async fn failed(&self) -> String {
        let mut failed = self.inner.failed.clone();
        loop {
            if let Some(reason) = failed.borrow_and_update().clone() {
                return reason;
            }
            if failed.changed().await.is_err() {
                // The writer was closed in good order.
                std::future::pending::<()>().await;
            }
        }
    }

    /// The wall clock of everything that is stored.
    pub fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    /// Hears of changes from now on, each after it is durable.
    pub fn subscribe(&self, topic: Topic) -> Subscription {
        self.inner.hub.subscribe(topic)
    }

    /// Stores a run together with its root action.
    ///
    /// # Errors
    /// `AlreadyExists` when there is a run of this name, whoever made it (case 48), or when nothing can be written.
    pub async fn create_run(&self, new: NewRun) -> Result<Arc<ActionRow>, WriteError> {
        let (reply, answer) = oneshot::channel();
        self.offer(Command::CreateRun(Box::new(new), reply))?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Stores an action under its parent. The same request again answers the same action.
    ///
    /// # Errors
    /// `AlreadyExists`, `NotFound` for the run or the parent, `ParentEnded`, or when nothing can be written.
    pub async fn enqueue(&self, new: NewChild) -> Result<Enqueued, WriteError> {
        let (reply, answer) = oneshot::channel();
        self.offer(Command::Enqueue(Box::new(new), reply))?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Applies an input to an action, and what follows from it, in one transaction.
    ///
    /// # Errors
    /// `NotFound`, `Refused` when the action does not take the input, or when nothing can be written.
    pub async fn apply(&self, id: &ActionId, input: Input) -> Result<Arc<ActionRow>, ApplyError> {
        let (reply, answer) = oneshot::channel();
        if self.inner.commands.send(Command::Apply(Box::new((id.clone(), input)), reply)).await.is_err() {
            return Err(ApplyError::Write(gone()));
        }
        answer.await.unwrap_or_else(|_| Err(ApplyError::Write(gone())))
    }

    /// New work is refused rather than queued without bound; what belongs to work that was accepted waits.
    fn offer(&self, command: Command) -> Result<(), WriteError> {
        self.inner.commands.try_send(command).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => WriteError::Overloaded,
            mpsc::error::TrySendError::Closed(_) => gone(),
        })
    }
}

fn gone() -> WriteError {
    WriteError::Unavailable("the manager is stopping".into())
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}
