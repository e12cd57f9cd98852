//! The one place where the wall clock is read.

use flyte_core::Timestamp;
use std::fmt;
use std::sync::Arc;

/// A source of wall-clock time, handed to whoever needs it.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self::from_fn(|| {
            #[allow(
                clippy::disallowed_methods,
                reason = "this is the one place where the wall clock is read"
            )]
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            Timestamp::from_ms(since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX)))
        })
    }

    /// A clock that tells what the function says.
    pub fn from_fn(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
