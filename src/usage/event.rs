//! `usage.metered`: a CloudEvent in JSON, and its schema. Nothing else knows these bytes.

use crate::domain::{
    event::Position,
    ident::Parts,
    metered::{Mark, Metered, Piece},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Its type.
pub const TYPE: &str = "io.bizrq.usage.metered.v1";

/// A whole event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageMetered {
    specversion: String,
    /// 32 hex digits, made of the mark and the data.
    pub id: String,
    #[serde(rename = "type")]
    kind: String,
    source: String,
    subject: String,
    time: Timestamp,
    datacontenttype: String,
    /// What it says.
    pub data: Data,
}

/// What it says: so much of `key` was held, evenly from `from` to `to`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Data {
    /// The group; empty for none.
    pub group: String,
    /// The key.
    pub key: String,
    /// First instant inside.
    pub from: Timestamp,
    /// First instant after it.
    pub to: Timestamp,
    /// Milli-units × milliseconds; below zero where less was used than was told.
    #[serde(with = "exact")]
    pub exact: i128,
    /// The last record of the log that counts.
    pub position: Position,
    /// The instant up to which what runs is told.
    pub until: Timestamp,
    /// The same of the batch before.
    pub since: Since,
}

/// What was told before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Since {
    /// The last record that counted.
    pub position: Position,
    /// The instant up to which what runs was told.
    pub until: Timestamp,
}

impl UsageMetered {
    /// The mark that it was told at.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark { position: self.data.position, until: self.data.until }
    }

    /// The mark of the batch before.
    #[must_use]
    pub fn since(&self) -> Mark {
        Mark { position: self.data.since.position, until: self.data.since.until }
    }
}

/// All that `fold` has to tell since the mark `since`, in the log `log`.
#[must_use]
pub fn batch(log: &str, fold: &Metered, since: Mark) -> Vec<UsageMetered> {
    let (mark, source) = (fold.mark(), format!("/logs/{log}"));
    fold.pieces().iter().map(|piece| event(&source, piece, mark, since)).collect()
}

fn event(source: &str, piece: &Piece<'_>, mark: Mark, since: Mark) -> UsageMetered {
    let Piece { group, key, period, exact } = *piece;
    let named = Parts::named("usage.metered")
        .bytes(&mark.position.to_be_bytes())
        .time(mark.until)
        .text(group)
        .text(key)
        .time(period.from)
        .time(period.to)
        .bytes(&exact.to_be_bytes());
    UsageMetered {
        specversion: "1.0".to_owned(),
        id: named.id().to_string(),
        kind: TYPE.to_owned(),
        source: source.to_owned(),
        subject: format!("accounts/{group}"),
        time: period.to,
        datacontenttype: "application/json".to_owned(),
        data: Data {
            group: group.to_owned(),
            key: key.to_owned(),
            from: period.from,
            to: period.to,
            exact,
            position: mark.position,
            until: mark.until,
            since: Since { position: since.position, until: since.until },
        },
    }
}

/// A number that JSON's readers would round.
mod exact {
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(exact: &i128, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(exact)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<i128, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(|_| de::Error::custom(format!("`{text}` is no 128-bit integer")))
    }
}

/// The JSON Schema of the whole event, as it is committed in `schemas/usage/v1/`.
#[must_use]
pub fn schema() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let time = |description: &str| {
        json!({
            "type": "string",
            "format": "date-time",
            "pattern": r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$",
            "description": description,
        })
    };
    let position =
        |description: &str| json!({ "type": "integer", "minimum": 0, "description": description });
    let object = |description: &str, properties: Value| {
        let names = properties.as_object().map(|names| names.keys().cloned().collect::<Vec<_>>());
        json!({
            "type": "object", "description": description, "properties": properties, "required": names,
        })
    };
    let since = object(
        "What was told before: it is how the next who tells goes on.",
        json!({
            "position": position("The last record of the log that counted."),
            "until": time("The instant up to which running pods counted."),
        }),
    );
    let data = object(
        "So much of the key was held, evenly from one instant to the other. The sum of all events of a group and key is its usage.",
        json!({
            "group": text("The group; empty for none."),
            "key": text("The key: limits.cpu, or of one model limits.cpu.A4. What counts under a model counts under the generic key too."),
            "from": time("First instant inside."),
            "to": time("First instant after it."),
            "exact": {
                "type": "string",
                "pattern": "^-?[0-9]{1,39}$",
                "description": "Milli-units times milliseconds: divided by 3,600,000,000 it is hours. Below zero where less was used than was told.",
            },
            "position": position("The last record of the log that counts."),
            "until": time("The instant up to which running pods count."),
            "since": since,
        }),
    );
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://bizrq.io/schemas/usage/v1/usage.metered.json",
        "title": TYPE,
        "description": "What a group used: a CloudEvent 1.0 in JSON (structured mode), published on bizrq.usage.v1.GROUP.",
        "type": "object",
        "properties": {
            "specversion": { "const": "1.0" },
            "id": { "type": "string", "pattern": "^[0-9a-f]{32}$", "description": "Names the event; there is one of each." },
            "type": { "const": TYPE },
            "source": text("The log: /logs/NAME."),
            "subject": text("Whose usage: accounts/GROUP."),
            "time": time("The end of what it tells."),
            "datacontenttype": { "const": "application/json" },
            "data": data,
        },
        "required": ["specversion", "id", "type", "source", "subject", "time", "datacontenttype", "data"],
    })
}
