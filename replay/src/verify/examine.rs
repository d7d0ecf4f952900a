//! A slow second reading of a log that differs: what was done to it, record by record.
//!
//! Every line carries the leaf of the position that it was written at, so a line whose leaf fits another position
//! was moved, or others before it are gone; one that fits none was altered, or never written here. The recorded
//! roots then say which of line and leaf is the original. It goes on behind a difference, and never panics on
//! what it reads.

mod lines;
mod proof;

use super::finding::{Finding, LISTED, What};
use crate::reading::Log;
use bizrq::{
    cli::Error,
    domain::{
        event::Position,
        merkle::{Hash, LeafHasher},
    },
    event_log::codec::{Scanned, scan},
};
use lines::{Damaged, Line, Lines, Next};
use proof::Proof;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// So far a record is looked for from where it is expected.
const REACH: u64 = 1024;
/// So many records are looked for: a few seconds. Of a log that is wrong throughout the rest counts as altered.
const SEARCHES: u32 = 2000;
/// Records that are missing are kept one by one, to know them when they come later; longer ranges are not.
const MISSING: usize = 4096;

/// Where the examination is.
struct Examiner {
    hasher: LeafHasher,
    /// The record that should come next.
    expected: Position,
    /// Lines that fit no position, since the last that did.
    unplaced: Vec<Unplaced>,
    /// Records that were passed over and did not come since.
    missing: BTreeSet<Position>,
    searches: u32,
    proof: Proof,
    findings: Vec<Finding>,
}

/// A line that fits no position.
struct Unplaced {
    file: PathBuf,
    line: u64,
    /// The leaf that its content would have at the position that it seems to have, and the one beside it.
    leaves: Option<(Hash, Hash)>,
    why: String,
}

/// Everything that differs in a folder, in the order of positions.
pub(super) fn examine(log: &Log, dir: &Path) -> Result<Vec<Finding>, Error> {
    let bar = log.progress("examining");
    let mut lines = Lines::open(log, dir)?;
    let (proof, findings) = Proof::open(log, dir)?;
    let mut examiner = Examiner {
        hasher: LeafHasher::default(),
        expected: 1,
        unplaced: Vec::new(),
        missing: BTreeSet::new(),
        searches: SEARCHES,
        proof,
        findings,
    };
    while let Some(next) = lines.next()? {
        match next {
            Next::Line(line) => {
                bar.more(line.bytes.len() as u64);
                examiner.take(&line);
            }
            Next::Damaged(damaged) => examiner.pass(&damaged),
        }
        if examiner.findings.len() > LISTED {
            break;
        }
    }
    Ok(examiner.finish())
}

impl Examiner {
    fn take(&mut self, line: &Line) {
        let scanned = match scan(&line.bytes) {
            Ok(scanned) => scanned,
            Err(why) => return self.unplaced(line, None, why.to_string()),
        };
        if line.begins_continued_log() {
            // What it continues is not here, so there is no tree to compare with `roots`.
            self.expected = line.hint;
            self.proof.give_up();
        }
        let Some(recorded) = scanned.leaf else {
            return self.unplaced(line, None, "the line has no leaf".to_owned());
        };
        let seems = self.expected.saturating_add(self.unplaced.len() as u64);
        let computed = self.hasher.leaf(seems, &scanned.leaf_input());
        if computed == recorded {
            return self.placed(seems, recorded, line);
        }
        match self.search(&scanned, recorded, line.hint) {
            Some(position) => self.placed(position, recorded, line),
            None => {
                let why = format!("the leaf is {computed}, but {recorded} is recorded beside it");
                self.unplaced(line, Some((computed, recorded)), why);
            }
        }
    }

    /// The position that the recorded leaf was made for, nearest first.
    fn search(
        &mut self,
        scanned: &Scanned<'_>,
        recorded: Hash,
        hint: Position,
    ) -> Option<Position> {
        self.searches = self.searches.checked_sub(1)?;
        let behind = (self.expected..self.expected.saturating_add(REACH)).map(Some);
        let before = (1..=REACH).map(|back| self.expected.checked_sub(back).filter(|p| *p > 0));
        let near = behind.zip(before).flat_map(|(behind, before)| [behind, before]).flatten();
        let all = std::iter::once(hint).chain(near).chain(self.missing.iter().copied());
        let (hasher, input) = (&mut self.hasher, scanned.leaf_input());
        all.into_iter().find(|position| hasher.leaf(*position, &input) == recorded)
    }

