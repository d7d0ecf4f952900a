//! Lines of a log, there and back: literal lines, shuffled and spaced ones, and what must be refused.

use super::{
    Decoded, Decoder, EncodeError, MAX_LINE_BYTES, NewEvent, decode, memo::Memo, scan, short,
};
use crate::domain::{
    event::{ClusterBound, Data, Event, Kind, TypeName},
    merkle::{Frontier, LeafHasher},
};
use proptest::prelude::*;

/// Literal lines of every type, and the root of the log that they are; both were made by another program.
const LINES: &str = include_str!("../../../tests/fixtures/events/v1.jsonl");
const ROOT: &str = "d4202585752e85e5a665674fcbb1902f115c11496d5e0b23db94b42e162cb1ce";

fn lines() -> impl Iterator<Item = (u64, &'static str)> {
    (1..).zip(LINES.lines())
}

fn event(line: &str) -> Event<'_> {
    match decode(&scan(line.as_bytes()).unwrap()).unwrap() {
        Decoded::Event(event) => event,
        other => panic!("{other:?}: {line}"),
    }
}

#[test]
fn literal_lines_cover_every_type() {
    let mut kinds: Vec<_> = lines().filter_map(|(_, line)| event(line).data.kind()).collect();
    kinds.sort();
    kinds.dedup();
    assert_eq!(kinds, {
        let mut all = Kind::ALL.to_vec();
        all.sort();
        all
    });
}

#[test]
fn literal_lines_decode_for_ever_and_encode_to_the_same_bytes() {
    let (mut hasher, mut tree) = (LeafHasher::default(), Frontier::default());
    for (position, line) in lines() {
        let scanned = scan(line.as_bytes()).unwrap();
        let leaf = hasher.leaf(position, &scanned.leaf_input());
        assert_eq!(scanned.leaf, Some(leaf), "leaf of {line}");
        tree.append(leaf);
        let again = NewEvent::new(&event(line)).unwrap();
        assert_eq!(NewEvent::copied(&scanned).unwrap(), again);
        let mut bytes = Vec::new();
        again.write_line(position, &mut hasher, &mut bytes);
        assert_eq!(String::from_utf8(bytes).unwrap(), format!("{line}\n"));
    }
    assert_eq!(tree.root().to_string(), ROOT);
}

#[test]
fn a_decoder_that_remembers_says_what_the_types_say() {
    let mut decoder = Decoder::default();
    for _ in 0..2 {
        for (_, line) in lines() {
            let scanned = scan(line.as_bytes()).unwrap();
            let TypeName::Known(kind) = TypeName::parse(&scanned.type_name) else {
                panic!("{line}")
            };
            let mut json = serde_json::Deserializer::from_str(scanned.data);
            let plain = Data::deserialize(kind, &mut json).unwrap();
            let Decoded::Event(event) = decoder.decode(&scanned).unwrap() else { panic!("{line}") };
            assert_eq!(event.data, plain);
        }
    }
}

#[test]
fn any_spelling_of_a_line_is_the_same_event() {
    for (_, line) in lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        let mut backwards = serde_json::Map::new();
        for (key, value) in value.as_object().unwrap().iter().rev() {
            backwards.insert(key.clone(), value.clone());
        }
        backwards.insert("datacontenttype".to_owned(), "application/json".into());
        let spaced = serde_json::to_string_pretty(&backwards).unwrap().replace('\n', " \t");
        let escaped = spaced.replace("/clusters", "\\/clust\\u0065rs");
        assert_eq!(event(&escaped), event(line));
        assert_eq!(scan(escaped.as_bytes()).unwrap().source, scan(line.as_bytes()).unwrap().source);
    }
}

#[test]
fn attributes_with_escapes_keep_their_leaf() {
    let line = LINES.lines().next().unwrap();
    let mut odd = event(line);
    odd.subject = "a\"b\\c\n\r\t\u{8}\u{c}\u{1}\u{7f}ü€𝄞".into();
    let mut bytes = Vec::new();
    let leaf = NewEvent::new(&odd).unwrap().write_line(1, &mut LeafHasher::default(), &mut bytes);
    let text = std::str::from_utf8(&bytes).unwrap();
    let scanned = scan(text.trim_end_matches('\n').as_bytes()).unwrap();
    assert_eq!(scanned.subject, odd.subject.as_str());
    assert_eq!(LeafHasher::default().leaf(1, &scanned.leaf_input()), leaf);
    assert_eq!(event(text.trim_end()), odd);
}

