//! Sums of one group: what its segments add up to, now and per hour.
//!
//! `usage(key, t) = closed + Σ rate × (t − start)`: three integers a key. Segments are added and taken away
//! again as wholes, so that a correction is the new segment minus the old one.

mod step;

use super::{
    amounts::{Overflow, product, products},
    history::{History, splits::Splits},
    names::KeyId,
    pod::Segment,
    quantity::Milli,
    shapes::{LayoutId, Measure},
    time::{ORIGIN, Timestamp},
};
use serde::{Deserialize, Serialize};
use step::Slope;
pub use step::Step;

/// Usage of one group under each of its keys.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sums {
    /// By slot: a group's keys in the order of their first use.
    keys: Vec<KeyId>,
    /// The layout that the first slots have: its keys need not be looked up.
    layout: Option<LayoutId>,
    rows: Vec<Row>,
    /// By slot; shorter where there is nothing to say.
    doubts: Vec<Doubt>,
    /// Kept by period: a group's hours go with those of others.
    #[serde(skip)]
    history: Option<Box<History>>,
    account: Option<Box<Account>>,
}

/// Milli-units × milliseconds, unless said otherwise.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Row {
    /// Of segments that ended.
    closed: i128,
    /// Milli-units of segments that run.
    running: Milli,
    /// Σ rate × (start − origin) of segments that run.
    started: i128,
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

