//! Quantities in JSON and YAML: a string, a bare number, or null for zero; written as the canonical string.

use super::{Declared, Format, InvalidQuantity, MAX_NANO, NANO, NEGATIVE, Quantity};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt::{self, Write};

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Declared {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Visitor { parse: Self::parse_json_text })
    }
}

impl<'de> Deserialize<'de> for Declared {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let quantity = deserializer.deserialize_any(Visitor { parse: Quantity::parse_declared })?;
        if quantity.is_negative() {
            return Err(de::Error::custom(InvalidQuantity::new(&quantity.to_string(), NEGATIVE)));
        }
        Ok(Self(quantity))
    }
}

struct Visitor {
    parse: fn(&str) -> Result<Quantity, InvalidQuantity>,
}

impl de::Visitor<'_> for Visitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity like \"1500m\", \"64Mi\" or 2")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
        (self.parse)(text).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
        self.visit_i128(i128::from(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
        self.visit_i128(i128::from(number))
    }

    fn visit_i128<E: de::Error>(self, number: i128) -> Result<Quantity, E> {
        match number.checked_mul(NANO) {
            Some(nano) if nano.abs() <= MAX_NANO => {
                Ok(Quantity { nano, format: Format::DecimalSI })
            }
            // The scanner has the words for it.
            _ => self.visit_str(&number.to_string()),
        }
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
        Quantity::parse_float(number).map_err(E::custom)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Quantity, E> {
        Ok(Quantity::ZERO)
    }

    fn visit_none<E: de::Error>(self) -> Result<Quantity, E> {
        Ok(Quantity::ZERO)
    }
}

impl Quantity {
    /// The quantity that a bare number with a point or exponent stands for. The number is not computed with: it is
    /// printed in the shortest decimal form, and that is parsed.
    ///
    /// # Errors
    /// [`InvalidQuantity`] with the number and the reason.
    pub fn parse_float(number: f64) -> Result<Self, InvalidQuantity> {
        let mut text = Short::default();
        // The shortest form of any number fits; the empty text would be refused.
        let _ = write!(text, "{number:e}");
        Ok(Self { format: Format::DecimalSI, ..Self::parse(text.as_str())? })
    }
}

/// A text of at most 32 bytes, more than the shortest form of any number needs (24).
#[derive(Default)]
struct Short {
    bytes: [u8; 32],
    len: usize,
}

impl Short {
    fn as_str(&self) -> &str {
        // Only whole strings are ever copied in, so this is UTF-8.
        self.bytes.get(..self.len).and_then(|b| std::str::from_utf8(b).ok()).unwrap_or_default()
    }
}

impl Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len.saturating_add(text.len());
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
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
