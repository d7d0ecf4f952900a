//! Sums of one group: what its segments add up to, now and per hour.
//!
//! Two integers a key ([`super::growth`]). Segments are added and taken away again as wholes, so that a correction is the
//! new segment minus the old one. What a group's newest hour adds is what its sums changed by since that hour's first
//! boundary: it is worked out when somebody asks, or when the next hour begins.

mod step;

use super::{
    amounts::{Overflow, product},
    growth::{Change, Growth, Slope, add_at, add_each},
    history::{Entry, History, Past, splits::Splits},
    names::KeyId,
    pod::Segment,
    quantity::Milli,
    shapes::{LayoutId, Measure},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use step::Boundaries;
pub use step::Step;

/// Usage of one group under each of its keys.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sums {
    /// By slot: a group's keys in the order of their first use.
    keys: Vec<KeyId>,
    /// The layout that the first slots have: its keys need not be looked up.
    layout: Option<LayoutId>,
    rows: Vec<Growth>,
    /// By slot; shorter where there is nothing to say.
    doubts: Vec<Doubt>,
    /// Kept by period: a group's hours go with those of others.
    #[serde(skip)]
    history: Option<Box<History>>,
    account: Option<Box<Account>>,
}

/// What is not settled about a key.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Doubt {
    /// Σ amount × (latest − earliest) of ends that nobody saw.
    uncertain: i128,
    /// Milli-units of segments that ended, of pods that still run or whose stop may be withdrawn.
    provisional: Milli,
    /// Milli-units that run at the end of the window, of pods whose final end is known.
    settled: Milli,
}

/// Usage under one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// The key.
    pub key: KeyId,
    /// Milli-units × milliseconds.
    pub exact: i128,
    /// Milli-units that run.
    pub running: Milli,
    /// A contributing pod still runs, or its stop may be withdrawn.
    pub provisional: bool,
    /// Σ amount × (latest − earliest), milli-units × milliseconds.
    pub uncertain: i128,
}

/// What budgets count from.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Account {
    opened: Timestamp,
    /// By slot: what was used before.
    before: Vec<i128>,
}

impl Sums {
    /// Sums that keep hourly differences too, if asked.
    #[must_use]
    pub fn new(history: bool) -> Self {
        Self { history: history.then(Box::default), ..Self::default() }
    }

    /// The same keys in the same slots, with nothing used.
    #[must_use]
    pub fn emptied(&self) -> Self {
        let rows = vec![Growth::default(); self.keys.len()];
        Self { keys: self.keys.clone(), layout: self.layout, rows, ..Self::default() }
    }

    /// The place of `key` in this group's rows, which it has from now on.
    pub fn slot(&mut self, key: KeyId) -> usize {
        if let Some(slot) = self.known_slot(key) {
            return slot;
        }
        self.keys.push(key);
        self.rows.push(Growth::default());
        self.keys.len().saturating_sub(1)
    }

    /// The place of `key`, if it has one.
    #[must_use]
    pub fn known_slot(&self, key: KeyId) -> Option<usize> {
        self.keys.iter().position(|k| *k == key)
    }

    /// Takes a step; its segments hold `measure`. `splits` says which hours are kept in parts, `slots` is space to
    /// work in.
    ///
    /// # Errors
    /// [`Overflow`]; nothing is changed.
    pub fn apply(
        &mut self,
        step: Step<'_>,
        measure: &Measure,
        splits: &mut Splits,
        slots: &mut Vec<(usize, Milli)>,
    ) -> Result<(), Overflow> {
        let boundaries = step.boundaries();
        let plain = step.is_plain() && !self.is_early(step);
        let is_now =
            |history: &mut Box<History>| history.takes(splits, boundaries.iter().map(|(at, _)| at));
        if plain && self.is_laid_out(measure) && self.history.as_mut().is_none_or(is_now) {
            // The way of nearly every record: only the sums change.
            let amounts = measure.usage.iter().map(|(_, amount)| amount);
            return add_each(&mut self.rows, amounts, boundaries.slope());
        }
        slots.clear();
        slots.extend(measure.usage.iter().map(|(key, amount)| (self.slot(key), amount)));
        if !plain {
            self.settle_all(step, slots)?;
        }
        let entered = self.enter(splits, boundaries, slots);
        if entered.is_err() && !plain {
            // Stepping back restores sums that were in range.
            let _ = self.settle_all(step.reversed(), slots);
        }
        entered
    }

