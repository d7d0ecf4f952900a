//! The import map: which column of an export says what (contract §6). TOML, checked before a row is read.

use super::number::Decimal;
use crate::domain::{
    quantity::Quantity,
    resources::is_extended,
    time::{Timestamp, TimestampError},
};
use serde::Deserialize;
use std::collections::BTreeMap;

/// What the columns of an export mean.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Map {
    #[serde(default = "comma")]
    delimiter: String,
    time: Time,
    /// What numbers count from, from `time.epoch`.
    #[serde(skip)]
    since: Timestamp,
    pub(super) columns: Columns,
    #[serde(default)]
    pub(super) models: Models,
    pub(super) resources: BTreeMap<String, Amount>,
}

/// Names of the columns that say who and when.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Columns {
    pub(super) name: String,
    /// The row's identity; else `name` is.
    pub(super) uid: Option<String>,
    /// Absent: everything belongs to the empty group.
    pub(super) group: Option<String>,
    pub(super) start: String,
    /// Absent: everything still runs.
    pub(super) stop: Option<String>,
}

/// Names of the columns that type a resource.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Models {
    pub(super) cpu: Option<String>,
    pub(super) memory: Option<String>,
    pub(super) gpu: Option<String>,
}

/// An amount: the product of the columns, in a unit.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Amount {
    pub(super) columns: Vec<String>,
    #[serde(default)]
    pub(super) unit: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Time {
    format: TimeFormat,
    epoch: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum TimeFormat {
    Rfc3339,
    EpochSeconds,
    EpochMilliseconds,
    Seconds,
}

/// What is wrong with a map.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// Not TOML, or not the fields of a map.
    #[error("{0}")]
    Toml(#[from] Box<toml::de::Error>),
    /// A value that means nothing.
    #[error("{field}: `{value}` {why}")]
    Value {
        /// Path of the field.
        field: String,
        /// What stands there.
        value: String,
        /// What is wrong, and the remedy.
        why: String,
    },
}

/// Suffixes of quantities (facts 1.1); an exponent is no unit.
const UNITS: [&str; 16] =
    ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

fn comma() -> String {
    ",".to_owned()
}

fn wrong(field: impl Into<String>, value: &str, why: impl Into<String>) -> MapError {
    MapError::Value { field: field.into(), value: value.to_owned(), why: why.into() }
}

impl Map {
    /// Reads a map.
    ///
    /// # Errors
    /// [`MapError`] with line or field, value and remedy.
    pub fn parse(text: &str) -> Result<Self, MapError> {
        let mut map: Self = toml::from_str(text).map_err(Box::new)?;
        if !matches!(map.delimiter.as_bytes(), [b] if b.is_ascii() && !b"\"\r\n".contains(b)) {
            let why = r#"is no delimiter; write one ASCII character, as in "," or "\t""#;
            return Err(wrong("delimiter", &map.delimiter, why));
        }
        map.since = map.time.since()?;
        if map.resources.is_empty() {
            return Err(wrong(
                "resources",
                "",
                "is empty; name at least one resource, such as cpu",
            ));
        }
        for (resource, amount) in &map.resources {
            check_resource(resource)?;
            amount.check(resource)?;
        }
        Ok(map)
    }

    pub(super) fn delimiter(&self) -> u8 {
        self.delimiter.bytes().next().unwrap_or(b',')
    }

    /// The instant that a cell names.
    pub(super) fn instant(&self, cell: &str) -> Result<Timestamp, String> {
        let says = |e: TimestampError| e.to_string();
        if self.time.format == TimeFormat::Rfc3339 {
            return Timestamp::parse(cell.trim()).map_err(says);
        }
        let number = Decimal::parse(cell).map_err(|why| format!("`{cell}` {why}"))?;
        let millis = match self.time.format {
            TimeFormat::EpochMilliseconds => number.whole(),
            _ => number.thousandths(),
        };
        let millis = millis.ok_or_else(|| TimestampError::TooFine(cell.to_owned()).to_string())?;
        let instant = self.since.millis().checked_add(millis).map(Timestamp::from_millis);
        match instant {
            Some(Ok(instant)) => Ok(instant),
            _ => Err(says(TimestampError::OutOfRange(cell.to_owned()))),
        }
    }
}

impl Time {
    /// What `seconds` count from; other formats count from 1970.
    fn since(&self) -> Result<Timestamp, MapError> {
        let unused = "is only used with format = \"seconds\"; leave it out";
        let missing = "needs time.epoch; write the instant that second 0 is, in RFC 3339";
        match (self.format, &self.epoch) {
            (TimeFormat::Seconds, Some(epoch)) => Timestamp::parse(epoch)
                .map_err(|e| wrong("time.epoch", epoch, format!("is no instant: {e}"))),
            (TimeFormat::Seconds, None) => Err(wrong("time.format", "seconds", missing)),
            (_, Some(epoch)) => Err(wrong("time.epoch", epoch, unused)),
            (_, None) => Ok(Timestamp::MIN),
        }
    }
}

impl Amount {
    fn check(&self, resource: &str) -> Result<(), MapError> {
        let field = |name: &str| format!("resources.{resource}.{name}");
        if self.columns.is_empty() {
            return Err(wrong(field("columns"), "[]", "is empty; name the columns to multiply"));
        }
        // The first is the question, the second a guard: the list must never be wider than the grammar.
        if UNITS.contains(&&*self.unit)
            && Quantity::parse_declared(&format!("1{}", self.unit)).is_ok()
        {
            return Ok(());
        }
        let why = format!("is no unit; write one of {}, or leave it out", UNITS[1..].join(", "));
        Err(wrong(field("unit"), &self.unit, why))
    }
}

fn check_resource(resource: &str) -> Result<(), MapError> {
    let bare = !resource.starts_with("requests.") && !resource.starts_with("limits.");
    let key = crate::domain::quota::normalise(&format!("requests.{resource}"));
    let untyped = is_extended(resource) || !resource.contains('.');
    match key {
        Ok(_) if bare && untyped => Ok(()),
        _ => Err(wrong(
            "resources",
            resource,
            "is no resource; write cpu, memory, ephemeral-storage, hugepages-SIZE or VENDOR/NAME",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPENB: &str = include_str!("../../tests/fixtures/openb.toml");

    #[test]
    fn the_contracts_example_is_a_map() {
        let map = Map::parse(OPENB).unwrap();
        assert_eq!(map.delimiter(), b',');
        assert_eq!(map.instant("427061").unwrap().to_string(), "2026-01-05T22:37:41.000Z");
        assert_eq!(map.resources["nvidia.com/gpu"].columns, ["num_gpu", "gpu_milli"]);
    }

    #[test]
    fn a_wrong_map_is_refused_with_its_field() {
        for (from, to, told) in [
            ("delimiter = \",\"", "delimiter = \",,\"", "delimiter: `,,`"),
            ("delimiter = \",\"", "delimitr = \",\"", "unknown field `delimitr`"),
            ("format = \"seconds\"", "format = \"minutes\"", "unknown variant `minutes`"),
            ("format = \"seconds\"", "format = \"rfc3339\"", "time.epoch"),
            ("epoch  = \"2026-01-01T00:00:00Z\"", "", "time.format: `seconds` needs time.epoch"),
            ("2026-01-01T00:00:00Z", "yesterday", "time.epoch: `yesterday`"),
            ("unit = \"Mi\"", "unit = \"MiB\"", "resources.memory.unit: `MiB`"),
            ("unit = \"Mi\"", "unit = \"e3\"", "resources.memory.unit: `e3`"),
            ("[\"memory_mib\"]", "[]", "resources.memory.columns"),
            ("memory           =", "memroy =", "resources: `memroy`"),
            ("memory           =", "\"limits.memory\" =", "resources: `limits.memory`"),
            ("memory           =", "\"memory.A4\" =", "resources: `memory.A4`"),
            ("start = \"scheduled_time\"", "", "missing field `start`"),
        ] {
            assert!(OPENB.contains(from), "{from}");
            let error = Map::parse(&OPENB.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn every_time_format_is_exact() {
        let map = |format: &str| {
            Map::parse(&format!(
                "[time]\nformat = \"{format}\"\n[columns]\nname = \"n\"\nstart = \"s\"\n\
                 [resources]\ncpu = {{ columns = [\"c\"] }}\n"
            ))
            .unwrap()
        };
        for (format, cell, instant) in [
            ("rfc3339", "2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00.000Z"),
            ("epoch-seconds", "1767225600.25", "2026-01-01T00:00:00.250Z"),
            ("epoch-milliseconds", "1767225600001", "2026-01-01T00:00:00.001Z"),
        ] {
            assert_eq!(map(format).instant(cell).unwrap().to_string(), instant);
        }
        for (format, cell) in [
            ("rfc3339", "1767225600"),
            ("epoch-seconds", "1767225600.0001"),
            ("epoch-seconds", "1767225600000"),
            ("epoch-milliseconds", "1.5"),
            ("epoch-milliseconds", "99999999999999999999999"),
            ("epoch-seconds", "-1"),
        ] {
            assert!(map(format).instant(cell).is_err(), "{format} {cell}");
        }
    }
}
