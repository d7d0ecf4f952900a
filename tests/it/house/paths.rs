//! Which names follow a root: the rooms after `crate::`, the modules after `std::`.

use super::source::{Source, Token, place};

/// The first names after `root::`, in paths and in `use root::{…}`, with their places.
pub(super) fn used(source: &Source, tokens: &[Token], root: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        if tokens[at].text == root && tokens.get(at + 1).is_some_and(|t| t.text == "::") {
            for token in heads(&tokens[at + 2..]) {
                found.push((token.text.clone(), place(source, token)));
            }
        }
    }
    found
}

/// The first names of what follows `crate::`: one, or each of a list in braces.
fn heads(tokens: &[Token]) -> Vec<&Token> {
    let Some(first) = tokens.first() else { return Vec::new() };
    if first.text != "{" {
        return vec![first];
    }
    let (mut depth, mut heads, mut is_head) = (0_usize, Vec::new(), false);
    for token in tokens {
        match token.text.as_str() {
            "{" => {
                depth += 1;
                is_head = depth == 1;
            }
            "}" => {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            }
            "," => is_head = depth == 1,
            _ if is_head => {
                heads.push(token);
                is_head = false;
            }
            _ => {}
        }
    }
    heads
}

#[test]
fn lists_in_braces_are_read() {
    let source = Source {
        path: "src/a/b.rs".into(),
        text:
            "use crate::{a::{b, c}, d, e::f,\n};\nfn g() { crate::h::i(); other::crate_name::x() }"
                .into(),
    };
    let found: Vec<_> =
        used(&source, &source.tokens(), "crate").into_iter().map(|(name, _)| name).collect();
    assert_eq!(found, ["a", "d", "e", "h"]);
}
