//! `flyteidl2.workflow.RunLogsService`, and the log of an attempt for whoever serves it.

use crate::Fault;
use crate::call::Call;
use crate::convert::{from_proto, to_proto};
use crate::logs::LogLine;
use crate::runs;
use crate::watch::{self, News};
use crate::wire::registry::Registry;
use flyte_core::{ActionId, Timestamp};
use flyte_proto::logs::dataplane as l;
use flyte_proto::workflow as w;
use flyte_store::Topic;
use futures::{Stream, StreamExt};

/// The most lines of one message.
const LINES_MAX: usize = 256;

/// Registers the service's method.
pub fn register(registry: &mut Registry) {
    registry.server_stream("flyteidl2.workflow.RunLogsService/TailLogs", tail_logs);
}

fn tail_logs(
    call: Call,
    request: w::TailLogsRequest,
) -> impl Stream<Item = Result<w::TailLogsResponse, Fault>> + Send {
    async_stream::try_stream! {
        let id = from_proto::required_action_id(request.action_id.as_ref(), "action_id")?;
        let pages = pages(call, id, request.attempt);
        futures::pin_mut!(pages);
        while let Some(lines) = pages.next().await {
            let lines = lines?;
            yield w::TailLogsResponse { logs: vec![w::tail_logs_response::Logs { lines }] };
        }
    }
}

/// The log of an attempt from its beginning to its end, some lines at a time: from the Pod while it is there, from the
/// archive afterwards. Ends when the attempt has ended and everything was said.
pub fn pages(
    call: Call,
    id: ActionId,
    number: u32,
) -> impl Stream<Item = Result<Vec<l::LogLine>, Fault>> + Send {
    async_stream::try_stream! {
        let mut changes = call.store.subscribe(Topic::Action(id.clone()));
        loop {
            let row = runs::required_action(&call, &id).await?;
            let attempt = row
                .action
                .attempts
                .iter()
                .find(|attempt| attempt.number == number)
                .ok_or_else(|| Fault::not_found(format!("action {id} has no attempt {number}")))?;
            let archive = format!("{}/logs.txt", row.action.output_prefix(number));
            let source = call.logs.clone().filter(|_| to_proto::logs_available(attempt));
            // The log is archived before its Pod is deleted, so one of the two has it: archive, Pod, archive.
            let mut text = archived(&call, &archive).await;
            let mut live = None;
            if let (Ok(None), Some(source)) = (&text, source) {
                live = source.tail(&row.action, number).await.map_err(Fault::unavailable)?;
                if live.is_none() {
                    text = archived(&call, &archive).await;
                }
            }
            if let Ok(Some(text)) = &text {
                let mut page = Vec::new();
                for line in text.lines() {
                    page.push(log_line(archived_line(line)));
                    if page.len() == LINES_MAX {
                        yield std::mem::take(&mut page);
                    }
                }
                if !page.is_empty() {
                    yield page;
                }
                return;
            }
            if let Some(lines) = live {
                let mut chunks = lines.ready_chunks(LINES_MAX);
                loop {
                    let chunk = tokio::select! {
                        biased;
                        () = call.shutdown.cancelled() => Err(Fault::shutting_down()),
                        chunk = chunks.next() => Ok(chunk),
                    };
                    let Some(chunk) = chunk? else { return };
                    let lines = chunk.into_iter().collect::<Result<Vec<_>, _>>().map_err(Fault::unavailable)?;
                    let lines: Vec<_> = lines.into_iter().map(log_line).collect();
                    yield lines;
                }
            }
            if attempt.phase.is_terminal() {
                text?;
                Err(Fault::not_found(format!("attempt {number} of action {id} left no log")))?;
            }
            // It has not started: wait until something changes.
            match watch::next(&call, &mut changes).await? {
                News::Changed(_) | News::Missed => {}
            }
        }
    }
}

/// The log that was kept of an attempt whose Pod is gone.
async fn archived(call: &Call, uri: &str) -> Result<Option<String>, Fault> {
    let found = call.objects.get(uri, call.limits.log_max_bytes).await?;
    Ok(found.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

fn log_line(line: LogLine) -> l::LogLine {
    l::LogLine {
        timestamp: line.at.map(to_proto::timestamp),
        // Clients print messages as they are.
        message: line.text + "\n",
        originator: l::LogLineOriginator::User.into(),
        short_pod_name: String::new(),
    }
}

/// A line of the archive: the time, a space, the text, as the Pod log endpoint writes it with timestamps.
fn archived_line(line: &str) -> LogLine {
    match line.split_once(' ') {
        Some((at, text)) if Timestamp::parse(at).is_some() => {
            LogLine { at: Timestamp::parse(at), text: text.to_string() }
        }
        _ => LogLine { at: None, text: line.to_string() },
    }
}
