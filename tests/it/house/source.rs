//! Rust sources as the rules see them: words and marks with their lines, without comments, texts and tests.
//!
//! No parser of the language: enough of it to know a path from a word in a comment.

use std::{fs, path::Path};

/// A file of the project.
pub(super) struct Source {
    /// Its path from the project's root, with `/`.
    pub(super) path: String,
    /// Its text.
    pub(super) text: String,
}

/// A word (with `::` joined to what it joins) or a mark, and the line it stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// The line, from 1.
    pub(super) line: usize,
    /// `use`, `domain`, `0.5`, `{`, `::`.
    pub(super) text: String,
}

/// The project's root.
pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every `.rs` file below `folder`, in order.
pub(super) fn sources(folder: &str) -> Vec<Source> {
    let mut found = Vec::new();
    let mut left = vec![root().join(folder)];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(Source { text: fs::read_to_string(&path).unwrap(), path: name(&path) });
        }
    }
    assert!(!found.is_empty(), "no source below {folder}");
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn name(path: &Path) -> String {
    let inner = path.strip_prefix(root()).unwrap();
    inner.components().map(|c| c.as_os_str().to_str().unwrap()).collect::<Vec<_>>().join("/")
}

impl Source {
    /// The first segment of the module path: `src/cli/quota.rs` is of the room `cli`.
    pub(super) fn room(&self) -> &str {
        let inner = self.path.strip_prefix("src/").unwrap_or(&self.path);
        let first = inner.split('/').next().unwrap_or(inner);
        first.strip_suffix(".rs").unwrap_or(first)
    }

    /// Whether the whole file is compiled for tests only.
    pub(super) fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.contains("/tests/")
    }

    /// Everything but comments and the insides of texts.
    pub(super) fn tokens(&self) -> Vec<Token> {
        tokens(&self.text)
    }

    /// The tokens of what ships: without `#[cfg(test)] mod … { … }`.
    pub(super) fn shipped(&self) -> Vec<Token> {
        if self.is_test() { Vec::new() } else { without_tests(&self.tokens()) }
    }
}

/// Where a token is, for a person.
pub(super) fn place(source: &Source, token: &Token) -> String {
    format!("{}:{}", source.path, token.line)
}

/// Whether `tokens` go on with `pattern`, words and marks parted by blanks.
pub(super) fn starts(tokens: &[Token], pattern: &str) -> bool {
    let mut tokens = tokens.iter();
    pattern.split(' ').all(|word| tokens.next().is_some_and(|t| t.text == word))
}

fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let mut kept = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let here = &tokens[at..];
        if starts(here, "# [ cfg ( test ) ] mod") && here.get(9).is_some_and(|t| t.text == "{") {
            at += 9 + block(&here[9..]);
        } else {
            kept.push(token.clone());
            at += 1;
        }
    }
    kept
}

/// How many tokens the block takes that begins here, with both braces.
fn block(tokens: &[Token]) -> usize {
    let mut depth = 0_usize;
    for (n, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return n + 1;
        }
    }
    tokens.len()
}

fn tokens(text: &str) -> Vec<Token> {
    let mut found: Vec<Token> = Vec::new();
    let (mut rest, mut line) = (text, 1);
    while let Some(first) = rest.chars().next() {
        let is_field = found.last().is_some_and(|t| t.text == ".");
        let (length, kept) = match first {
            '/' if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), false),
            '/' if rest.starts_with("/*") => (comment(rest), false),
            '"' => (quoted(rest, 0), false),
            'r' | 'b' | 'c' if prefixed(rest).is_some() => (prefixed(rest).unwrap(), false),
            '\'' => character(rest).map_or((1, true), |length| (length, false)),
            ':' if rest.starts_with("::") => (2, true),
            c if c.is_ascii_digit() => (number(rest, is_field), true),
            c if c == '_' || c.is_alphanumeric() => (word(rest), true),
            c => (c.len_utf8(), !c.is_whitespace()),
        };
        let (this, next) = rest.split_at(length);
        if kept {
            found.push(Token { line, text: this.to_owned() });
        }
        line += this.matches('\n').count();
        rest = next;
    }
    found
}

fn word(text: &str) -> usize {
    text.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(text.len())
}

/// A number with its fraction and suffix; the field `0` of `pair.0.1` has no fraction.
fn number(text: &str, is_field: bool) -> usize {
    let whole = word(text);
    match text[whole..].strip_prefix('.') {
        Some(next) if !is_field && next.starts_with(|c: char| c.is_ascii_digit()) => {
            whole + 1 + word(next)
        }
        _ => whole,
    }
}

fn comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if text[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// A text in quotes; with `hashes`, a raw one that ends at `"` and as many `#`.
fn quoted(text: &str, hashes: usize) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        let end = at + 1;
        if c == '"' && !escaped && text[end..].starts_with(&"#".repeat(hashes)) {
            return end + hashes;
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

/// `r"…"`, `br#"…"#`, `b"…"`, `b'…'`: how long, if it is one.
fn prefixed(text: &str) -> Option<usize> {
    let letters = word(text);
    if !["r", "b", "c", "br", "cr"].contains(&&text[..letters]) {
        return None;
    }
    let after = &text[letters..];
    if text.starts_with("b'") {
        return character(after).map(|length| letters + length);
    }
    let is_raw = text[..letters].contains('r');
    let hashes = if is_raw { after.len() - after.trim_start_matches('#').len() } else { 0 };
    let body = &after[hashes..];
    if !body.starts_with('"') {
        return None;
    }
    // In a raw text a backslash escapes nothing.
    let end = format!("\"{}", "#".repeat(hashes));
    let length = if is_raw { body[1..].find(&end)? + 1 + end.len() } else { quoted(body, 0) };
    Some(letters + hashes + length)
}

/// A character in quotes; a lifetime is none.
fn character(text: &str) -> Option<usize> {
    let mut inner = text.char_indices().skip(1);
    let (_, first) = inner.next()?;
    if first != '\\' {
        return inner.next().filter(|(_, c)| *c == '\'').map(|(at, _)| at + 1);
    }
    inner.next()?;
    inner.find(|(_, c)| *c == '\'').map(|(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        tokens(text).into_iter().map(|t| t.text).collect()
    }

    #[test]
    fn comments_and_texts_say_nothing() {
        let text = "a /* b /* c */ d */ e // f\n\"g \\\" h\" r#\"i \" j\"# b\"k\" 'l' '\\'' '\\u{6d}' n<'o> r\"\\\"";
        assert_eq!(words(text), ["a", "e", "n", "<", "'", "o", ">"]);
    }

    #[test]
    fn paths_and_numbers_are_whole() {
        assert_eq!(
            words("use crate::a; 0..n 1.5f64 2.max x.0.1"),
            [
                "use", "crate", "::", "a", ";", "0", ".", ".", "n", "1.5f64", "2", ".", "max", "x",
                ".", "0", ".", "1"
            ]
        );
        let lines: Vec<_> = tokens("a\n\"b\n\"\nc").into_iter().map(|t| t.line).collect();
        assert_eq!(lines, [1, 4]);
    }

    #[test]
    fn what_ships_has_no_tests() {
        let source = Source {
            path: "src/a.rs".into(),
            text: "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { {} } }\nfn c() {}".into(),
        };
        let words: Vec<_> = source.shipped().into_iter().map(|t| t.text).collect();
        assert_eq!(words.join(" "), "fn a ( ) { } fn c ( ) { }");
    }
}