#[test]
fn newer_versions_and_unknown_types_are_told_apart() {
    let line = lines().find(|(_, l)| l.contains("pod.started")).unwrap().1;
    let newer = line.replace("pod.started.v1", "pod.started.v2");
    let newer = decode(&scan(newer.as_bytes()).unwrap()).unwrap();
    assert_eq!(newer, Decoded::Newer { kind: Kind::PodStarted, version: 2 });
    let unknown = line.replace("pod.started.v1", "pod.danced.v1");
    assert_eq!(decode(&scan(unknown.as_bytes()).unwrap()).unwrap(), Decoded::Unknown);
    let mut event = event(line);
    event.data = Data::Unknown;
    assert_eq!(NewEvent::new(&event), Err(EncodeError::Unknown { id: event.id }));
}

/// One line of a table: what is done to a good line, and what the error must say.
#[test]
fn what_is_no_event_is_refused_by_name() {
    let line = lines().find(|(_, l)| l.contains("pod.started")).unwrap().1;
    let deep = format!(r#""uid":{}1{}"#, "[".repeat(100_000), "]".repeat(100_000));
    let with = |from: &str, to: &str| {
        assert!(line.contains(from), "{from}");
        line.replacen(from, to, 1).into_bytes()
    };
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (b"".to_vec(), "the line is empty"),
        (b"[]".to_vec(), "no event"),
        (b"{\"specversion\":\"1.0\"}".to_vec(), "missing field `id`"),
        (with(r#""specversion":"1.0""#, r#""specversion":"0.3""#), "`0.3` is not read"),
        (with(r#","subject""#, r#","source":"x","subject""#), "duplicate field `source`"),
        (with(r#","basis""#, r#","uid":"x","basis""#), "duplicate field `uid`"),
        (with(r#","leaf""#, r#","data":{},"leaf""#), "trailing characters"),
        (with(r#""id":""#, r#""id":"Z"#), "attribute `id`: an event id is 32"),
        (with("16:00:00.000Z", "25:00:00.000Z"), "attribute `time`: `2026-11-29T25"),
        (with("16:00:00.412Z", "soon"), "attribute `recordedat`: `2026-11-29Tsoon"),
        (with("1500m", "99999999999999999999"), "data of `io.bizrq.pod.started.v1`"),
        (with("1500m", "-1"), "data of `io.bizrq.pod.started.v1`"),
        (with(r#""basis":"Bound""#, r#""basis":"Guessed""#), "unknown variant `Guessed`"),
        (with(r#""node":"n1""#, r#""node":7"#), "expected a string"),
        (with(r#""uid":"3e9c1d52-7b0e-4c1f-9a52-0c7f2b8d1e01""#, &deep), "data of `io"),
        (with("\"leaf\":\"", "\"leaf\":\"xy"), "a hash is 64 lower-case hex digits"),
        (with("train-0", "tra\u{1}in-0"), "control character"),
        ([line.as_bytes(), b"}"].concat(), "trailing characters"),
        (line.as_bytes()[..line.len() - 1].to_vec(), "EOF while parsing"),
        ([&line.as_bytes()[..70], b"\xff", &line.as_bytes()[70..]].concat(), "byte 71 of the line"),
        (vec![b' '; MAX_LINE_BYTES + 1], "at most 16777216 are read"),
    ];
    for (bytes, says) in cases {
        let error = scan(&bytes).and_then(|s| decode(&s).map(|_| ())).unwrap_err().to_string();
        assert!(error.contains(says), "{error:?} does not say {says:?}");
    }
    let overflow = lines().find(|(_, l)| l.contains("period.closed")).unwrap().1;
    for number in ["18446744073709551616", "-1", "1.5", "1e400"] {
        let line = overflow.replace(r#""position":23"#, &format!(r#""position":{number}"#));
        assert!(decode(&scan(line.as_bytes()).unwrap()).is_err(), "{number}");
    }
}

#[test]
fn what_could_not_be_read_again_is_not_written() {
    let text = "x".repeat(MAX_LINE_BYTES);
    let first = event(LINES.lines().next().unwrap());
    let data = Data::ClusterBound(ClusterBound { uid: text.into() });
    let error = NewEvent::new(&Event { data, ..first.clone() }).unwrap_err();
    assert!(error.to_string().contains("make the batch smaller"), "{error}");
    let mut scanned = scan(LINES.lines().next().unwrap().as_bytes()).unwrap();
    scanned.data = "{\n}";
    assert!(NewEvent::copied(&scanned).is_err());
    scanned.data = "{} {}";
    assert!(NewEvent::copied(&scanned).is_err());
}

/// What the types say, without a short way.
fn plain(kind: Kind, data: &str) -> Option<Data<'_>> {
    let mut json = serde_json::Deserializer::from_str(data);
    Data::deserialize(kind, &mut json).ok().filter(|_| json.end().is_ok())
}

/// What the short way says, if anything.
fn short_way(kind: Kind, data: &str) -> Option<Data<'_>> {
    let mut memo = Memo::default();
    short::outline(kind, data, 0, &mut memo)?.data(data, memo.table())
}

/// The starts and stops among the literal lines, with their kinds.
fn starts_and_stops() -> Vec<(Kind, &'static str)> {
    let all =
        lines().map(|(_, line)| (event(line).data.kind(), scan(line.as_bytes()).unwrap().data));
    all.filter_map(|(kind, data)| Some((kind?, data)))
        .filter(|(kind, _)| matches!(kind, Kind::PodStarted | Kind::PodStopped))
        .collect()
}

#[test]
fn the_short_way_leads_through_what_bizrq_writes_and_says_what_the_types_say() {
    for (kind, data) in starts_and_stops() {
        let short = short_way(kind, data);
        assert!(short.is_some(), "{data}");
        assert_eq!(short, plain(kind, data));
    }
    let (_, start) = starts_and_stops().remove(0);
    for (from, to) in [
        (r#""cpu""#, r#""c}}u""#),
        (r#""cpu""#, r#""c}},\"basis\":\"Bound\"}u""#),
        (r#""cpu""#, r#""c\u0070u""#),
        (r#""n1""#, r#""n\n1""#),
        (r#"{"gpu":"A30"}"#, r#"{"gpu":"A30","cpu":"A4"}"#),
        (r#"{"gpu":"A30"}"#, r#"{,"gpu":"A30"}"#),
        (r#"{"gpu":"A30"}"#, r#"{"cpu":"A4",,"gpu":"A30"}"#),
        (r#"{"gpu":"A30"}"#, r#"{"gpu":null}"#),
        (r#","basis""#, r#","reserved":null,"basis""#),
        (r#""Bound"}"#, r#""Bound","note":{}}"#),
    ] {
        let odd = start.replace(from, to);
        assert_ne!(odd, start, "{from}");
        let short = short_way(Kind::PodStarted, &odd);
        assert!(short.is_none() || short == plain(Kind::PodStarted, &odd), "{odd}");
    }
}

proptest! {
    /// What the short way takes, the types take, with the same result.
    #[test]
    fn damaged_data_never_takes_the_short_way_to_something_else(
        which in 0_usize..4, at in 0_usize..2000, byte in 0x00_u8..0x7f, cut in 0_usize..3, len in 0_usize..30,
    ) {
        let (kind, data) = starts_and_stops()[which];
        let mut bytes = data.as_bytes().to_vec();
        let at = at % bytes.len();
        match cut {
            0 => bytes[at] = byte,
            1 => drop(bytes.drain(at..(at + len).min(data.len()))),
            _ => bytes.insert(at, byte),
        }
        let Ok(damaged) = String::from_utf8(bytes) else { return Ok(()) };
        if let Some(short) = short_way(kind, &damaged) {
            prop_assert_eq!(Some(short), plain(kind, &damaged));
        }
    }

    /// The short way never reads what the general parser would refuse or read otherwise.
    #[test]
    fn damaged_lines_are_read_by_both_ways_alike(
        which in 0_usize..27, at in 0_usize..2000, byte: u8, cut in 0_usize..3,
    ) {
        let mut line = LINES.lines().nth(which).unwrap().as_bytes().to_vec();
        let at = at % line.len();
        match cut {
            0 => line[at] = byte,
            1 => { line.remove(at); }
            _ => line.insert(at, byte),
        }
        let short = scan(&line).and_then(|s| decode(&s).map(|d| (s.clone(), d)));
        // A space in front sends the same JSON the general way.
        let spaced = [b" ", &line[..]].concat();
        let general = scan(&spaced).and_then(|s| decode(&s).map(|d| (s.clone(), d)));
        prop_assert_eq!(short.is_ok(), general.is_ok());
        if let (Ok(short), Ok(general)) = (short, general) {
            prop_assert_eq!(short, general);
        }
    }

    #[test]
    fn no_bytes_make_the_codec_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(scanned) = scan(&bytes) {
            let _ = decode(&scanned);
        }
    }
}
