//! Recorded roots against records that are partly in doubt: they tell which of line and leaf is the original, or,
//! where all lines fit their leaves, that a whole block was written anew.
//!
//! Two trees grow side by side: one of what the lines say, one of the leaves beside them. A recorded root vouches
//! for the tree that has it.

use super::super::finding::{Finding, LISTED, What};
use crate::reading::Log;
use bizrq::{
    cli::Error,
    domain::{
        event::Position,
        merkle::{Frontier, Hash},
    },
    event_log::file::roots::ROOTS_FILE,
};
use std::{
    collections::VecDeque,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// The trees, and the roots that are still ahead.
pub(super) struct Proof {
    /// `None` once a record is missing: no root behind it can be computed.
    trees: Option<Trees>,
    roots: VecDeque<Root>,
    last: Position,
    path: PathBuf,
    /// The last root that was had.
    good: Position,
    /// Findings since then about records whose line and leaf do not fit.
    doubtful: Vec<usize>,
    /// A root that no tree had, so far the only one.
    suspect: Option<Root>,
}

struct Trees {
    content: Frontier,
    leaves: Frontier,
}

#[derive(Clone, Copy)]
struct Root {
    position: Position,
    root: Hash,
    line: u64,
}

impl Proof {
    /// Reads the file `roots`, whatever it is; lines that are none are findings.
    pub(super) fn open(log: &Log, dir: &Path) -> Result<(Self, Vec<Finding>), Error> {
        let path = dir.join(ROOTS_FILE);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            read => read.map_err(|e| Error::log(&log.place, format!("{}: {e}", path.display())))?,
        };
        let (mut roots, mut findings, mut last) = (VecDeque::new(), Vec::new(), 0);
        for (line, bytes) in (1..).zip(text.split_inclusive(|b| *b == b'\n')) {
            // Half a line of a writer that was killed does not count.
            let Some(bytes) = bytes.strip_suffix(b"\n") else { break };
            match parse(bytes).filter(|(position, _)| *position > last) {
                Some((position, root)) => {
                    roots.push_back(Root { position, root, line });
                    last = position;
                }
                None => {
                    let why = "the line of `roots` is no `position root` behind the one before";
                    findings.push(Finding::of(What::Roots, last, last, why).at(&path, line));
                }
            }
            if findings.len() >= LISTED {
                break;
            }
        }
        let trees = Trees { content: Frontier::default(), leaves: Frontier::default() };
        let (trees, good, doubtful, suspect) = (Some(trees), 0, Vec::new(), None);
        Ok((Self { trees, roots, last, path, good, doubtful, suspect }, findings))
    }

    /// Position of the last recorded root.
    pub(super) const fn last_position(&self) -> Position {
        self.last
    }

    /// No root can be computed any more.
    pub(super) fn give_up(&mut self) {
        self.trees = None;
    }

    /// The record that is pushed next is in doubt, says the finding at this index.
    pub(super) fn doubt(&mut self, finding: usize) {
        self.doubtful.push(finding);
    }

    /// Adds the next record by both of its leaves.
    pub(super) fn push(&mut self, content: Hash, leaf: Hash, findings: &mut Vec<Finding>) {
        let Some(trees) = &mut self.trees else { return };
        trees.content.append(content);
        trees.leaves.append(leaf);
        let position = trees.leaves.position();
        while self.roots.front().is_some_and(|root| root.position < position) {
            self.roots.pop_front();
        }
        if let Some(root) = self.roots.front().copied().filter(|root| root.position == position) {
            self.compare(root, findings);
        }
    }

    fn compare(&mut self, root: Root, findings: &mut Vec<Finding>) {
        let Some(trees) = &mut self.trees else { return };
        let verdict = if trees.leaves.root() == root.root {
            trees.content = trees.leaves.clone();
            "; the recorded root has the leaf: the line was altered"
        } else if trees.content.root() == root.root {
            trees.leaves = trees.content.clone();
            "; the recorded root has the line: only the leaf beside it was altered"
        } else {
            self.unmet(root, findings);
            return;
        };
        self.good = root.position;
        for finding in std::mem::take(&mut self.doubtful) {
            if let Some(finding) = findings.get_mut(finding) {
                finding.why.push_str(verdict);
            }
        }
        if let Some(Root { position, line, .. }) = self.suspect.take() {
            let why = format!(
                "the root of position {position} was altered: records and later roots agree without it"
            );
            findings.push(Finding::of(What::Roots, position, position, why).at(&self.path, line));
        }
    }

    /// Neither tree has this root.
    fn unmet(&mut self, root: Root, findings: &mut Vec<Finding>) {
        if !self.doubtful.is_empty() {
            // Several records differ, some by line and some by leaf: they are named already.
            self.give_up();
        } else if self.suspect.is_none() {
            self.suspect = Some(root);
        } else {
            // The second in a row: it is the records, not one line of `roots`.
            self.finish(findings);
            self.give_up();
        }
    }

    /// A root that nothing explained.
    pub(super) fn finish(&mut self, findings: &mut Vec<Finding>) {
        let Some(Root { position, line, root }) = self.suspect.take() else { return };
        let from = self.good.saturating_add(1);
        let why = format!(
            "every line fits its leaf, but the root recorded at {position} is {root}: records of this block \
             were written anew with their leaves, or the line of `roots` was altered"
        );
        findings.push(Finding::of(What::Block, from, position, why).at(&self.path, line));
    }
}

fn parse(line: &[u8]) -> Option<(Position, Hash)> {
    let (position, root) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    Some((position.parse().ok()?, root.parse().ok()?))
}
