//! Prices as people write them: a YAML file, bounded, with the place of every mistake.
//!
//! ```yaml
//! currency: EUR
//! digits: 2                     # of amounts of money; 2 unless given
//! issuer: ACME Platform         # who bills; bizrq unless given
//! prices:
//! - key: limits.nvidia.com/gpu
//!   model: A30                  # every other model, and none, unless given
//!   from: 2026-01-01T00:00:00Z  # from the beginning, and for ever, unless given
//!   to: 2027-01-01T00:00:00Z
//!   price: "1.25"               # for an hour of one …
//!   per: "1"                    # … or of so many, as in 1Gi
//! ```

use bizrq::{
    cli::Error,
    domain::{
        event::Period,
        prices::{self, Price, Prices, with_model},
        quantity::Quantity,
        quota::normalise,
        resources::is_model,
        time::Timestamp,
    },
};
use serde::Deserialize;
use serde_saphyr::Spanned;
use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// Ten thousand prices of a hundred bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Prices in a currency.
pub(super) struct PriceList {
    /// The file.
    pub(super) place: String,
    pub(super) currency: String,
    /// Who bills.
    pub(super) issuer: String,
    pub(super) prices: Prices,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    currency: String,
    digits: Option<u32>,
    issuer: Option<String>,
    prices: Vec<Spanned<Entry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    key: String,
    model: Option<String>,
    from: Option<String>,
    to: Option<String>,
    price: String,
    per: Option<String>,
}

impl PriceList {
    /// Reads a file of prices.
    pub(super) fn read(path: &Path) -> Result<Self, Error> {
        let failed = |why: &dyn ToString| Error::input(path.display(), why.to_string());
        let text = text(path).map_err(|e| failed(&e))?;
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! { max_depth: 8, max_aliases: 100, max_anchors: 100 },
            with_snippet: false,
        };
        let parsed = serde_saphyr::from_str_with_options(&text, options);
        let Document { currency, digits, issuer, prices } =
            parsed.map_err(|e: serde_saphyr::Error| {
                let off =
                    serde_saphyr::render_options! { snippets: serde_saphyr::SnippetMode::Off };
                failed(&e.render_with_options(off))
            })?;
        let list: Result<Vec<Price>, Error> = prices
            .into_iter()
            .map(|entry| {
                let place = format!("{}:{}", path.display(), entry.referenced.line());
                entry.value.price().map_err(|why| Error::input(place, why))
            })
            .collect();
        let prices = Prices::new(list?, digits.unwrap_or(2)).map_err(|e| failed(&e))?;
        let issuer = issuer.unwrap_or_else(|| "bizrq".to_owned());
        Ok(Self { place: path.display().to_string(), currency, issuer, prices })
    }
}

fn text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let mut file = File::open(path)?.take(MAX_FILE_BYTES.saturating_add(1));
    file.read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other("more than 1 MiB; a list of prices is shorter"));
    }
    Ok(text)
}

impl Entry {
    fn price(self) -> Result<Price, String> {
        let key = normalise(&self.key).map_err(|why| format!("key `{}` {why}", self.key))?;
        if key.starts_with("cash/") {
            return Err(format!("key `{key}` is a budget; a price is for what is held"));
        }
        let model = self.model.unwrap_or_default();
        if !model.is_empty() && !is_model(&model) {
            return Err(format!(
                "model `{model}` is none; letters, digits, `.`, `_` and `-` make one"
            ));
        }
        let instant = |name: &str, text: Option<String>, else_: Timestamp| match text {
            Some(text) => Timestamp::parse(&text).map_err(|e| format!("{name}: {e}")),
            None => Ok(else_),
        };
        let from = instant("from", self.from, Timestamp::MIN)?;
        let to = instant("to", self.to, Timestamp::MAX)?;
        let per = self.per.as_deref().unwrap_or("1");
        let per = Quantity::parse(per).map_err(|e| format!("per: {e}"))?.milli();
        let nano = prices::parse(&self.price).map_err(|e| e.to_string())?;
        Ok(Price { key: with_model(&key, &model), period: Period { from, to }, nano, per })
    }
}
