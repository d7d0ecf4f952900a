//! Import maps and the rows of delimited exports.

use super::{Target, events};
use crate::corpus;
use bizrq::{
    domain::time::Timestamp,
    import::{Importer, Map, Rows},
};

/// Import maps in TOML.
pub(super) const MAP: Target = Target {
    name: "map",
    corpus: || corpus::files("corpus/map"),
    tokens: &[
        "[time]\n",
        "[columns]\n",
        "[models]\n",
        "[resources]\n",
        "format = ",
        "\"seconds\"",
        "\"rfc3339\"",
        "epoch = ",
        "cpu = ",
        "{ columns = [\"a\"], unit = \"Ki\" }",
        "delimiter = \"\\t\"\n",
        "\"\"\"",
        "[[",
        "name = \"name\"\n",
        "unit = \"e3\"",
        "=",
        "\n",
        "''",
        "1979-05-27T07:32:00Z",
        "# ",
    ],
    parser: || Box::new(map),
};

/// An accepted map reads a row of its own columns, one way or another.
fn map(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let Ok(map) = Map::parse(text) else { return false };
    for table in [PLAIN, "pod\tid\tfrom\tto\tcpu_type\tdimm\tcores\tpages\na\tb\t\t\t\t\t1\t2\n"] {
        if let Ok(rows) = Rows::open(table.as_bytes(), map.clone()) {
            for row in rows.flatten().flatten() {
                assert!(!row.uid.is_empty(), "every row has an identity");
            }
        }
    }
    true
}

const PLAIN: &str = include_str!("../../fixtures/corpus/rows/plain.csv");

/// Rows under the map of the public trace.
pub(super) const ROWS: Target = Target {
    name: "rows",
    corpus: || corpus::files("corpus/rows"),
    tokens: &[
        ",",
        "\"",
        "\"\"",
        "\r\n",
        "\n",
        "\r",
        "\t",
        "A30",
        "V100|T4",
        "1e18",
        "9e9",
        "-1",
        "0.0001",
        ".",
        "\u{feff}",
        "name",
        "gpu_milli",
        "\0",
        "ä",
        " ",
    ],
    parser: || {
        let map = Map::parse(include_str!("../../fixtures/openb.toml")).expect("the map");
        let mut folded = events::Folded::new();
        Box::new(move |input| rows(input, &map, &mut folded))
    },
};

/// Each row is taken or refused by line; what is taken can be written, and is not taken twice.
fn rows(input: &[u8], map: &Map, folded: &mut events::Folded) -> bool {
    let Ok(rows) = Rows::open(input, map.clone()) else { return false };
    let mut importer = Importer::new("old");
    let mut again = Importer::new("old");
    let mut taken = Vec::new();
    for row in rows {
        let Ok(row) = row else { break };
        match row {
            Ok(row) => {
                let Ok(events) = importer.take(&row, Timestamp::MIN) else { continue };
                for event in &events {
                    events::round_trip(event);
                    folded.take(event);
                    again.learn(event);
                }
                taken.push(row);
            }
            Err(error) => {
                importer.reject();
                assert!(error.line > 0 && !error.to_string().is_empty());
            }
        }
    }
    for row in &taken {
        let twice = again.take(row, Timestamp::MIN).expect("what was taken contradicts nothing");
        assert_eq!(twice, [], "a second import appends nothing: {row:?}");
    }
    !taken.is_empty()
}
