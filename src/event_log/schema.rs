//! JSON Schemas of the event lines, for auditors and for other programs: generated from the types, committed
//! under `schemas/event/v1/`, compared by a test. Nothing reads them at run time.

use crate::domain::event::{Data, Kind};
use serde_json::{Value, json};
use std::{fs, io, path::Path};

/// The schema of a whole line of an event of type `kind`.
#[must_use]
pub fn line(kind: Kind) -> Value {
    let mut data = Data::schema(kind).to_value();
    let mut definitions = json!({});
    if let Some(data) = data.as_object_mut() {
        data.shift_remove("$schema");
        // References say `#/$defs/…`: definitions belong to the root.
        definitions = data.shift_remove("$defs").unwrap_or(definitions);
    }
    let text = |description: &str| json!({ "type": "string", "description": description });
    let time = |description: &str| {
        json!({
            "type": "string",
            "format": "date-time",
            "pattern": r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$",
            "description": description,
        })
    };
    let hex = |digits: u32, description: &str| json!({ "type": "string", "pattern": format!("^[0-9a-f]{{{digits}}}$"), "description": description });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": format!("https://bizrq.io/schemas/event/v{}/{}", kind.version(), file_name(kind)),
        "title": kind.type_name(),
        "description": "One event of a bizrq log: a CloudEvent 1.0 in JSON, one line of a file log.",
        "type": "object",
        "properties": {
            "specversion": { "const": "1.0" },
            "id": hex(32, "Names the event; a second event of the same id changes nothing."),
            "type": { "const": kind.type_name() },
            "source": text("Who says it: /clusters/NAME, /imports/NAME, /operators/NAME."),
            "subject": text("What it is about."),
            "time": time("When it happened."),
            "recordedat": time("When it was published, by the publisher's clock."),
            "data": data,
            "leaf": hex(64, "Hash of position, attributes and data; absent outside a file log."),
        },
        "required": ["specversion", "id", "type", "source", "subject", "time", "recordedat", "data"],
        "$defs": definitions,
    })
}

/// Name of the schema's file: `pod.started.json`.
#[must_use]
pub fn file_name(kind: Kind) -> String {
    format!("{}.json", kind.name())
}

/// Text of the schema's file.
#[must_use]
pub fn file_text(kind: Kind) -> String {
    format!("{:#}\n", line(kind))
}

/// Writes every schema into `dir` (`schemas/event/v1`), which is made when it is missing.
///
/// # Errors
/// What the file system says.
pub fn write_schemas(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    Kind::ALL.iter().try_for_each(|kind| fs::write(dir.join(file_name(*kind)), file_text(*kind)))
}