    /// Whether the first slots are those of a measure's keys, in their order; of a group without keys they are from now
    /// on.
    fn is_laid_out(&mut self, measure: &Measure) -> bool {
        if self.keys.is_empty() {
            self.layout = Some(measure.layout);
            self.keys.extend(measure.usage.iter().map(|(key, _)| key));
            self.rows.resize(self.keys.len(), Growth::default());
        }
        self.layout == Some(measure.layout)
    }

    /// Whether a segment began before the account was opened.
    fn is_early(&self, step: Step<'_>) -> bool {
        let early = |opened| step.gone.iter().chain(&step.come).any(|s| s.from < opened);
        self.opened().is_some_and(early)
    }

    /// Boundary by boundary, each with what its hour gets of it: all of it or nothing.
    fn enter(
        &mut self,
        splits: &mut Splits,
        boundaries: Boundaries,
        slots: &[(usize, Milli)],
    ) -> Result<(), Overflow> {
        for (done, (at, change)) in boundaries.iter().enumerate() {
            if let Err(overflow) = self.add(splits, at, Entry::Rate(change), slots) {
                for (at, change) in boundaries.iter().take(done) {
                    // Stepping back restores sums that were in range.
                    let _ = self.add(splits, at, Entry::Rate(change.reversed()), slots);
                }
                return Err(overflow);
            }
        }
        Ok(())
    }

    /// Enters something into the hours and the sums: all of it or nothing.
    fn add(
        &mut self,
        splits: &mut Splits,
        at: Timestamp,
        entry: Entry,
        slots: &[(usize, i128)],
    ) -> Result<(), Overflow> {
        let Some(history) = &mut self.history else {
            return add_at(&mut self.rows, slots, entry.slope_of_sum(at));
        };
        history.enter(splits, at, entry, slots, &self.rows)?;
        let added = add_at(&mut self.rows, slots, entry.slope_of_sum(at));
        if added.is_err() {
            // Stepping back restores sums that were in range.
            let _ = history.enter(splits, at, entry.reversed(), slots, &self.rows);
        }
        added
    }

    /// What `step` changes beside the sums: all of it or nothing.
    fn settle_all(&mut self, step: Step<'_>, slots: &[(usize, Milli)]) -> Result<(), Overflow> {
        for (done, (slot, amount)) in slots.iter().enumerate() {
            if let Err(overflow) = self.settle(step, *slot, *amount) {
                for (slot, amount) in slots.iter().take(done) {
                    // Stepping back restores sums that were in range.
                    let _ = self.settle(step.reversed(), *slot, *amount);
                }
                return Err(overflow);
            }
        }
        Ok(())
    }

    /// What `step` changes beside the row of `slot`: what is doubtful, and what the account leaves out.
    fn settle(&mut self, step: Step<'_>, slot: usize, amount: Milli) -> Result<(), Overflow> {
        let doubt = self.doubt(step, slot, amount)?;
        let before = self.before_account(step, slot, amount)?;
        if let (Some(account), Some(before)) = (&mut self.account, before) {
            put(&mut account.before, slot, before);
        }
        if let Some(doubt) = doubt {
            put(&mut self.doubts, slot, doubt);
        }
        Ok(())
    }

