//! The manifest of an archive, held against the records that are there: each number that it states.

use super::finding::{Finding, What};
use crate::reading::{Halt, Log};
use bizrq::{
    cli::Error,
    domain::event::Position,
    event_log::{
        archive::{MANIFEST_FILE, Manifest, ManifestError},
        bulk::{self, Source},
        survey::Survey,
    },
};
use std::path::Path;

/// What the manifest in `dir` says otherwise than the records, which are proved; nothing if there is none.
pub(super) fn compare(log: &Log, dir: &Path) -> Result<Option<Finding>, Error> {
    let file = dir.join(MANIFEST_FILE);
    let finding = |from, to, why: String| {
        let finding = Finding::of(What::Manifest, from, to, why);
        Some(Finding { file: Some(file.display().to_string()), ..finding })
    };
    let stated = match Manifest::read(dir) {
        Ok(Some(manifest)) => manifest,
        Ok(None) => return Ok(None),
        Err(error @ ManifestError::Malformed { .. }) => {
            return Ok(finding(0, 0, error.to_string()));
        }
        Err(error) => return Err(Error::log(&log.place, error)),
    };
    let found = survey(log, dir)?;
    if let Err(differs) = stated.bears_out(&found.tree) {
        let (said, ends) = (stated.position, found.tree.position());
        let (from, to) = match said.cmp(&ends) {
            std::cmp::Ordering::Greater => (ends.saturating_add(1), said),
            std::cmp::Ordering::Less => (said.saturating_add(1), ends),
            std::cmp::Ordering::Equal => (ends, ends),
        };
        return Ok(finding(from, to, differs.to_string()));
    }
    let true_one = Manifest::new(&stated.log, &found, stated.exported_at);
    let fields = [
        ("base", stated.base == true_one.base),
        ("lastDecision", stated.last_decision == true_one.last_decision),
        ("frontier", stated.frontier == true_one.frontier),
        ("version", stated.version == true_one.version),
        ("types", stated.types == true_one.types),
    ];
    let wrong = fields.into_iter().find(|(_, same)| !same);
    let position = stated.position;
    Ok(wrong.and_then(|(field, _)| {
        let why = format!("`{field}` is not what the records up to position {position} give");
        finding(position, position, why)
    }))
}

/// What the records in `dir` are.
fn survey(log: &Log, dir: &Path) -> Result<Survey, Error> {
    let bar = log.progress("comparing with the manifest");
    let mut survey = Survey::default();
    let read = bulk::read(Source::Log { dir, limit: Position::MAX }, |batch| {
        for (position, line) in batch.iter() {
            let failed = |why: String| Error::log(dir.display(), why);
            let scanned = line.map_err(|e| failed(format!("position {position}: {e}")))?;
            survey.take(position, &scanned).map_err(|e| failed(e.to_string()))?;
        }
        bar.more(batch.bytes() as u64);
        Ok::<_, Halt>(())
    });
    log.finished(read).map(|_| survey)
}
