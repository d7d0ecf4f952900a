//! The one place where this program asks what time it is.

use crate::domain::time::Timestamp;

/// Now, by this host's clock, in whole milliseconds.
#[must_use]
pub fn now() -> Timestamp {
    let millis = chrono::Utc::now().timestamp_millis();
    // A host clock outside 1970 to 2199 is moved to the nearest end: an event needs a time, and says whose it is.
    Timestamp::MIN.shifted(millis)
}
