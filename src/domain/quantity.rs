//! Kubernetes quantities, exactly: parsed into integers of 10⁻⁹, printed canonically.
//!
//! SKELETON: the signatures are fixed, the bodies are being written.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// An amount in thousandths of a base unit (core, byte, card, item): the inner unit of everything
/// that is charged or metered.
pub type Milli = i128;

/// How a quantity was written, which decides how it is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// `1500m`, `2k`.
    #[default]
    DecimalSI,
    /// `64Mi`.
    BinarySI,
    /// `12e3`.
    DecimalExponent,
}

/// A Kubernetes quantity: an exact value and the format that it is printed in.
///
/// Two quantities are equal when their values are, whatever the format.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    nano: i128,
    format: Format,
}

/// Why a text is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no quantity: {why}")]
pub struct InvalidQuantity {
    /// The text, cut at 64 bytes.
    pub text: String,
    /// What is wrong, and what would be right.
    pub why: &'static str,
}

impl Quantity {
    /// Zero.
    pub const ZERO: Self = Self { nano: 0, format: Format::DecimalSI };

    /// Parses `text` as Kubernetes does, except for the deviations listed in [`crate::domain::quantity`].
    ///
    /// # Errors
    /// [`InvalidQuantity`] with the text and the reason.
    pub fn parse(text: &str) -> Result<Self, InvalidQuantity> {
        let _ = text;
        Ok(Self::ZERO)
    }

    /// A quantity of `milli` thousandths.
    #[must_use]
    pub fn from_milli(milli: Milli, format: Format) -> Self {
        Self { nano: milli.saturating_mul(1_000_000), format }
    }

    /// The same quantity rounded up to thousandths, as every entry of a resource list is.
    #[must_use]
    pub fn rounded_up(self) -> Self {
        Self::from_milli(self.milli(), self.format)
    }

    /// The value in thousandths, rounded up.
    #[must_use]
    pub fn milli(self) -> Milli {
        self.nano.saturating_add(999_999).div_euclid(1_000_000)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Quantity {}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}n", self.nano)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(de::Error::custom)
    }
}

#[cfg(feature = "cli")]
impl schemars::JsonSchema for Quantity {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Quantity".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "description": "A Kubernetes quantity in canonical form." })
    }
}
