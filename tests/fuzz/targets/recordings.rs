//! Recorded watches, and compressed files around them.

use super::{Target, events};
use crate::corpus;
use bizrq::{input, observe::recording::Recorder};
use std::io::{Cursor, Read};

/// What `kubectl get --watch --output-watch-events -o json` prints.
pub(super) const RECORDING: Target = Target {
    name: "recording",
    corpus: || {
        let kinds = ["pods", "jobs", "replicasets", "deployments", "statefulsets"];
        let versions = ["v1.20", "v1.36"];
        let file = |v: &str, k: &str| corpus::text(&format!("watch/{v}/{k}.json.gz"));
        let files = versions.iter().flat_map(|v| kinds.map(|k| file(v, k)));
        files.flat_map(|file| pieces(&file)).chain(corpus::files("corpus/recording")).collect()
    },
    tokens: &[
        "{",
        "}",
        "[",
        "]",
        ",",
        "\"",
        "null",
        "\"type\":\"DELETED\"",
        "\"type\": \"ERROR\"",
        "\"object\":{",
        "\"kind\":\"Pod\"",
        "\"metadata\":{",
        "\"uid\":\"",
        "\"resourceVersion\":\"1\"",
        "\"nodeName\":\"n\"",
        "\"phase\":\"Succeeded\"",
        "\"creationTimestamp\":null",
        "1970-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "\"cpu\":\"1e400\"",
        "\"cpu\":-1",
        "\"items\":[",
        "\"kind\":\"List\"",
        "\n",
        "\"restartPolicy\":\"Always\"",
    ],
    parser: || {
        let mut folded = events::Folded::new();
        Box::new(move |input| recording(input, &mut folded))
    },
};

/// A recording in pieces of a few objects: short inputs are mutated more often.
fn pieces(file: &[u8]) -> Vec<Vec<u8>> {
    let objects: Vec<serde_json::Value> = serde_json::Deserializer::from_slice(file)
        .into_iter()
        .collect::<Result<_, _>>()
        .expect("a recording");
    let text = |piece: &[serde_json::Value]| {
        let lines = piece.iter().map(|object| object.to_string() + "\n");
        lines.collect::<String>().into_bytes()
    };
    let short = objects.chunks(3).map(text);
    short.chain(objects.chunks(12).map(text)).collect()
}

/// What was read up to an error counts; reading it twice says nothing new.
fn recording(input: &[u8], folded: &mut events::Folded) -> bool {
    let read = |times: usize| {
        let mut recorder = Recorder::with_limit("east", 8 << 20);
        let mut whole = true;
        for _ in 0..times {
            whole &= recorder.read("pods.json", input).is_ok();
        }
        (whole, recorder.finish().into_events())
    };
    let (whole, told) = read(1);
    for event in &told {
        events::round_trip(event);
        folded.take(event);
    }
    let (_, twice) = read(2);
    assert_eq!(told, twice, "a file that is read twice says what it says once");
    whole && !told.is_empty()
}

/// gzip and zstd.
pub(super) const COMPRESSED: Target = Target {
    name: "compressed",
    corpus: || {
        let text = b"{\"kind\":\"List\",\"items\":[]}\n".repeat(20);
        let zstd = |level| zstd::encode_all(&*text, level).expect("zstd");
        let mut corpus = corpus::files("watch/v1.20");
        corpus.extend([
            text.clone(),
            zstd(1),
            zstd(19),
            [zstd(3), zstd(1)].concat(),
            b"\x1f".to_vec(),
        ]);
        corpus
    },
    tokens: &["\u{1f}", "\0\0\0\0", "(\u{b5}/\u{fd}", "\u{7f}", "P*M\u{18}"],
    parser: || Box::new(compressed),
};

/// No more is held in memory than is asked for, whatever the bytes claim to become.
fn compressed(input: &[u8]) -> bool {
    let Ok(mut reader) = input::decompressed(Cursor::new(input.to_vec())) else { return false };
    let mut buffer = [0; 1 << 14];
    let mut read = 0;
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(_) => return false,
        }
        if read > 64 << 20 {
            break;
        }
    }
    if input::compression(input) == input::Compression::Plain {
        assert_eq!(read, input.len(), "plain bytes stay what they are");
    }
    true
}
