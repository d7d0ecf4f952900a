//! How an answer is told: JSON, with an ETag of the position and the instant that it is of; page by page where it is a
//! list.

use super::{Api, access::Sees, problem::Problem, view::View};
use crate::domain::{event::Position, ledger::Ledger, time::Timestamp};
use axum::{
    Json,
    extract::{FromRequestParts, Query},
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

/// A question about a list, as a query says it: `of` which, and `limit` and `page`, which all lists have.
pub(super) struct Paged<T> {
    pub(super) of: T,
    limit: Option<usize>,
    page: Option<String>,
}

/// Of a list that has nothing else to ask about it.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Whole {}

/// A page of a list.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "{L}")]
pub(super) struct Page<L> {
    /// The instant that it is of.
    pub(super) at: Timestamp,
    /// By the records up to here.
    pub(super) position: Position,
    #[serde(flatten)]
    pub(super) list: L,
    /// The token of what follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Paged<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let (mut limit, mut page) = (None, None);
        let mut rest = form_urlencoded::Serializer::for_suffix("/?".to_owned(), 2);
        let query = parts.uri.query().unwrap_or_default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let place = match &*name {
                "limit" => &mut limit,
                "page" => &mut page,
                _ => {
                    rest.append_pair(&name, &value);
                    continue;
                }
            };
            if place.replace(value.clone().into_owned()).is_some() {
                return Err(Problem::wrong(&name, &value, "is given twice; give one"));
            }
        }
        let rest = rest.finish().parse().map_err(|why| Problem::internal(&why))?;
        let Query(of) = Query::<T>::try_from_uri(&rest)?;
        let number = |text: String| {
            text.parse().map_err(|_| Problem::wrong("limit", &text, "is no whole number above 0"))
        };
        Ok(Self { of, limit: limit.map(number).transpose()?, page })
    }
}

impl<T> Paged<T> {
    /// How many lines the page has: as many as are asked for, else `usual`.
    pub(super) fn limit(&self, usual: usize, most: usize) -> Result<usize, Problem> {
        limited(self.limit, usual, most)
    }

    /// The last line of the page before, of `N` parts.
    pub(super) fn after<const N: usize>(&self) -> Result<Option<[String; N]>, Problem> {
        self.page.as_deref().map(read_token).transpose()
    }
}

impl Api {
    /// Answers a question about what `sees` shows of the ledger as it is now.
    pub(super) async fn answer<T: Serialize + Send + 'static>(
        &self,
        sees: Sees,
        headers: &HeaderMap,
        question: impl FnOnce(&View<'_>, Timestamp) -> Result<T, Problem> + Send + 'static,
    ) -> Result<Response, Problem> {
        let asked = self.ask(sees, |view, at| {
            let position = view.ledger().position();
            Ok(((position, at), question(view, at)?))
        });
        let (of, body) = asked.await?;
        answer(headers, of, &body)
    }

    /// The same of a question that is `brief`, as the ledger stands: it is answered where it came in, unless the ledger is
    /// being changed. Another thread would have to be woken for it, which takes longer than the answer.
    pub(super) async fn answer_briefly<T: Serialize + Send + 'static>(
        &self,
        sees: Sees,
        headers: &HeaderMap,
        brief: impl FnOnce(&Ledger) -> bool,
        question: impl FnOnce(&View<'_>, Timestamp) -> Result<T, Problem> + Send + 'static,
    ) -> Result<Response, Problem> {
        match self.at_once(&sees, brief, question) {
            Ok(asked) => {
                let (of, body) = asked?;
                answer(headers, of, &body)
            }
            Err(question) => self.answer(sees, headers, question).await,
        }
    }

    /// The answer to a question that need not wait; else the question.
    fn at_once<T, Q: FnOnce(&View<'_>, Timestamp) -> Result<T, Problem>>(
        &self,
        sees: &Sees,
        brief: impl FnOnce(&Ledger) -> bool,
        question: Q,
    ) -> Result<Result<(Of, T), Problem>, Q> {
        // To find out what a tenant sees takes as long as that is large.
        if !sees.is_whole() || !self.source.projection.status().caught_up {
            return Err(question);
        }
        let ledger = self.source.projection.try_ledger().filter(|ledger| brief(ledger));
        let Some(ledger) = ledger else { return Err(question) };
        let now = (self.source.now)();
        let answer = View::new(&ledger, sees).and_then(|view| question(&view, now));
        Ok(answer.map(|answer| ((ledger.position(), now), answer)))
    }
}

/// The position and the instant that an answer is of.
type Of = (Position, Timestamp);

/// Answers with `body`, or with "you have it", if the asker's ETag says so. A path and query have one answer at a
/// position and an instant.
pub(super) fn answer(
    asked: &HeaderMap,
    (position, at): Of,
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
fn limited(asked: Option<usize>, usual: usize, most: usize) -> Result<usize, Problem> {
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
fn read_token<const N: usize>(token: &str) -> Result<[String; N], Problem> {
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