    /// What is doubtful under `slot` after `step`, if that changes.
    fn doubt(&self, step: Step<'_>, slot: usize, amount: Milli) -> Result<Option<Doubt>, Overflow> {
        if step.is_plain() {
            return Ok(None);
        }
        let doubt = self.doubts.get(slot).copied().unwrap_or_default();
        let next = step.signed(amount).try_fold(doubt, |doubt, (s, signed)| doubt.with(s, signed));
        next.map(Some).ok_or(Overflow)
    }

    /// What the account's opening leaves out under `slot` after `step`, if that changes.
    fn before_account(
        &self,
        step: Step<'_>,
        slot: usize,
        amount: Milli,
    ) -> Result<Option<i128>, Overflow> {
        let Some(account) = &self.account else { return Ok(None) };
        let early = |segment: &&Segment| segment.from < account.opened;
        if !step.gone.iter().chain(&step.come).any(early) {
            return Ok(None);
        }
        let mut sum = Some(account.before(slot));
        for (segment, signed) in step.signed(amount).filter(|(s, _)| early(s)) {
            let to = segment.to.map_or(account.opened, |to| to.min(account.opened));
            sum = product(signed, to.since(segment.from)).and_then(|a| sum?.checked_add(a));
        }
        sum.map(Some).ok_or(Overflow)
    }

    /// Adds a signed correction dated `at`.
    ///
    /// # Errors
    /// [`Overflow`]; nothing is changed.
    pub fn adjust(
        &mut self,
        splits: &mut Splits,
        slot: usize,
        at: Timestamp,
        exact: i128,
    ) -> Result<(), Overflow> {
        let before = match self.account.as_ref().filter(|a| at < a.opened) {
            Some(account) => Some(account.before(slot).checked_add(exact).ok_or(Overflow)?),
            None => None,
        };
        self.add(splits, at, Entry::Amount(Change::More), &[(slot, exact)])?;
        if let (Some(account), Some(before)) = (&mut self.account, before) {
            put(&mut account.before, slot, before);
        }
        Ok(())
    }

    /// Adds what `other` holds, which has ended.
    ///
    /// # Errors
    /// [`Overflow`]; `self` is then of no use.
    pub fn absorb(&mut self, other: &Self) -> Result<(), Overflow> {
        for (theirs, key) in other.keys.iter().enumerate() {
            let slot = self.slot(*key);
            let used = other.rows.get(theirs).map_or(0, |row| row.base);
            add_at(&mut self.rows, &[(slot, used)], Slope { base: 1, rate: 0 })?;
            let uncertain = other.doubts.get(theirs).map_or(0, |doubt| doubt.uncertain);
            let mut doubt = self.doubts.get(slot).copied().unwrap_or_default();
            doubt.uncertain = doubt.uncertain.checked_add(uncertain).ok_or(Overflow)?;
            put(&mut self.doubts, slot, doubt);
        }
        Ok(())
    }

    /// Opens the account: budgets count from `opened`. `before` holds what was used by then and nothing later.
    ///
    /// # Errors
    /// [`Overflow`]; nothing is changed.
    pub fn open_account(&mut self, opened: Timestamp, before: &Self) -> Result<(), Overflow> {
        let used =
            |key: &KeyId| before.known_slot(*key).map_or(Ok(0), |slot| before.usage(slot, opened));
        let before = self.keys.iter().map(used).collect::<Result<_, _>>()?;
        self.account = Some(Box::new(Account { opened, before }));
        Ok(())
    }

    /// When the account was opened.
    #[must_use]
    pub fn opened(&self) -> Option<Timestamp> {
        self.account.as_ref().map(|a| a.opened)
    }

    /// What had been used under `slot` when the account was opened.
    #[must_use]
    pub fn before(&self, slot: usize) -> i128 {
        self.account.as_ref().map_or(0, |a| a.before(slot))
    }

