//! How long the API server waits, by its own word: `?timeout=10s`.

use std::time::Duration;
use tokio::time::Instant;

/// No webhook may take longer (Kubernetes: 1 to 30 s).
const MOST: Duration = Duration::from_secs(30);
/// An answer needs its time, too: a tenth of the timeout, at most this.
const MARGIN: Duration = Duration::from_millis(500);

/// Until when a review that `began` must be answered, so that the answer is heard in time.
pub(super) fn deadline(began: Instant, query: Option<&str>, otherwise: Duration) -> Instant {
    let timeout = query.and_then(given).unwrap_or(otherwise).min(MOST);
    began + timeout - MARGIN.min(timeout / 10)
}

fn given(query: &str) -> Option<Duration> {
    query.split('&').find_map(|pair| pair.strip_prefix("timeout=")).and_then(duration)
}

/// A duration as Go writes it: `1m30s`, `2.5s`, `250ms`. Finer than a millisecond is dropped.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut ms: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, behind) = rest.split_at(digits);
        let letters = behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(letters);
        let unit: u64 = match unit {
            "h" => 3_600_000,
            "m" => 60_000,
            "s" => 1_000,
            "ms" => 1,
            _ => return None,
        };
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let part: String = part.chars().chain("000".chars()).take(3).collect();
        let thousandths = whole.parse::<u64>().ok()?.checked_mul(1000)?;
        let thousandths = thousandths.checked_add(part.parse().ok()?)?;
        ms = ms.checked_add(thousandths.checked_mul(unit)? / 1000)?;
        rest = behind;
    }
    (ms > 0).then(|| Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        let table: &[(&str, Option<u64>)] = &[
            ("10s", Some(10_000)),
            ("1m0s", Some(60_000)),
            ("1h2m3.5s", Some(3_723_500)),
            ("2.5s", Some(2_500)),
            ("1.0019s", Some(1_001)),
            ("250ms", Some(250)),
            ("30", None),
            ("s", None),
            ("", None),
            ("0s", None),
            ("-1s", None),
            ("1.2.3s", None),
            ("10 s", None),
            ("10µs", None),
            ("99999999999999999999s", None),
            ("9999999999999999h", None),
        ];
        for (text, ms) in table {
            assert_eq!(duration(text), ms.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn an_answer_is_due_before_the_api_server_stops_waiting() {
        let began = Instant::now();
        let due = |query: Option<&str>| {
            deadline(began, query, Duration::from_secs(5)).duration_since(began).as_millis()
        };
        assert_eq!(due(Some("timeout=10s")), 9_500);
        assert_eq!(due(Some("a=b&timeout=1s")), 900);
        assert_eq!(due(Some("timeout=1h0m0s")), 29_500);
        assert_eq!(due(Some("timeout=soon")), 4_500);
        assert_eq!(due(None), 4_500);
    }
}
