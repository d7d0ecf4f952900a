//! Short texts: quantities, instants, keys, and the JSON of a Merkle frontier.

use super::Target;
use crate::corpus;
use bizrq::domain::{
    merkle::Frontier,
    quantity::Quantity,
    quota::normalise,
    time::{Timestamp, TimestampError},
};

/// Kubernetes quantities.
pub(super) const QUANTITY: Target = Target {
    name: "quantity",
    corpus: || {
        let golden = corpus::text("golden/q.txt");
        let golden = golden.split(|b| *b == b'\n').map(<[u8]>::to_vec);
        golden.chain(corpus::lines("corpus/quantity")).collect()
    },
    tokens: &["Ki", "Mi", "Ei", "E", "e", "m", "n", "u", ".", "-", "+", "e-", "E+", "00", " ", "9"],
    parser: || Box::new(quantity),
};

fn quantity(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let declared = Quantity::parse_declared(text);
    let Ok(parsed) = Quantity::parse(text) else {
        let trimmed = text.trim_matches([' ', '\u{a0}']) != text || text.trim() != text;
        assert!(declared.is_err() || trimmed, "declared only: {declared:?}");
        return false;
    };
    assert!(text.len() <= 64, "a text of {} bytes", text.len());
    let printed = parsed.to_string();
    let again = Quantity::parse(&printed).unwrap_or_else(|e| panic!("{printed} of {text}: {e}"));
    assert_eq!(again, parsed, "{printed} of {text}");
    assert_eq!(again.to_string(), printed, "printed twice: {text}");
    assert_eq!(again.milli(), parsed.milli());
    assert_eq!(parsed.rounded_up().rounded_up(), parsed.rounded_up());
    if let Ok(declared) = declared {
        assert_eq!(declared, parsed);
        assert!(parsed.milli() >= 0 && text.contains(|c: char| c.is_ascii_digit()));
    }
    true
}

/// Instants, as records, recordings and the command line write them.
pub(super) const TIMESTAMP: Target = Target {
    name: "timestamp",
    corpus: || corpus::lines("corpus/timestamp"),
    tokens: &["T", "Z", "-", ":", ".", "+01:00", "-00:00", "000", "60", "2199", "02-29", "t", " "],
    parser: || Box::new(timestamp),
};

fn timestamp(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    // A second reader, which shares nothing with the short way.
    let general = chrono::DateTime::parse_from_rfc3339(text).ok().map(|t| t.timestamp_millis());
    let floor = Timestamp::parse_floor(text);
    let parsed = match Timestamp::parse(text) {
        Ok(parsed) => parsed,
        Err(TimestampError::TooFine(_)) => {
            assert!(floor.is_ok());
            return false;
        }
        Err(why) => {
            assert_eq!(floor, Err(why));
            return false;
        }
    };
    assert_eq!(floor, Ok(parsed));
    assert_eq!(general, Some(parsed.millis()), "{text}");
    let printed = parsed.to_string();
    assert_eq!(printed.len(), 24, "{printed}");
    assert_eq!(Timestamp::parse(&printed), Ok(parsed), "{printed} of {text}");
    true
}

/// Keys of quotas.
pub(super) const KEY: Target = Target {
    name: "key",
    corpus: || corpus::lines("corpus/key"),
    tokens: &["limits.", "requests.", "cash/", "count/", "/", ".", "cpu", "memory", "A4", "-", "_"],
    parser: || {
        Box::new(|input| {
            let Ok(text) = std::str::from_utf8(input) else { return false };
            let Ok(key) = normalise(text) else { return false };
            assert_eq!(normalise(&key).as_deref(), Ok(&*key), "normal forms stay: {text}");
            true
        })
    },
};

/// A Merkle frontier in JSON.
pub(super) const FRONTIER: Target = Target {
    name: "frontier",
    corpus: || {
        let mut frontier = Frontier::default();
        let json = |frontier: &Frontier| serde_json::to_vec(frontier).expect("JSON");
        let mut corpus = vec![json(&frontier)];
        for n in 0..7 {
            frontier.append(bizrq::domain::merkle::Hash([n; 32]));
            corpus.push(json(&frontier));
        }
        corpus
    },
    tokens: &["\"position\":", "\"hashes\":[", "]", ",", "\"", "0", "ff", "null", "-"],
    parser: || {
        Box::new(|input| {
            let Ok(frontier) = serde_json::from_slice::<Frontier>(input) else { return false };
            let json = serde_json::to_string(&frontier).expect("JSON");
            assert_eq!(serde_json::from_str::<Frontier>(&json).ok(), Some(frontier.clone()));
            let _ = frontier.root();
            true
        })
    },
};
