//! From when to when a certificate holds. Of X.509 only this is read; that chains are sound is for the clients to judge.
//!
//! ```text
//!  Certificate { tbsCertificate { [0] version?, serial, algorithm, issuer, validity { from, until }, … }, … }
//! ```

use super::pair::PairError;
use crate::domain::time::Timestamp;

/// From when to when something holds, both instants included. What lies after 2199 is its last millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first instant.
    pub from: Timestamp,
    /// The last.
    pub until: Timestamp,
}

impl Validity {
    /// Whether it holds at `now`.
    ///
    /// # Errors
    /// [`PairError::Expired`], [`PairError::NotYet`].
    pub fn check(self, now: Timestamp) -> Result<(), PairError> {
        match self {
            Self { until, .. } if until < now => Err(PairError::Expired { until }),
            Self { from, .. } if now < from => Err(PairError::NotYet { from }),
            _ => Ok(()),
        }
    }
}

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The validity of a DER certificate; `None` if it is none.
pub(super) fn read(der: &[u8]) -> Option<Validity> {
    let (certificate, _) = expect(SEQUENCE, der)?;
    let (mut rest, _) = expect(SEQUENCE, certificate)?;
    if rest.first() == Some(&VERSION) {
        (_, _, rest) = element(rest)?;
    }
    for _serial_algorithm_issuer in 0..3 {
        (_, _, rest) = element(rest)?;
    }
    let (validity, _) = expect(SEQUENCE, rest)?;
    let (tag, from, rest) = element(validity)?;
    let from = instant(tag, from)?;
    let (tag, until, _) = element(rest)?;
    Some(Validity { from, until: instant(tag, until)? })
}

fn expect(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = element(der)?;
    (found == tag).then_some((content, rest))
}

/// Tag, content, and what comes behind.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        // A length of more than four bytes is no certificate's, and 0x80 is no DER.
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            (digits.iter().fold(0, |length, digit| (length << 8) | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// `YYMMDDHHMMSSZ` (of 1950 to 2049) or `YYYYMMDDHHMMSSZ`; RFC 5280 allows no other form.
fn instant(tag: u8, text: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(text).ok()?;
    let full = match (tag, text.len()) {
        (UTC_TIME, 13) => {
            let century = if text < "5" { "20" } else { "19" };
            format!("{century}{text}")
        }
        (GENERALIZED_TIME, 15) => text.to_owned(),
        _ => return None,
    };
    let digits = full.strip_suffix('Z').filter(|d| d.bytes().all(|b| b.is_ascii_digit()))?;
    let (date, time) = digits.split_at_checked(8)?;
    // What is outside the years that bizrq keeps holds always, or never.
    if date < "19700101" {
        return Some(Timestamp::MIN);
    }
    if date >= "22000101" {
        return Some(Timestamp::MAX);
    }
    let (y, m, d) = (&date[..4], &date[4..6], &date[6..]);
    let (h, min, s) = (&time[..2], &time[2..4], &time[4..]);
    Timestamp::parse(&format!("{y}-{m}-{d}T{h}:{min}:{s}Z")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    #[test]
    fn both_forms_of_time_are_read_and_no_other() {
        let table: &[(u8, &str, Option<&str>)] = &[
            (UTC_TIME, "261129160000Z", Some("2026-11-29T16:00:00Z")),
            (UTC_TIME, "491231235959Z", Some("2049-12-31T23:59:59Z")),
            (UTC_TIME, "991231235959Z", Some("1999-12-31T23:59:59Z")),
            (UTC_TIME, "500101000000Z", Some("1970-01-01T00:00:00Z")),
            (GENERALIZED_TIME, "20501231235959Z", Some("2050-12-31T23:59:59Z")),
            (GENERALIZED_TIME, "99991231235959Z", Some("2199-12-31T23:59:59.999Z")),
            (GENERALIZED_TIME, "20261301000000Z", None),
            (GENERALIZED_TIME, "2026112916000Z", None),
            (GENERALIZED_TIME, "20261129160000+", None),
            (UTC_TIME, "2611291600Z", None),
            (UTC_TIME, "26112916ö00Z", None),
            (0x04, "261129160000Z", None),
        ];
        for (tag, text, expected) in table {
            assert_eq!(instant(*tag, text.as_bytes()), expected.map(at), "{text}");
        }
    }

    #[test]
    fn every_beginning_of_a_certificate_and_every_bent_byte_is_read_without_a_panic() {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        let der = params.self_signed(&key).unwrap().der().to_vec();
        assert!(read(&der).is_some());
        for end in 0..der.len() {
            assert_eq!(read(&der[..end]), None, "{end} bytes of {}", der.len());
        }
        for at in 0..der.len() {
            for bend in [0x01, 0x80, 0xff] {
                let mut bent = der.clone();
                bent[at] ^= bend;
                let _ = read(&bent);
            }
        }
    }
}
