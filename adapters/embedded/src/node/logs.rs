//! The output of containers, in files: each line begins with the time at which it was complete.

use crate::api_server::{LogQuery, LogStream, Now, PodLogs};
use bytes::Bytes;
use flyte_core::Timestamp;
use futures::FutureExt;
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// The most bytes that are kept of one container's output.
const LOG_MAX_BYTES: u64 = 256 * 1024 * 1024;
/// The longest line; a longer one is split.
const LINE_MAX_BYTES: usize = 64 * 1024;
/// How much is read from a file at a time.
const CHUNK_BYTES: usize = 64 * 1024;

type Key = (String, String);

#[derive(Clone)]
struct Entry {
    path: PathBuf,
    /// How many bytes the file has, and whether it is complete.
    state: watch::Receiver<(u64, bool)>,
}

/// The logs of all containers on this node.
#[derive(Clone, Default)]
pub struct ContainerLogs {
    entries: Arc<Mutex<BTreeMap<Key, Entry>>>,
}

impl ContainerLogs {
    /// Begins the log of a container.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub(crate) fn open(
        &self,
        uid: &str,
        container: &str,
        path: &Path,
        now: Now,
    ) -> std::io::Result<LogWriter> {
        let file = File::options().create(true).append(true).open(path)?;
        let len = file.metadata()?.len();
        let (state, receiver) = watch::channel((len, false));
        let entry = Entry { path: path.to_path_buf(), state: receiver };
        self.lock().insert((uid.to_string(), container.to_string()), entry);
        let inner = Inner { file, len, state, now, partial: BTreeMap::new() };
        Ok(LogWriter(Arc::new(Mutex::new(inner))))
    }

    /// Forgets the logs of a Pod.
    pub(crate) fn forget(&self, uid: &str) {
        self.lock().retain(|(found, _), _| found != uid);
    }

    /// The last bytes of a container's output, without times.
    pub(crate) fn tail(&self, uid: &str, container: &str, max_bytes: usize) -> String {
        let key = (uid.to_string(), container.to_string());
        let Some(entry) = self.lock().get(&key).cloned() else { return String::new() };
        // Each line is longer in the file, by its time; twice the bytes hold what is asked for.
        let text = end_of(&entry.path, 2 * max_bytes as u64 + CHUNK_BYTES as u64).unwrap_or_default();
        let text: String = text.lines().map(|line| split(line).1.to_string() + "\n").collect();
        let mut start = text.len().saturating_sub(max_bytes);
        while !text.is_char_boundary(start) {
            start += 1;
        }
        text[start..].to_string()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Key, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Inner {
    file: File,
    len: u64,
    state: watch::Sender<(u64, bool)>,
    now: Now,
    /// What has come of a line, by stream.
    partial: BTreeMap<u8, Vec<u8>>,
}

/// Writes the log of one container.
#[derive(Clone)]
pub struct LogWriter(Arc<Mutex<Inner>>);

impl LogWriter {
    /// Takes output of one of the container's streams.
    pub fn write(&self, stream: u8, bytes: &[u8]) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut line = inner.partial.remove(&stream).unwrap_or_default();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(piece);
            if line.ends_with(b"\n") || line.len() >= LINE_MAX_BYTES {
                inner.line(&line);
                line.clear();
            }
        }
        if !line.is_empty() {
            inner.partial.insert(stream, line);
        }
    }

    /// The container has ended.
    pub fn finish(&self) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for line in std::mem::take(&mut inner.partial).into_values() {
            inner.line(&line);
        }
        inner.state.send_modify(|state| state.1 = true);
    }
}

