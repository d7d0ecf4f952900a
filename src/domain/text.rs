//! Strings of a decoded record, borrowed from its bytes wherever the bytes are the string.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{borrow::Cow, fmt, ops::Deref};

/// A string that borrows from the record it was decoded from when it can (no escapes in the JSON).
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text<'a>(Cow<'a, str>);

impl<'a> Text<'a> {
    /// The empty text.
    pub const EMPTY: Self = Self(Cow::Borrowed(""));

    /// The string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same text, borrowed: where the other lives long enough it need not be copied.
    #[must_use]
    pub fn borrowed(&self) -> Text<'_> {
        Text(Cow::Borrowed(&self.0))
    }

    /// The same text, independent of the record's bytes.
    #[must_use]
    pub fn into_owned(self) -> Text<'static> {
        Text(Cow::Owned(self.0.into_owned()))
    }
}

impl Deref for Text<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text))
    }
}

impl PartialEq<str> for Text<'_> {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl PartialEq<&str> for Text<'_> {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
            fn visit_string<E>(self, text: String) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text)))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

/// The number that eight lower-case hex digits write.
///
/// All eight at once, a byte each in one register: ids, uids and leaves are read two million times a second.
pub(super) const fn hex8(digits: [u8; 8]) -> Option<u32> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let text = u64::from_be_bytes(digits);
    // 'a' is 0x61: its low bits count from one, and bit 6 is set in letters only.
    let letters = (text >> 6) & ONES;
    let nibbles = (text & (ONES * 0x0f)).wrapping_add(letters.wrapping_mul(9));
    // Written again they must be the same text: then they were hex digits. 6 more than 9 carries into bit 4.
    let above_nine = (nibbles.wrapping_add(ONES * 6) >> 4) & ONES;
    let again = nibbles.wrapping_add(ONES * 0x30).wrapping_add(above_nine.wrapping_mul(0x27));
    if nibbles & (ONES * 0xf0) != 0 || again != text {
        return None;
    }
    let bytes = (nibbles | nibbles >> 4) & 0x00ff_00ff_00ff_00ff;
    let pairs = (bytes | bytes >> 8) & 0x0000_ffff_0000_ffff;
    Some((pairs | pairs >> 16) as u32)
}

/// The number that sixteen lower-case hex digits write.
pub(super) fn hex16(digits: &[u8; 16]) -> Option<u64> {
    let ([high, low], _) = digits.as_chunks::<8>() else { return None };
    Some(u64::from(hex8(*high)?) << 32 | u64::from(hex8(*low)?))
}

#[cfg(feature = "cli")]
impl schemars::JsonSchema for Text<'_> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_digits_are_read_as_the_standard_library_reads_them_and_nothing_else_is() {
        for at in 0..8 {
            for byte in 0..=u8::MAX {
                let mut text = *b"0a9f5c31";
                text[at] = byte;
                let is_digit = byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
                let standard = std::str::from_utf8(&text).ok().filter(|_| is_digit);
                let standard = standard.map(|text| u32::from_str_radix(text, 16).unwrap());
                assert_eq!(hex8(text), standard, "{text:?}");
            }
        }
        assert_eq!(hex16(b"0123456789abcdef"), Some(0x0123_4567_89ab_cdef));
        assert_eq!(hex16(b"0123456789abcdeF"), None);
    }
}