/// Everything that is kept under one key but its hours: what a restart needs. Milli-units × milliseconds, or
/// milli-units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Of segments that ended.
    pub closed: i128,
    /// Milli-units of segments that run.
    pub running: Milli,
    /// Σ rate × (start − origin) of segments that run.
    pub started: i128,
    /// Σ amount × (latest − earliest) of ends that nobody saw.
    pub uncertain: i128,
    /// Milli-units of segments that ended, of pods that still run or whose stop may be withdrawn.
    pub provisional: Milli,
    /// Milli-units that run at the end of the window, of pods whose final end is known.
    pub settled: Milli,
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
        let rows = vec![Row::default(); self.keys.len()];
        Self { keys: self.keys.clone(), layout: self.layout, rows, ..Self::default() }
    }

    /// The place of `key` in this group's rows, which it has from now on.
    pub fn slot(&mut self, key: KeyId) -> usize {
        if let Some(slot) = self.known_slot(key) {
            return slot;
        }
        self.keys.push(key);
        self.rows.push(Row::default());
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
        self.place(measure, slots);
        self.apply_rows(step, slots)?;
        let Some(history) = &mut self.history else { return Ok(()) };
        let boundaries = step.boundaries();
        for (done, (at, change)) in boundaries.clone().enumerate() {
            if let Err(overflow) = history.boundary(splits, at, change, slots) {
                for (at, change) in boundaries.take(done) {
                    // Stepping back restores sums that were in range.
                    let _ = history.boundary(splits, at, change.reversed(), slots);
                }
                self.step_back(step, slots);
                return Err(overflow);
            }
        }
        Ok(())
    }

    /// The slots of a measure's keys, which they have from now on.
    fn place(&mut self, measure: &Measure, slots: &mut Vec<(usize, Milli)>) {
        slots.clear();
        if self.keys.is_empty() {
            self.layout = Some(measure.layout);
        }
        if self.layout == Some(measure.layout) && !self.keys.is_empty() {
            slots.extend(measure.usage.iter().map(|(_, amount)| amount).enumerate());
        } else {
            slots.extend(measure.usage.iter().map(|(key, amount)| (self.slot(key), amount)));
        }
    }

    /// All of it or nothing.
    fn apply_rows(&mut self, step: Step<'_>, slots: &[(usize, Milli)]) -> Result<(), Overflow> {
        let slope = step.slope();
        let simple = self.account.is_none() && step.is_plain();
        for (done, (slot, amount)) in slots.iter().enumerate() {
            let Some(row) = self.rows.get_mut(*slot) else { continue };
            let next = row.with(slope, *amount).ok_or(Overflow);
            let settled = match next {
                Ok(next) if simple => {
                    *row = next;
                    continue;
                }
                Ok(_) => self.settle(step, *slot, *amount),
                Err(overflow) => Err(overflow),
            };
            if let Err(overflow) = settled {
                self.step_back(step, slots.get(..done).unwrap_or_default());
                return Err(overflow);
            }
            if let Some((row, next)) = self.rows.get_mut(*slot).zip(next.ok()) {
                *row = next;
            }
        }
        Ok(())
    }

    fn step_back(&mut self, step: Step<'_>, slots: &[(usize, Milli)]) {
        // Stepping back restores sums that were in range.
        let _ = self.apply_rows(step.reversed(), slots);
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
        let Some(row) = self.rows.get(slot) else { return Ok(()) };
        let closed = row.closed.checked_add(exact).ok_or(Overflow)?;
        let before = match self.account.as_ref().filter(|a| at < a.opened) {
            Some(account) => Some(account.before(slot).checked_add(exact).ok_or(Overflow)?),
            None => None,
        };
        if let Some(history) = &mut self.history {
            history.adjust(splits, slot, at, exact)?;
        }
        if let (Some(account), Some(before)) = (&mut self.account, before) {
            put(&mut account.before, slot, before);
        }
        if let Some(row) = self.rows.get_mut(slot) {
            row.closed = closed;
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
            let closed = other.rows.get(theirs).map_or(0, |row| row.closed);
            if let Some(row) = self.rows.get_mut(slot) {
                row.closed = row.closed.checked_add(closed).ok_or(Overflow)?;
            }
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
        let Some(row) = self.rows.get(slot) else { return Ok(0) };
        let open = product(row.running, at.since(ORIGIN)).and_then(|g| g.checked_sub(row.started));
        open.and_then(|o| o.checked_add(row.closed)).ok_or(Overflow)
    }

    /// Milli-units that run under `slot`.
    #[must_use]
    pub fn running(&self, slot: usize) -> Milli {
        self.rows.get(slot).map_or(0, |row| row.running)
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

    /// Every key with all that is kept under it, in the order of its first use.
    pub fn parts(&self) -> impl Iterator<Item = (KeyId, Parts)> + '_ {
        self.keys.iter().zip(&self.rows).enumerate().map(|(slot, (key, row))| {
            let Row { closed, running, started } = *row;
            let doubt = self.doubts.get(slot).copied().unwrap_or_default();
            let Doubt { uncertain, provisional, settled } = doubt;
            (*key, Parts { closed, running, started, uncertain, provisional, settled })
        })
    }

    /// Looks at what the next step will touch, as far as the steps before have come; see [`super::ledger::ahead`].
    pub(super) fn look(&self, step: u8) -> Milli {
        let history = self.history.as_deref();
        match step {
            0 => (self.rows.len() ^ usize::from(self.account.is_some())) as Milli,
            1 => {
                let rows = self.rows.iter().fold(0, |seen, row| seen ^ row.running);
                rows ^ history.map_or(0, |history| history.look(0))
            }
            _ => history.map_or(0, |history| history.look(1)),
        }
    }

    /// Hourly differences that are to be read in, or asked what changed.
    pub(super) fn drop_history(&mut self) {
        self.history = None;
    }

    pub(super) fn history_mut(&mut self) -> Option<&mut History> {
        self.history.as_deref_mut()
    }

    /// Hourly differences, which are kept from now on.
    pub(super) fn history_or_new(&mut self) -> &mut History {
        self.history.get_or_insert_default()
    }

    /// Hourly differences, if they are kept.
    #[must_use]
    pub fn history(&self) -> Option<&History> {
        self.history.as_deref()
    }
}

impl Account {
    fn before(&self, slot: usize) -> i128 {
        self.before.get(slot).copied().unwrap_or(0)
    }
}

impl Row {
    /// The row with `amount` milli-units of a step applied.
    fn with(self, slope: Slope, amount: Milli) -> Option<Self> {
        let Slope { closed, running, started } = slope;
        let [closed, running, started] = products(amount, [closed, running, started])?;
        Some(Self {
            closed: self.closed.checked_add(closed)?,
            running: self.running.checked_add(running)?,
            started: self.started.checked_add(started)?,
        })
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