impl Inner {
    fn line(&mut self, line: &[u8]) {
        if self.len >= LOG_MAX_BYTES {
            return;
        }
        let mut text = format!("{} ", (self.now)()).into_bytes();
        text.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
        text.push(b'\n');
        if self.len + text.len() as u64 >= LOG_MAX_BYTES {
            text = format!(
                "{} [the output is longer than {LOG_MAX_BYTES} bytes; the rest is not kept]\n",
                (self.now)()
            )
            .into_bytes();
            self.len = LOG_MAX_BYTES;
        }
        // A full disk must not stop the container.
        if self.file.write_all(&text).is_ok() {
            self.len = self.len.max(self.file.stream_position().unwrap_or(self.len));
        }
        let len = self.file.metadata().map_or(self.len, |metadata| metadata.len());
        self.state.send_modify(|state| state.0 = len);
    }
}

/// The whole lines at the end of a file.
fn end_of(path: &Path, max_bytes: u64) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let from = file.metadata()?.len().saturating_sub(max_bytes);
    file.seek(std::io::SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // The first line is whole only at the beginning of the file.
    Ok(if from == 0 {
        text
    } else {
        text.split_once('\n').map(|(_, rest)| rest.to_string()).unwrap_or_default()
    })
}

/// The time of a line and its text.
fn split(line: &str) -> (Option<Timestamp>, &str) {
    match line.split_once(' ') {
        Some((at, text)) => (Timestamp::parse(at), text),
        None => (None, line),
    }
}

impl PodLogs for ContainerLogs {
    fn read(
        &self,
        uid: &str,
        container: &str,
        query: LogQuery,
    ) -> BoxFuture<'static, Result<LogStream, String>> {
        let entry = self.lock().get(&(uid.to_string(), container.to_string())).cloned();
        let container = container.to_string();
        async move {
            let entry = entry.ok_or_else(|| {
                format!("container \"{container}\" in pod is waiting to start: there is no log yet")
            })?;
            let file = File::open(&entry.path).map_err(|error| format!("the log cannot be read: {error}"))?;
            let since = query.since_s.map(|s| s.saturating_mul(1_000));
            let reader = Reader { file, query: query.clone(), sent: 0, carry: Vec::new(), since_ms: since };
            Ok(stream(reader, entry).boxed_stream())
        }
        .boxed()
    }
}

trait Boxed {
    fn boxed_stream(self) -> LogStream;
}

impl<S: futures::Stream<Item = Result<Bytes, std::io::Error>> + Send + 'static> Boxed for S {
    fn boxed_stream(self) -> LogStream {
        futures::StreamExt::boxed(self)
    }
}

struct Reader {
    file: File,
    query: LogQuery,
    sent: usize,
    /// What has been read of a line that is not complete.
    carry: Vec<u8>,
    since_ms: Option<u64>,
}

impl Reader {
    /// What has been added to the file, as it is to be shown; `None` when nothing has.
    fn more(&mut self) -> std::io::Result<Option<Vec<String>>> {
        let mut buffer = vec![0; CHUNK_BYTES];
        let read = self.file.read(&mut buffer)?;
        if read == 0 {
            return Ok(None);
        }
        self.carry.extend_from_slice(buffer.get(..read).unwrap_or_default());
        let complete = self.carry.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let rest = self.carry.split_off(complete);
        let lines = std::mem::replace(&mut self.carry, rest);
        Ok(Some(String::from_utf8_lossy(&lines).lines().map(str::to_string).collect()))
    }

    fn shown(&self, lines: &[String], now: Option<Timestamp>) -> Vec<u8> {
        let mut text = String::new();
        for line in lines {
            let (at, rest) = split(line);
            let too_old =
                self.since_ms.zip(now).zip(at).is_some_and(|((since, now), at)| now.since_ms(at) > since);
            if !too_old {
                text.push_str(if self.query.timestamps { line } else { rest });
                text.push('\n');
            }
        }
        text.into_bytes()
    }

    /// Cuts to the bytes that are still allowed.
    fn limited(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        if let Some(limit) = self.query.limit_bytes {
            bytes.truncate(limit.saturating_sub(self.sent));
        }
        self.sent += bytes.len();
        bytes
    }

