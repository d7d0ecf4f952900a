//! A meter as it is written, and read again: periods go by groups, and where a pod is found again follows.

use super::{GROUPS, Meter};
use crate::domain::{
    amounts::Overflow,
    history::{Cell, History, Rows, splits::Splits},
    names::Names,
    sums::Sums,
    table::Misplaced,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What is said once.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in crate::domain) struct Head {
    free_pod: Option<u32>,
    forgotten_until: Option<Timestamp>,
    newest: Option<Timestamp>,
    splits: Splits,
}

/// What some groups of a block add in one period: by place in the block, cells by slot.
pub(in crate::domain) type PeriodCells = Vec<(u32, Vec<Cell>)>;

/// A period of the groups in a block.
pub(in crate::domain) type Periods = BTreeSet<(Rows, i64, u32)>;

impl Meter {
    pub(in crate::domain) fn head(&self) -> Head {
        let Self { forgotten_until, newest, .. } = *self;
        let splits = self.splits.clone();
        Head { free_pod: self.pods.free(), forgotten_until, newest, splits }
    }

    /// What the groups of `block` add in a period.
    pub(in crate::domain) fn period(&self, rows: Rows, number: i64, block: u32) -> PeriodCells {
        let groups = (0..).zip(self.groups.block(block));
        let cells = groups.filter_map(|(place, sums)| {
            Some((place, sums.history()?.cells(rows, number)?.into_owned()))
        });
        cells.collect()
    }

    /// The periods that changed in some group of `blocks`.
    pub(in crate::domain) fn take_changed_periods(&mut self, blocks: &[u32]) -> Periods {
        let mut changed = Periods::new();
        for block in blocks {
            let from = (*block as usize).saturating_mul(GROUPS);
            for group in from..from.saturating_add(GROUPS) {
                let history = self.groups.derived_mut(group).and_then(Sums::history_mut);
                let periods = history.into_iter().flat_map(History::take_changed);
                changed.extend(periods.map(|(rows, number)| (rows, number, *block)));
            }
        }
        changed
    }

    /// Every period is to be written.
    pub(in crate::domain) fn note_periods(&mut self) {
        for group in 0..self.groups.len() {
            self.groups.derived_mut(group).and_then(Sums::history_mut).map(History::note_all);
        }
    }

    /// Every period that has a row.
    pub(in crate::domain) fn every_period(&self) -> Periods {
        let mut all = Periods::new();
        for block in 0..self.groups.blocks() {
            let pasts = self.groups.block(block).iter().filter_map(Sums::history);
            all.extend(pasts.flat_map(|past| past.periods().map(|(rows, n)| (rows, n, block))));
        }
        all
    }

    /// Takes in a period; those of one kind come in order of time, after the sums of their groups.
    pub(in crate::domain) fn load_period(
        &mut self,
        rows: Rows,
        number: i64,
        block: u32,
        cells: &PeriodCells,
    ) -> Result<(), Misplaced> {
        let from = (block as usize).saturating_mul(GROUPS);
        for (place, cells) in cells {
            let group = from.saturating_add(*place as usize);
            let expected = self.groups.len();
            let sums = self.groups.derived_mut(group).ok_or(Misplaced { block, expected })?;
            sums.history_or_new().load(rows, number, cells);
        }
        Ok(())
    }

    /// Takes in what is said once, and finds again what follows from the tables that were read.
    pub(in crate::domain) fn resume(
        &mut self,
        names: &mut Names,
        head: &Head,
    ) -> Result<(), Overflow> {
        self.shapes.resume(names)?;
        self.nodes.learn();
        if self.history {
            for group in 0..self.groups.len() {
                self.groups.derived_mut(group).map(Sums::resume_history);
            }
        }
        self.pods.set_free(head.free_pod);
        self.index = self.pods.iter().map(|(slot, pod)| (pod.id, slot)).collect();
        self.adjusted_ids.learn();
        (self.forgotten_until, self.newest) = (head.forgotten_until, head.newest);
        self.splits = head.splits.clone();
        Ok(())
    }
}
