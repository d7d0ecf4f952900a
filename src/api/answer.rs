//! How an answer is told: JSON, with an ETag of the position and the instant that it is of; and tokens for what follows
//! a page.

use super::problem::Problem;
use crate::domain::{event::Position, time::Timestamp};
use axum::{
    Json,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;

/// Answers with `body`, or with "you have it", if the asker's ETag says so. A path and query have one answer at a
/// position and an instant.
pub(super) fn answer(
    asked: &HeaderMap,
    (position, at): (Position, Timestamp),
    body: &impl Serialize,
) -> Result<Response, Problem> {
    // Weak: what is compressed has other bytes.
    let tag = format!("W/\"{position}-{}\"", at.millis());
    let told = asked.get(header::IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
    let has_it = told.is_some_and(|tags| {
        tags.split(',').any(|known| known.trim() == tag || known.trim() == "*")
    });
    let mut response = match has_it {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => Json(body).into_response(),
    };
    let tag = HeaderValue::try_from(tag).map_err(|why| Problem::internal(&why))?;
    response.headers_mut().insert(header::ETAG, tag);
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    response
        .headers_mut()
        .insert(header::VARY, HeaderValue::from_static("authorization, bizrq-token, bizrq-group"));
    Ok(response)
}

/// How many lines a page has: what is asked for, else `usual`.
pub(super) fn limited(asked: Option<usize>, usual: usize, most: usize) -> Result<usize, Problem> {
    let limit = asked.unwrap_or(usual);
    match (1..=most).contains(&limit) {
        true => Ok(limit),
        false => {
            Err(Problem::wrong("limit", &limit.to_string(), &format!("must be from 1 to {most}")))
        }
    }
}

/// A token that names the last line of a page. Only [`read_token`] knows what is in it.
pub(super) fn token(last: &[&str]) -> String {
    let text = last.join("\0");
    text.bytes().fold(String::new(), |token, byte| token + &format!("{byte:02x}"))
}

/// The last line that a token names, of `N` parts.
pub(super) fn read_token<const N: usize>(token: &str) -> Result<[String; N], Problem> {
    let wrong = || Problem::wrong("page", token, "is no token of this list; begin without one");
    let digits = token.as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(wrong)?;
    let parts: Vec<String> = text.split('\0').map(str::to_owned).collect();
    <[String; N]>::try_from(parts).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_gives_back_what_it_was_made_of() {
        let read: [String; 2] = read_token(&token(&["team-é", ""])).unwrap();
        assert_eq!(read, ["team-é", ""]);
        for wrong in ["zz", "7", "ff", &token(&["one"])] {
            assert!(read_token::<2>(wrong).is_err(), "{wrong}");
        }
    }
}