    fn is_full(&self) -> bool {
        self.query.limit_bytes.is_some_and(|limit| self.sent >= limit)
    }
}

fn stream(
    mut reader: Reader,
    mut entry: Entry,
) -> impl futures::Stream<Item = Result<Bytes, std::io::Error>> + Send {
    async_stream::try_stream! {
        // The newest line tells what time it is on the writer's clock.
        let mut newest = None;
        if reader.query.tail_lines.is_some() || reader.since_ms.is_some() {
            let mut last: std::collections::VecDeque<String> = std::collections::VecDeque::new();
            let keep = reader.query.tail_lines.unwrap_or(usize::MAX);
            while let Some(lines) = reader.more()? {
                for line in lines {
                    newest = split(&line).0.or(newest);
                    last.push_back(line);
                    if last.len() > keep {
                        last.pop_front();
                    }
                }
            }
            let lines: Vec<String> = last.into_iter().collect();
            let bytes = reader.shown(&lines, newest);
            let bytes = reader.limited(bytes);
            yield Bytes::from(bytes);
        }
        loop {
            let (_, ended) = *entry.state.borrow_and_update();
            while let Some(lines) = reader.more()? {
                let bytes = reader.shown(&lines, None);
                let bytes = reader.limited(bytes);
                if !bytes.is_empty() {
                    yield Bytes::from(bytes);
                }
                if reader.is_full() {
                    return;
                }
            }
            if ended || !reader.query.follow || reader.is_full() {
                return;
            }
            if entry.state.changed().await.is_err() {
                // The writer is gone without a word; what is there is all there is.
                reader.query.follow = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::TryStreamExt;

    async fn text(logs: &ContainerLogs, query: LogQuery) -> String {
        let stream = logs.read("u", "c", query).await.unwrap();
        let bytes: Vec<Bytes> = stream.try_collect().await.unwrap();
        String::from_utf8(bytes.concat()).unwrap()
    }

    #[tokio::test]
    async fn lines_are_kept_with_their_times_and_read_in_every_form() {
        let dir = tempfile::tempdir().unwrap();
        let logs = ContainerLogs::default();
        let time = Arc::new(std::sync::atomic::AtomicI64::new(0));
        let clock = time.clone();
        let now: Now = Arc::new(move || Timestamp::from_ms(clock.load(std::sync::atomic::Ordering::Relaxed)));
        let writer = logs.open("u", "c", &dir.path().join("log"), now).unwrap();
        writer.write(1, b"one\ntw");
        time.store(10_000, std::sync::atomic::Ordering::Relaxed);
        writer.write(2, b"error\n");
        writer.write(1, b"o\nthree");
        assert_eq!(text(&logs, LogQuery::default()).await, "one\nerror\ntwo\n");
        let follow = LogQuery { follow: true, ..LogQuery::default() };
        let (all, ()) = tokio::join!(text(&logs, follow), async {
            tokio::task::yield_now().await;
            writer.finish();
        });
        assert_eq!(all, "one\nerror\ntwo\nthree\n");
        assert_eq!(
            text(&logs, LogQuery { tail_lines: Some(2), ..LogQuery::default() }).await,
            "two\nthree\n"
        );
        assert_eq!(text(&logs, LogQuery { limit_bytes: Some(5), ..LogQuery::default() }).await, "one\ne");
        assert_eq!(
            text(&logs, LogQuery { since_s: Some(5), ..LogQuery::default() }).await,
            "error\ntwo\nthree\n"
        );
        assert_eq!(
            text(&logs, LogQuery { timestamps: true, tail_lines: Some(1), ..LogQuery::default() }).await,
            "1970-01-01T00:00:10.000Z three\n"
        );
        assert_eq!(logs.tail("u", "c", 9), "two\nthree\n"[1..].to_string());
        assert!(logs.read("u", "other", LogQuery::default()).await.is_err());
    }
}
