//! The documents of some files: JSON one after another, or YAML with `---` between them; lists come apart.

use crate::cli::{Error, quota::file};
use serde_json::Value;
use std::path::PathBuf;

/// One document.
#[derive(Debug)]
pub(super) struct Document {
    /// `web.yaml`, or `web.yaml, document 2`.
    pub(super) place: String,
    /// `apps/v1`.
    pub(super) api_version: String,
    /// `Deployment`.
    pub(super) kind: String,
    /// Itself, as JSON.
    pub(super) json: String,
}

/// Every document of every file, in order.
///
/// # Errors
/// A file that cannot be read, is too large, or is neither JSON nor YAML.
pub(super) fn read(paths: &[PathBuf]) -> Result<Vec<Document>, Error> {
    let mut documents = Vec::new();
    for path in paths {
        let place = path.display().to_string();
        let text = file::text(path)?;
        let values =
            match text.trim_start().starts_with('{') {
                true => json(&text)
                    .map_err(|e| Error::input(format_args!("{place}:{}", e.line()), e))?,
                false => yaml(&text)
                    .map_err(|(line, e)| Error::input(format_args!("{place}:{line}"), e))?,
            };
        let several = values.len() > 1;
        for (number, value) in (1_usize..).zip(values) {
            let place = match several {
                true => format!("{place}, document {number}"),
                false => place.clone(),
            };
            take(place, value, &mut documents);
        }
    }
    Ok(documents)
}

fn json(text: &str) -> Result<Vec<Value>, serde_json::Error> {
    serde_json::Deserializer::from_str(text).into_iter().collect()
}

fn yaml(text: &str) -> Result<Vec<Value>, (u64, String)> {
    let mut bytes = text.as_bytes();
    let documents = serde_saphyr::read_with_options::<_, Value>(&mut bytes, file::options());
    let failed = |e: serde_saphyr::Error| {
        let line = e.location().map_or(1, |l| l.line());
        let off = serde_saphyr::render_options! { snippets: serde_saphyr::SnippetMode::Off };
        (line, e.render_with_options(off))
    };
    documents.map(|document| document.map_err(failed)).collect()
}

/// A document, or the items of a list; what is empty is left out.
fn take(place: String, mut value: Value, documents: &mut Vec<Document>) {
    let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text(&value, "apiVersion"), text(&value, "kind"));
    if let Value::Array(items) = value["items"].take() {
        for (number, mut item) in (1_usize..).zip(items) {
            // Items of a typed list do not name themselves.
            if let (Some(kind), true) = (kind.strip_suffix("List"), item["kind"].is_null()) {
                item["kind"] = kind.into();
                item["apiVersion"] = api_version.as_str().into();
            }
            take(format!("{place}, item {number}"), item, documents);
        }
        return;
    }
    if !value.is_null() {
        if let Value::Object(fields) = &mut value {
            fields.retain(|_, field| !field.is_null());
        }
        documents.push(Document { place, api_version, kind, json: value.to_string() });
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_are_what_kubectl_takes_them_for() {
        let read = super::yaml("spec: {replicas: 010, cpu: '010'}").unwrap();
        assert_eq!(read[0]["spec"], serde_json::json!({"replicas": 8, "cpu": "010"}));
    }
}