    /// Usage under `slot` up to `at`, which is not before the newest boundary that was applied.
    ///
    /// # Errors
    /// [`Overflow`] when what still runs has grown out of 128 bits by then.
    pub fn usage(&self, slot: usize, at: Timestamp) -> Result<i128, Overflow> {
        self.rows.get(slot).map_or(Ok(0), |row| row.until(at))
    }

    /// Milli-units that run under `slot`.
    #[must_use]
    pub fn running(&self, slot: usize) -> Milli {
        self.rows.get(slot).map_or(0, |row| row.rate)
    }

    /// Every key that was used, in the order of its first use.
    pub fn keys(&self) -> impl Iterator<Item = KeyId> + '_ {
        self.keys.iter().copied()
    }

    /// The key of `slot`.
    #[must_use]
    pub fn key(&self, slot: usize) -> Option<KeyId> {
        self.keys.get(slot).copied()
    }

    /// Every key with what was used under it up to `at`, which is not before the newest boundary.
    ///
    /// # Errors
    /// [`Overflow`], of that key.
    pub fn lines(&self, at: Timestamp) -> impl Iterator<Item = Result<Line, Overflow>> {
        self.keys.iter().enumerate().map(move |(slot, key)| {
            let doubt = self.doubts.get(slot).copied().unwrap_or_default();
            let running = self.running(slot);
            let provisional = doubt.provisional != 0 || running != doubt.settled;
            let exact = self.usage(slot, at)?;
            Ok(Line { key: *key, exact, running, provisional, uncertain: doubt.uncertain })
        })
    }

    /// Looks at what the next step will touch, as far as the steps before have come; see [`super::ledger::ahead`].
    pub(super) fn look(&self, step: u8) -> Milli {
        let history = self.history.as_deref();
        match step {
            0 => (self.rows.len() ^ usize::from(self.account.is_some())) as Milli,
            1 => {
                let rows = self.rows.iter().fold(0, |seen, row| seen ^ row.rate);
                rows ^ history.map_or(0, History::look)
            }
            _ => 0,
        }
    }

    /// Hourly differences are not kept any more.
    pub(super) fn drop_history(&mut self) {
        self.history = None;
    }

    /// Hourly differences that are to be asked what changed.
    pub(super) fn history_mut(&mut self) -> Option<&mut History> {
        self.history.as_deref_mut()
    }

    /// Hourly differences that are read in; they are kept from now on.
    pub(super) fn history_or_new(&mut self) -> &mut History {
        self.history.get_or_insert_default()
    }

    /// All periods have been read in: the newest hour is what the sums changed by.
    pub(super) fn resume_history(&mut self) {
        self.history.get_or_insert_default().resume(&self.rows);
    }

    /// Past hours, if they are kept.
    #[must_use]
    pub fn history(&self) -> Option<Past<'_>> {
        self.history.as_deref().map(|history| Past::new(history, &self.rows))
    }
}

impl Account {
    fn before(&self, slot: usize) -> i128 {
        self.before.get(slot).copied().unwrap_or(0)
    }
}

impl Doubt {
    /// The doubt with a segment of `signed` milli-units applied.
    fn with(mut self, segment: &Segment, signed: Milli) -> Option<Self> {
        if let Some(period) = segment.uncertain {
            let amount = product(signed, period.to.since(period.from))?;
            self.uncertain = self.uncertain.checked_add(amount)?;
        }
        match (segment.to.is_some(), segment.provisional) {
            (true, true) => self.provisional = self.provisional.checked_add(signed)?,
            (false, false) => self.settled = self.settled.checked_add(signed)?,
            _ => {}
        }
        Some(self)
    }
}

/// Sets the cell of `slot` in a table that is as long as it must be.
fn put<T: Clone + Default>(table: &mut Vec<T>, slot: usize, value: T) {
    if table.len() <= slot {
        table.resize(slot.saturating_add(1), T::default());
    }
    if let Some(cell) = table.get_mut(slot) {
        *cell = value;
    }
}
