//! Mutants of a corpus: bytes flipped, ranges cut, doubled and swapped, tokens put in, numbers blown up, two
//! inputs spliced. What was accepted joins the pool, so that mutants of mutants get deeper.

use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

/// No mutant is longer: many short ones find more than a few long ones.
const MAX_BYTES: usize = 16 << 10;
/// Accepted inputs that are kept beside the corpus.
const MAX_POOL: usize = 500;

/// What breaks parsers: in place of any number.
const NUMBERS: [&str; 14] = [
    "0",
    "-1",
    "1e3",
    "1e400",
    "-0",
    "0.1",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "170141183460469231731687303715884105727",
    "99999999999999999999999999999999999999999999999999999999999999999999",
    "0000000000000001",
    "253402300800000",
    "-62135596800",
];

/// Makes inputs for one target, the same ones from the same seed as long as the same are accepted.
pub(crate) struct Mutator {
    dice: Xoshiro256PlusPlus,
    pool: Vec<Vec<u8>>,
    seeds: usize,
    tokens: &'static [&'static str],
}

impl Mutator {
    /// A mutator of `corpus`, with words of the target's language.
    pub(crate) fn new(
        seed: u64,
        name: &str,
        corpus: Vec<Vec<u8>>,
        tokens: &'static [&'static str],
    ) -> Self {
        assert!(!corpus.is_empty(), "{name}: no corpus");
        let salt = name.bytes().fold(seed, |salt, b| salt.rotate_left(7) ^ u64::from(b));
        let dice = Xoshiro256PlusPlus::seed_from_u64(salt);
        Self { dice, seeds: corpus.len(), pool: corpus, tokens }
    }

    /// How many inputs the corpus has.
    pub(crate) fn seeds(&self) -> u64 {
        self.seeds as u64
    }

    /// The input of a case: first the corpus itself.
    pub(crate) fn next(&mut self, case: u64) -> Vec<u8> {
        if case < self.seeds() {
            return self.pool[case as usize].clone();
        }
        let mut input = self.pick();
        for _ in 0..self.dice.random_range(1..=4) {
            self.mutate(&mut input);
        }
        input
    }

    /// Remembers an accepted input.
    pub(crate) fn keep(&mut self, input: Vec<u8>) {
        if input.len() > MAX_BYTES || self.pool.contains(&input) {
            return;
        }
        if self.pool.len() < self.seeds + MAX_POOL {
            self.pool.push(input);
        } else {
            let i = self.dice.random_range(self.seeds..self.pool.len());
            self.pool[i] = input;
        }
    }

    fn pick(&mut self) -> Vec<u8> {
        // Half the time from the corpus: accepted mutants would soon outnumber it.
        let most = if self.dice.random_bool(0.5) { self.seeds } else { self.pool.len() };
        let i = self.dice.random_range(0..most);
        self.pool[i].clone()
    }

    fn mutate(&mut self, input: &mut Vec<u8>) {
        let (from, to) = self.range(input.len());
        match self.dice.random_range(0..11) {
            0 if from < input.len() => input[from] ^= 1 << self.dice.random_range(0..8),
            1 if from < input.len() => input[from] = self.dice.random(),
            2 => drop(input.drain(from..to)),
            3 => {
                let part = input[from..to].to_vec();
                input.splice(to..to, part);
            }
            4 => {
                let token = self.tokens[self.dice.random_range(0..self.tokens.len())];
                input.splice(from..from, token.bytes());
            }
            5 => {
                let token = self.tokens[self.dice.random_range(0..self.tokens.len())];
                input.splice(from..to, token.bytes());
            }
            6 => self.number(input),
            7 => {
                let other = self.pick();
                let (a, b) = self.range(other.len());
                input.splice(from..to, other[a..b].iter().copied());
            }
            8 => input.truncate(from),
            9 => {
                let (a, b) = self.range(input.len());
                let part = input[a..b].to_vec();
                input.splice(from..from, part);
            }
            _ => {
                let most = if self.dice.random_bool(0.1) { 400 } else { 12 };
                let times = self.dice.random_range(2..most);
                let part = input[from..to.min(from + 64)].repeat(times);
                input.splice(from..from, part);
            }
        }
        input.truncate(MAX_BYTES);
    }

    /// Puts another number in place of one that is there.
    fn number(&mut self, input: &mut Vec<u8>) {
        let starts = |i: &usize| {
            input[*i].is_ascii_digit()
                && !i.checked_sub(1).is_some_and(|b| input[b].is_ascii_digit())
        };
        let places: Vec<usize> = (0..input.len()).filter(starts).collect();
        if places.is_empty() {
            return;
        }
        let from = places[self.dice.random_range(0..places.len())];
        let digits = input[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        let other = NUMBERS[self.dice.random_range(0..NUMBERS.len())];
        input.splice(from..from + digits, other.bytes());
    }

    /// A range, more often a short one.
    fn range(&mut self, length: usize) -> (usize, usize) {
        let from = self.dice.random_range(0..=length);
        let most = if self.dice.random_bool(0.8) { 16 } else { length };
        let to = (from + self.dice.random_range(0..=most)).min(length);
        (from, to)
    }
}

#[test]
fn one_seed_makes_the_same_inputs_again() {
    let inputs = || {
        let mut mutator = Mutator::new(7, "x", vec![b"{\"a\":1}".to_vec()], &["null"]);
        (0..50).map(|case| mutator.next(case)).collect::<Vec<_>>()
    };
    assert_eq!(inputs(), inputs());
    assert!(inputs().iter().any(|input| input != b"{\"a\":1}"));
}
