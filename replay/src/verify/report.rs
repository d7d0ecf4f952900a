//! The report of a verification, for people and for programs.

use super::{
    finding::{Finding, LISTED, What},
    history::{Gap, History, trees},
    store::Compared,
};
use crate::{
    Output,
    reading::{Halt, Log},
};
use bizrq::{
    cli::{
        Error,
        out::{Out, Style, printable},
    },
    domain::{event::Position, merkle::Frontier, merkle::Hash},
    event_log::{bulk::Summary, file::roots::Roots},
};
use serde::Serialize;
use std::fmt::Display;

/// Everything that is told.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    ok: bool,
    log: String,
    /// Position of the last record; `null` when the log is not whole.
    position: Option<Position>,
    root: Option<String>,
    records: u64,
    bytes: u64,
    /// Bytes of half a line at the end, which was never acknowledged.
    torn_bytes: usize,
    roots: RootsFile,
    #[serde(skip_serializing_if = "Option::is_none")]
    given: Option<Given>,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<Compared>,
    findings: Vec<Finding>,
    fold: Fold,
    heartbeat_gaps: Vec<Gap>,
}

/// The file `roots`, of each folder.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct RootsFile {
    /// Lines that were compared.
    compared: usize,
    /// Position of the last; records behind it are proved by their leaves and by whoever kept a root.
    last_position: Position,
}

/// What the events say.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Fold {
    /// The last record that was folded.
    position: Position,
    changed: u64,
    repeated: u64,
    ignored: u64,
    dropped: u64,
    unknown_types: u64,
    quarantined: Vec<Quarantined>,
    /// Why the fold ended before the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<String>,
}

#[derive(Serialize)]
struct Quarantined {
    position: Position,
    reason: String,
}

/// The root that a person gave.
#[derive(Serialize)]
pub(super) struct Given {
    root: String,
    /// Where the log has or had it.
    position: Option<Position>,
    /// The log's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<String>,
}

impl Given {
    /// Looks for the root at the end, then at every position.
    pub(super) fn find(log: &Log, root: Hash, tree: &Frontier) -> Result<Self, Error> {
        let found = tree.root();
        let mut position = (found == root).then(|| tree.position());
        if position.is_none() && log.first == 1 {
            trees(log, Position::MAX, &mut |tree| {
                if tree.position() == 0 || tree.root() != root {
                    return Ok(());
                }
                position = Some(tree.position());
                Err(Halt::Enough)
            })?;
        }
        Ok(Self { root: root.to_string(), position, found: Some(found.to_string()) })
    }

    /// Of a log that is not whole: it has no root to compare with.
    pub(super) fn unknown(root: Hash) -> Self {
        Self { root: root.to_string(), position: None, found: None }
    }

    pub(super) fn finding(&self) -> Option<Finding> {
        let (None, Some(found)) = (self.position, &self.found) else { return None };
        let why = format!("the root is {found}, and never was {}", self.root);
        Some(Finding::of(What::Root, 0, 0, why))
    }
}

impl Report {
    pub(super) fn new(
        log: &Log,
        summary: &Summary,
        history: &History,
        given: Option<Given>,
        mut findings: Vec<Finding>,
    ) -> Result<Self, Error> {
        findings.truncate(LISTED);
        let tree = summary.tree.as_ref();
        // Of a log that is not whole the findings say what of `roots` holds.
        let mut roots = RootsFile::default();
        for dir in log.folders.iter().filter(|_| tree.is_some()) {
            let file = Roots::read(dir).map_err(|e| Error::log(&log.place, e))?;
            roots.compared = roots.compared.saturating_add(file.entries().len());
            roots.last_position = roots.last_position.max(file.last_position());
        }
        let (ledger, counts) = (&history.ledger, history.ledger.counts());
        let quarantined = ledger.quarantined().iter();
        let quarantined = quarantined.map(|q| {
            let (position, reason) = (q.position, q.reason.clone());
            Quarantined { position, reason }
        });
        let stopped = history.stop.as_ref().map(ToString::to_string);
        let continued =
            "the log continues another; name both, the earlier first, to fold them".to_owned();
        Ok(Self {
            ok: findings.is_empty(),
            log: log.place.clone(),
            position: tree.map(Frontier::position),
            root: tree.map(|tree| tree.root().to_string()),
            records: summary.lines,
            bytes: summary.bytes,
            torn_bytes: summary.torn_bytes,
            roots,
            given,
            store: None,
            findings,
            fold: Fold {
                position: ledger.position(),
                changed: counts.changed,
                repeated: counts.repeated,
                ignored: counts.ignored,
                dropped: counts.dropped,
                unknown_types: history.unknown,
                quarantined: quarantined.collect(),
                stopped: if history.folds { stopped } else { Some(continued) },
            },
            heartbeat_gaps: history.gaps.clone(),
        })
    }

