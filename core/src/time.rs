//! Wall-clock time as the core sees it: a number that was handed in.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// Milliseconds since the Unix epoch. Written as RFC 3339 in UTC (`2026-03-01T12:00:00.000Z`) wherever a person may
/// read it, including the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// The latest time that is accepted: a little before the end of the year 9999, so that it has a date in every time zone.
const MAX_MS: i64 = 253_402_207_199_999;
/// The earliest time that is accepted: the beginning of the year 1 (`google.protobuf.Timestamp`).
const MIN_MS: i64 = -62_135_596_800_000;

impl Timestamp {
    /// A time from milliseconds since the epoch; what lies outside the years 1 to 9999 is moved to the nearest end.
    pub fn from_ms(ms: i64) -> Self {
        Self(ms.clamp(MIN_MS, MAX_MS))
    }

    /// Milliseconds since the epoch.
    pub fn as_ms(self) -> i64 {
        self.0
    }

    /// This time plus a duration, at most the end of the year 9999.
    #[must_use]
    pub fn plus_ms(self, duration_ms: u64) -> Self {
        Self::from_ms(self.0.saturating_add(i64::try_from(duration_ms).unwrap_or(i64::MAX)))
    }

    /// Milliseconds from `earlier` to this time; zero when `earlier` is later, since wall clocks step back.
    pub fn since_ms(self, earlier: Timestamp) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }

    /// Reads RFC 3339. `None` when the text is no time.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(|time| Self::from_ms(time.as_millisecond()))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(f, "{time:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Timestamp::parse(&text)
            .ok_or_else(|| serde::de::Error::custom(format!("'{text}' is not an RFC 3339 time")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_in_utc_with_milliseconds_and_read_back() {
        let time = Timestamp::from_ms(1_772_366_400_123);
        assert_eq!(time.to_string(), "2026-03-01T12:00:00.123Z");
        assert_eq!(Timestamp::parse("2026-03-01T12:00:00.123Z"), Some(time));
        assert_eq!(Timestamp::parse("2026-03-01T13:00:00.123+01:00"), Some(time));
        assert_eq!(Timestamp::parse("yesterday"), None);
    }

    #[test]
    fn times_outside_of_rfc_3339_are_moved_to_the_nearest_end() {
        assert_eq!(Timestamp::from_ms(i64::MAX).to_string(), "9999-12-30T21:59:59.999Z");
        assert_eq!(Timestamp::from_ms(i64::MIN).to_string(), "0001-01-01T00:00:00.000Z");
        assert_eq!(Timestamp::from_ms(5).plus_ms(u64::MAX), Timestamp::from_ms(i64::MAX));
    }

    #[test]
    fn a_span_back_in_time_is_zero() {
        assert_eq!(Timestamp::from_ms(5).since_ms(Timestamp::from_ms(9)), 0);
        assert_eq!(Timestamp::from_ms(9).since_ms(Timestamp::from_ms(5)), 4);
    }
}
