//! An event as a message of a stream: its attributes as headers (the binary mode of CloudEvents), its data as the
//! payload, byte for byte. Nothing is parsed and written again: reading copies.
//!
//! ```text
//! ce-specversion: 1.0                    header values are percent-encoded to visible ASCII:
//! ce-id: b6c1…        ce-time: …         blank, `"`, `%` and all beyond ! to ~ become %XX
//! ce-type: io.…       ce-recordedat: …
//! ce-source: /clusters/east
//! ce-subject: pods/ml/train-0            payload: {"uid":"3e9c…", …}
//! ```

use super::NewEvent;
use std::borrow::Cow;

/// Headers of the attributes, in the order of [`super::Scanned`].
pub const ATTRIBUTES: [&str; 6] =
    ["ce-id", "ce-type", "ce-source", "ce-subject", "ce-time", "ce-recordedat"];
/// The header that says that it is an event, and what it says.
pub const SPECVERSION: (&str, &str) = ("ce-specversion", "1.0");

impl NewEvent {
    /// The values of [`ATTRIBUTES`].
    #[must_use]
    pub fn header_values(&self) -> [Cow<'_, str>; 6] {
        let of = self.leaf_input();
        [of.id, of.type_name, of.source, of.subject, of.time, of.recorded_at].map(encode)
    }
}

/// Appends the parts of a message to `text`, and says where each of them ends.
///
/// What is absent is empty and what is no UTF-8 is replaced: whoever may publish can put such a message into a
/// stream, and it must not stop a reader. Decoding says what is wrong with it.
pub fn parts<'h>(
    header: impl Fn(&'static str) -> Option<&'h str>,
    payload: &[u8],
    text: &mut String,
) -> [usize; 7] {
    let mut ends = [0; 7];
    for (end, name) in ends.iter_mut().zip(ATTRIBUTES) {
        decode(header(name).unwrap_or_default(), text);
        *end = text.len();
    }
    match std::str::from_utf8(payload) {
        Ok(payload) => text.push_str(payload),
        Err(_) => text.push_str(&String::from_utf8_lossy(payload)),
    }
    let [.., last] = &mut ends;
    *last = text.len();
    ends
}

/// A header value: visible ASCII.
#[must_use]
pub fn encode(text: &str) -> Cow<'_, str> {
    percent(text, |byte| matches!(byte, b'!'..=b'~') && !matches!(byte, b'"' | b'%'))
}

/// A name as one token of a subject, where blanks, dots and wildcards have a meaning.
#[must_use]
pub fn token(name: &str) -> Cow<'_, str> {
    let plain = |byte| matches!(byte, b'!'..=b'~') && !matches!(byte, b'.' | b'*' | b'>' | b'%');
    match name {
        "" => Cow::Borrowed("_"),
        // Another name than none is another token.
        "_" => Cow::Borrowed("%5F"),
        _ => percent(name, plain),
    }
}

fn percent(text: &str, plain: impl Fn(u8) -> bool) -> Cow<'_, str> {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    if text.bytes().all(&plain) {
        return Cow::Borrowed(text);
    }
    let mut encoded = String::with_capacity(text.len().saturating_mul(3));
    for byte in text.bytes() {
        if plain(byte) {
            encoded.push(char::from(byte));
        } else {
            let digits = [byte >> 4, byte & 0x0f].map(|n| char::from(DIGITS[usize::from(n)]));
            encoded.push('%');
            encoded.extend(digits);
        }
    }
    Cow::Owned(encoded)
}

/// Appends what a header value says. A `%` that begins nothing is itself.
fn decode(value: &str, text: &mut String) {
    if !value.contains('%') {
        return text.push_str(value);
    }
    let (mut bytes, mut rest) = (Vec::with_capacity(value.len()), value.as_bytes());
    while let [first, after @ ..] = rest {
        let coded = match after {
            [high, low, behind @ ..] if *first == b'%' => byte(*high, *low).zip(Some(behind)),
            _ => None,
        };
        let (byte, behind) = coded.unwrap_or((*first, after));
        bytes.push(byte);
        rest = behind;
    }
    text.push_str(&String::from_utf8_lossy(&bytes));
}

/// A percent-encoded byte's value, of two hex digits of either case.
fn byte(high: u8, low: u8) -> Option<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    u8::try_from((digit(high)? << 4) | digit(low)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_visible_and_comes_back() {
        let cases = [
            ("", ""),
            ("pods/ml/train-0", "pods/ml/train-0"),
            ("50% \"ä\"", "50%25%20%22%C3%A4%22"),
            (" \r\n\t\u{0}", "%20%0D%0A%09%00"),
            ("~!", "~!"),
        ];
        for (text, header) in cases {
            assert_eq!(encode(text), header);
            let mut decoded = String::new();
            decode(header, &mut decoded);
            assert_eq!(decoded, text);
        }
    }

    #[test]
    fn what_nobody_encoded_is_read_as_it_stands() {
        for (value, text) in
            [("%", "%"), ("%4", "%4"), ("%zz%41", "%zzA"), ("%ff", "\u{fffd}"), ("%c3%A4", "ä")]
        {
            let mut decoded = String::new();
            decode(value, &mut decoded);
            assert_eq!(decoded, text);
        }
    }

    #[test]
    fn a_name_is_one_token_of_a_subject() {
        for (name, expected) in [
            ("east", "east"),
            ("a.b", "a%2Eb"),
            ("*", "%2A"),
            (">", "%3E"),
            ("", "_"),
            ("_", "%5F"),
            ("ä b", "%C3%A4%20b"),
        ] {
            assert_eq!(token(name), expected);
        }
    }
}