    /// The same, with what a store was found to be.
    pub(super) fn with_store(self, store: Option<Compared>) -> Self {
        Self { store, ..self }
    }

    /// Whether the log is what was written.
    pub(super) const fn ok(&self) -> bool {
        self.ok
    }

    pub(super) fn print(&self, output: Output, out: &mut Out) -> Result<(), Error> {
        if output == Output::Json {
            return out.json(self);
        }
        self.whole(out)?;
        self.folded(out)?;
        if let Some(Compared { position, rows, .. }) = &self.store {
            row(out, "store", format_args!("{rows} rows at position {position}"))?;
        }
        for gap in &self.heartbeat_gaps {
            row(out, "gap", printable(&gap.text()))?;
        }
        for finding in &self.findings {
            self.finding(finding, out)?;
        }
        let (style, verdict) = match (self.ok, self.findings.len()) {
            (true, _) => (Style::Good, "the log is what was written".to_owned()),
            (false, 1) => (Style::Bad, "the log is not what was written: 1 finding".to_owned()),
            (false, n) => (Style::Bad, format!("the log is not what was written: {n} findings")),
        };
        let verdict = out.paint().styled(style, &verdict).into_owned();
        out.line(verdict)
    }

    fn whole(&self, out: &mut Out) -> Result<(), Error> {
        row(out, "log", printable(&self.log))?;
        let (Some(position), Some(root)) = (self.position, &self.root) else { return Ok(()) };
        row(
            out,
            "records",
            format_args!("{} to position {position}, {} bytes", self.records, self.bytes),
        )?;
        row(out, "root", root)?;
        let RootsFile { compared, last_position } = &self.roots;
        match compared {
            0 => row(out, "roots", "no line; the leaves alone were compared")?,
            _ => {
                row(out, "roots", format_args!("{compared} compared, the last at {last_position}"))?
            }
        }
        if self.torn_bytes > 0 {
            let torn = self.torn_bytes;
            row(
                out,
                "torn",
                format_args!("{torn} bytes of a line at the end, never acknowledged"),
            )?;
        }
        match self.given.as_ref().and_then(|given| given.position) {
            Some(at) if at == position => row(out, "--root", "is the root"),
            Some(at) => {
                let later = position.saturating_sub(at);
                row(out, "--root", format_args!("was the root at {at}; {later} records follow it"))
            }
            None => Ok(()),
        }
    }

    fn folded(&self, out: &mut Out) -> Result<(), Error> {
        let Fold { position, changed, repeated, ignored, dropped, .. } = &self.fold;
        row(
            out,
            "folded",
            format_args!(
                "to position {position}: {changed} changed something, {repeated} repeated, \
                 {ignored} ignored, {dropped} dropped, {} quarantined",
                self.fold.quarantined.len()
            ),
        )?;
        if self.fold.unknown_types > 0 {
            row(
                out,
                "unknown",
                format_args!("{} records of unknown types", self.fold.unknown_types),
            )?;
        }
        for Quarantined { position, reason } in &self.fold.quarantined {
            row(out, "quarantine", format_args!("position {position}: {}", printable(reason)))?;
        }
        self.fold.stopped.as_ref().map_or(Ok(()), |why| row(out, "stopped", why))
    }

    fn finding(&self, finding: &Finding, out: &mut Out) -> Result<(), Error> {
        let Finding { from, to, file, line, block, why, .. } = finding;
        let place = match (from, to) {
            (0, _) => String::new(),
            (from, to) if from == to => format!("position {from} "),
            (from, to) => format!("positions {from} to {to} "),
        };
        let block = match from {
            0 => String::new(),
            _ => format!("(block {} to {}) ", block.from, block.to),
        };
        let file = match (file, line) {
            (Some(file), Some(line)) => format!("{file}, line {line}: "),
            (Some(file), None) => format!("{file}: "),
            _ => String::new(),
        };
        let text = format!("{place}{block}{file}{why}");
        let text = out.paint().styled(Style::Bad, &printable(&text)).into_owned();
        row(out, "DIFFERS", text)
    }
}

/// One line: what it is about, and what it says.
fn row(out: &mut Out, what: &str, says: impl Display) -> Result<(), Error> {
    out.line(format_args!("{what:<11} {says}"))
}