    /// Goes on behind a compressed segment that cannot be unpacked to its end.
    fn pass(&mut self, damaged: &Damaged) {
        // What was unpacked stands where it should, as far as anybody can tell.
        self.settle(self.expected.saturating_add(self.unplaced.len() as u64));
        let recorded = self.proof.last_position();
        let last = damaged.last.unwrap_or_else(|| recorded.max(self.expected));
        let whole = self.expected > last || (damaged.last.is_none() && self.expected > recorded);
        let Damaged { file, why, .. } = damaged;
        let (from, to, why) = match whole {
            // Of a log without `roots`, too, nobody knows of a record behind these.
            true => {
                let why = format!("what was unpacked is whole, but the file is not: {why}");
                (damaged.first, self.expected.saturating_sub(1).max(damaged.first), why)
            }
            false => {
                let from = self.expected;
                let why = format!("the compressed data is cut off or damaged from here on: {why}");
                (from, last, why)
            }
        };
        self.proof.give_up();
        let finding = Finding::of(What::Unreadable, from, to, why);
        self.find(Finding { file: Some(file.display().to_string()), ..finding });
        self.expected = self.expected.max(last.saturating_add(1));
    }

    fn unplaced(&mut self, line: &Line, leaves: Option<(Hash, Hash)>, why: String) {
        let (file, number) = (line.file.clone(), line.number);
        self.unplaced.push(Unplaced { file, line: number, leaves, why });
    }

    /// A line is the record of `position`.
    fn placed(&mut self, position: Position, leaf: Hash, line: &Line) {
        if position < self.expected {
            let (what, why) = if self.missing.remove(&position) {
                let after = self.expected.saturating_sub(1);
                (What::Moved, format!("the record stands behind record {after}"))
            } else {
                (What::Inserted, "the record stands here a second time".to_owned())
            };
            self.find(Finding::of(what, position, position, why).at(&line.file, line.number));
            return;
        }
        self.settle(position);
        self.proof.push(leaf, leaf, &mut self.findings);
        self.expected = position.saturating_add(1);
    }

    /// Says what the lines are that fit no position, and what is missing, before the record at `next`.
    fn settle(&mut self, next: Position) {
        let places = next.saturating_sub(self.expected);
        for (i, unplaced) in (0..).zip(std::mem::take(&mut self.unplaced)) {
            let position = self.expected;
            if i < places {
                self.altered(position, unplaced);
                self.expected = position.saturating_add(1);
            } else {
                let why = format!("the line was never written here: {}", unplaced.why);
                let finding = Finding::of(What::Inserted, position, position, why);
                self.find(finding.at(&unplaced.file, unplaced.line));
            }
        }
        if self.expected < next {
            self.proof.give_up();
            let last = next.saturating_sub(1);
            if self.missing.len() < MISSING && last.saturating_sub(self.expected) < REACH {
                self.missing.extend(self.expected..next);
            } else {
                self.removed(self.expected, last);
            }
        }
    }

    fn altered(&mut self, position: Position, unplaced: Unplaced) {
        let Unplaced { file, line, leaves, why } = unplaced;
        let what = if leaves.is_some() { What::Altered } else { What::Unreadable };
        let at = self.findings.len();
        self.find(Finding::of(what, position, position, why).at(&file, line));
        match leaves {
            Some((computed, recorded)) => {
                self.proof.doubt(at);
                self.proof.push(computed, recorded, &mut self.findings);
            }
            None => self.proof.give_up(),
        }
    }

    fn removed(&mut self, from: Position, to: Position) {
        let why = match to.saturating_sub(from) {
            0 => "the record is missing".to_owned(),
            more => format!("{} records are missing", more.saturating_add(1)),
        };
        self.find(Finding::of(What::Removed, from, to, why));
    }

    fn find(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    fn finish(mut self) -> Vec<Finding> {
        // Nothing follows: what fits no position stands where it should, as far as anybody can tell.
        let next = self.expected.saturating_add(self.unplaced.len() as u64);
        self.settle(next);
        let missing = std::mem::take(&mut self.missing);
        for (from, to) in ranges(missing) {
            self.removed(from, to);
        }
        self.proof.finish(&mut self.findings);
        let recorded = self.proof.last_position();
        if self.expected <= recorded && self.findings.len() <= LISTED {
            let why = format!(
                "the log ends at {}, but a root was recorded at {recorded}: acknowledged records are gone",
                self.expected.saturating_sub(1)
            );
            self.find(Finding::of(What::Truncated, self.expected, recorded, why));
        }
        self.findings.sort_by_key(|finding| finding.from);
        self.findings
    }
}

/// Consecutive positions as ranges.
fn ranges(positions: BTreeSet<Position>) -> Vec<(Position, Position)> {
    let mut ranges: Vec<(Position, Position)> = Vec::new();
    for position in positions {
        match ranges.last_mut() {
            Some((_, to)) if to.saturating_add(1) == position => *to = position,
            _ => ranges.push((position, position)),
        }
    }
    ranges
}
