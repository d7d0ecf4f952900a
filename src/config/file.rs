//! The configuration's file: YAML, taken one setting at a time, so that what is wrong is told with its line and name.

use super::{Error, Settings};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;
use std::{collections::BTreeMap, path::Path};

/// What the file at `path` says.
pub(super) fn read(path: &Path) -> Result<Settings, Error> {
    let text = super::read(path)?;
    parse(&text).map_err(|(line, why)| Error::File { path: path.to_owned(), line, why })
}

/// What a text says, or the line that it cannot say, and why.
pub(super) fn parse(text: &str) -> Result<Settings, (u64, String)> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: 8, max_aliases: 100, max_anchors: 100 },
    };
    let said: Option<BTreeMap<String, Spanned<Value>>> =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            let off = serde_saphyr::render_options! { snippets: serde_saphyr::SnippetMode::Off };
            let line = error.location().map_or(1, |location| location.line());
            (line, error.render_with_options(off))
        })?;
    said.unwrap_or_default().into_iter().try_fold(Settings::default(), |settings, (name, said)| {
        let (line, value) = (said.referenced.line(), said.value);
        let shown = format!("{name}: {value}");
        let one = Value::Object(Map::from_iter([(name, value)]));
        let one = serde_json::from_value(one).map_err(|why| (line, format!("{shown}: {why}")))?;
        Ok(settings.or(one))
    })
}
