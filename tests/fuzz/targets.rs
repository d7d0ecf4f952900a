//! What is fuzzed: a parser, where its inputs begin, and what must hold of what it accepts.

mod events;
mod imports;
mod quotas;
mod recordings;
mod reviews;
mod texts;

/// Parses one input; true if it was accepted. Panics when what must hold does not.
pub(crate) type Parser = Box<dyn FnMut(&[u8]) -> bool>;

/// One parser.
pub(crate) struct Target {
    /// What it is called, also its folder in the corpus.
    pub(crate) name: &'static str,
    /// Where its inputs begin.
    pub(crate) corpus: fn() -> Vec<Vec<u8>>,
    /// Words of its language.
    pub(crate) tokens: &'static [&'static str],
    /// Makes the parser, with whatever it keeps between inputs.
    pub(crate) parser: fn() -> Parser,
}

/// Every target.
pub(crate) const ALL: &[Target] = &[
    texts::QUANTITY,
    texts::TIMESTAMP,
    texts::KEY,
    texts::FRONTIER,
    events::LINE,
    events::DATA,
    imports::MAP,
    imports::ROWS,
    recordings::RECORDING,
    recordings::COMPRESSED,
    quotas::YAML,
    reviews::REVIEW,
    reviews::KINDS,
];
