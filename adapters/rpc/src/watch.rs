//! The store's changes as streams without a gap: subscribe first, then read, then merge by sequence number. A stream
//! that fell behind reads what it needs again. A clean end means that a terminal state was delivered; everything else
//! ends with an error that clients answer by connecting again.

use crate::Fault;
use crate::call::Call;
use crate::runs;
use flyte_core::ActionId;
use flyte_store::{ActionRow, ReadError, RecvError, Subscription, Topic};
use futures::Stream;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a subscription says.
pub enum News {
    /// A change.
    Changed(Arc<ActionRow>),
    /// Changes were missed: read again.
    Missed,
}

/// Waits for the next change, or the end of the server.
pub async fn next(call: &Call, changes: &mut Subscription) -> Result<News, Fault> {
    tokio::select! {
        biased;
        () = call.shutdown.cancelled() => Err(Fault::shutting_down()),
        news = changes.recv() => match news {
            Ok(row) => Ok(News::Changed(row)),
            Err(RecvError::Lagged) => Ok(News::Missed),
            Err(RecvError::Closed) => Err(Fault::shutting_down()),
        },
    }
}

/// Every state of one action from the present one on, each newer than the one before, until it has ended.
pub fn action(call: Call, id: ActionId) -> impl Stream<Item = Result<Arc<ActionRow>, Fault>> + Send {
    async_stream::try_stream! {
        let mut changes = call.store.subscribe(Topic::Action(id.clone()));
        let mut row = runs::required_action(&call, &id).await?;
        loop {
            let seq = row.seq;
            let ended = row.action.phase.is_terminal();
            yield row;
            if ended {
                break;
            }
            row = loop {
                let next = match next(&call, &mut changes).await? {
                    News::Changed(row) => row,
                    News::Missed => runs::required_action(&call, &id).await?,
                };
                if next.seq > seq {
                    break next;
                }
            };
        }
    }
}

/// What a stream over many actions says.
pub enum Item {
    /// The newest states of some actions, in the order of their changes; each newer than what was said before of it.
    Rows(Vec<Arc<ActionRow>>),
    /// Everything that was there at the beginning has been said.
    CaughtUp,
}

/// Which actions a stream is about.
#[derive(Clone)]
pub enum Many {
    /// The children of an action.
    Children(ActionId),
    /// All actions of a run.
    Run(flyte_core::RunId),
}

impl Many {
    fn topic(&self) -> Topic {
        match self {
            Self::Children(parent) => Topic::Children(parent.clone()),
            Self::Run(run) => Topic::Run(run.clone()),
        }
    }

    async fn page(&self, call: &Call, after_row_id: i64) -> Result<Vec<Arc<ActionRow>>, ReadError> {
        match self {
            Self::Children(parent) => call.store.children(parent, after_row_id, call.limits.page).await,
            Self::Run(run) => call.store.run_actions(run, after_row_id, call.limits.page).await,
        }
    }
}

/// All actions as they are, page by page, then a mark, then every change.
pub fn many(call: Call, of: Many) -> impl Stream<Item = Result<Item, Fault>> + Send {
    async_stream::try_stream! {
        let mut changes = call.store.subscribe(of.topic());
        // The number of the last change that was said of each action, by row id.
        let mut said: BTreeMap<i64, i64> = BTreeMap::new();
        let mut caught_up = false;
        loop {
            let mut after = 0;
            loop {
                let page = of.page(&call, after).await?;
                let Some(last) = page.last() else { break };
                after = last.row_id;
                let news = newer(page, &mut said);
                if !news.is_empty() {
                    yield Item::Rows(news);
                }
            }
            if !caught_up {
                caught_up = true;
                yield Item::CaughtUp;
            }
            while let News::Changed(row) = next(&call, &mut changes).await? {
                let news = newer(vec![row], &mut said);
                if !news.is_empty() {
                    yield Item::Rows(news);
                }
            }
        }
    }
}

fn newer(rows: Vec<Arc<ActionRow>>, said: &mut BTreeMap<i64, i64>) -> Vec<Arc<ActionRow>> {
    let mut news: Vec<_> =
        rows.into_iter().filter(|row| said.get(&row.row_id).is_none_or(|seq| *seq < row.seq)).collect();
    news.sort_by_key(|row| row.seq);
    for row in &news {
        said.insert(row.row_id, row.seq);
    }
    news
}
