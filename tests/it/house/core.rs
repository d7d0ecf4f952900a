//! What stays out of `domain`: clocks, files, threads, chance and floats. Everything came in an argument.
//!
//! Lints see most of it (`src/domain.rs`, `.clippy.toml`); this sees the words, also where no lint looks.

use super::{
    paths::used,
    source::{Source, Token, place, sources, starts},
};

/// Words in a row, and what to use instead.
const FORBIDDEN: &[(&str, &str)] = &[
    ("SystemTime", "take a Timestamp as an argument"),
    ("Instant", "take a Timestamp as an argument"),
    ("Utc :: now", "take a Timestamp as an argument"),
    ("Local", "times are UTC; take a Timestamp as an argument"),
    ("Mutex", "the ledger has one owner; whoever shares it locks it"),
    ("RwLock", "the ledger has one owner; whoever shares it locks it"),
    ("tokio", "async belongs to whoever calls"),
    ("async", "async belongs to whoever calls"),
    ("rand", "equal histories give equal ledgers"),
    ("RandomState", "use names::Map, whose seed is fixed"),
    ("f32", "amounts are integers"),
    ("f64", "amounts are integers"),
    ("println", "printing is cli's"),
    ("eprintln", "printing is cli's"),
    ("unsafe", "forbidden everywhere"),
];

/// What the core uses of std: values and collections, and `hint`, which only the compiler hears. No fs, io, net, env,
/// process, thread, time.
const STD: &[&str] = &[
    "borrow",
    "cmp",
    "collections",
    "fmt",
    "hash",
    "hint",
    "iter",
    "mem",
    "ops",
    "slice",
    "str",
    "sync",
];

/// File, word, reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[(
    "src/domain/quantity/json.rs",
    "f64",
    "serde hands a JSON number with a fraction over as a float; it is turned into its text at once",
)];

#[test]
fn the_core_knows_no_clock_no_file_no_thread_no_chance_and_no_float() {
    let mut wrong = Vec::new();
    for source in core() {
        let tokens = source.shipped();
        for at in 0..tokens.len() {
            if is_float_literal(&tokens[at]) {
                wrong.push(format!("{}: a float", place(&source, &tokens[at])));
            }
            for (words, instead) in FORBIDDEN {
                if starts(&tokens[at..], words) && !is_excepted(&source, words) {
                    let at = place(&source, &tokens[at]);
                    wrong.push(format!("{at}: {words}; {instead}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_core_uses_values_and_collections_of_std_and_nothing_that_waits_or_reads() {
    for source in core() {
        for (module, at) in used(&source, &source.shipped(), "std") {
            assert!(STD.contains(&module.as_str()), "{at}: std::{module} is not for the core");
        }
    }
}

#[test]
fn no_exception_outlives_its_reason() {
    for (path, word, why) in EXCEPTIONS {
        let source = core().into_iter().find(|s| s.path == *path);
        let source = source.unwrap_or_else(|| panic!("{path} is gone; take it out of the list"));
        let used = source.shipped().iter().any(|t| t.text == *word);
        assert!(used, "{path} uses {word} no more ({why}); take it out of the list");
    }
}

#[test]
fn std_maps_with_a_random_seed_stay_in_one_file() {
    for source in core().iter().filter(|s| s.path != "src/domain/names.rs") {
        for token in source.shipped() {
            let random = ["HashMap", "HashSet"].contains(&token.text.as_str());
            assert!(!random, "{}: use names::Map or names::Set", place(source, &token));
        }
    }
}

#[test]
fn floats_are_seen() {
    let float = |text: &str| is_float_literal(&Token { line: 1, text: text.into() });
    assert!(["1.0", "1e9", "2f64", "1_0.5e3"].into_iter().all(float));
    assert!(!["1", "0x1e9", "0b1", "1_000u64", "0xf32", "e1", "1usize"].into_iter().any(float));
}

fn core() -> Vec<Source> {
    sources("src").into_iter().filter(|s| s.room() == "domain").collect()
}

fn is_excepted(source: &Source, words: &str) -> bool {
    EXCEPTIONS.iter().any(|(path, word, _)| *path == source.path && *word == words)
}

fn is_float_literal(token: &Token) -> bool {
    let text = &token.text;
    let is_number = text.starts_with(|c: char| c.is_ascii_digit());
    let is_decimal = !["0x", "0b", "0o"].iter().any(|p| text.starts_with(p));
    let digits = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_');
    is_number && is_decimal && ['.', 'e', 'f'].iter().any(|c| digits.starts_with(*c))
}
