//! Sums of one group: what its segments add up to, now and per hour.
//!
//! `usage(key, t) = closed + Σ rate × (t − start)`: three integers a key. Segments are added and taken away
//! again as wholes, so that a correction is the new segment minus the old one.

use super::{
    amounts::Overflow,
    history::History,
    names::KeyId,
    pod::Segment,
    quantity::Milli,
    time::{ORIGIN, Timestamp},
};

/// Usage of one group under each of its keys.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// By slot: a group's keys in the order of their first use.
    keys: Vec<KeyId>,
    rows: Vec<Row>,
    history: Option<Box<History>>,
    account: Option<Box<Account>>,
}

/// Milli-units × milliseconds, unless said otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Row {
    /// Of segments that ended.
    closed: i128,
    /// Milli-units of segments that run.
    pub running: Milli,
    /// Σ rate × (start − origin) of segments that run.
    started: i128,
    /// Σ amount × (latest − earliest) of ends that nobody saw.
    pub uncertain: i128,
    /// Segments of pods that run or whose stop may be withdrawn.
    pub provisional: u32,
}

/// What budgets count from.
#[derive(Clone, Debug)]
struct Account {
    opened: Timestamp,
    /// By slot: what was used before.
    before: Vec<i128>,
}

/// Whether a segment is added or taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// Added.
    Plus,
    /// Taken away.
    Minus,
}

impl Sign {
    const fn of(self, amount: i128) -> i128 {
        match self {
            Self::Plus => amount,
            Self::Minus => amount.saturating_neg(),
        }
    }

    /// The other one.
    #[must_use]
    pub const fn reversed(self) -> Self {
        match self {
            Self::Plus => Self::Minus,
            Self::Minus => Self::Plus,
        }
    }
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
        Self { keys: self.keys.clone(), rows, history: None, account: None }
    }

    /// The place of `key` in this group's rows.
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

    /// Adds a segment that holds `amounts` (slots and milli-units), or takes it away.
    ///
    /// # Errors
    /// [`Overflow`]; nothing is changed.
    pub fn apply(
        &mut self,
        sign: Sign,
        segment: &Segment,
        amounts: &[(usize, Milli)],
    ) -> Result<(), Overflow> {
        for (done, (slot, amount)) in amounts.iter().enumerate() {
            if let Err(overflow) = self.apply_one(sign, segment, *slot, *amount) {
                for (slot, amount) in amounts.iter().take(done) {
                    // Undoing restores sums that were in range.
                    let _ = self.apply_one(sign.reversed(), segment, *slot, *amount);
                }
                return Err(overflow);
            }
        }
        Ok(())
    }

    fn apply_one(
        &mut self,
        sign: Sign,
        segment: &Segment,
        slot: usize,
        amount: Milli,
    ) -> Result<(), Overflow> {
        let Some(row) = self.rows.get(slot) else { return Ok(()) };
        let signed = sign.of(amount);
        let next = row.with(sign, segment, signed).ok_or(Overflow)?;
        let before = self.before_account(segment, slot, signed)?;
        if let Some(history) = &mut self.history {
            let less = signed.saturating_neg();
            history.boundary(slot, segment.from, signed)?;
            let end = segment.to.map_or(Ok(()), |to| history.boundary(slot, to, less));
            end.inspect_err(|_| {
                let _ = history.boundary(slot, segment.from, less);
            })?;
        }
        if let (Some(account), Some(before)) = (&mut self.account, before) {
            account.set(slot, before);
        }
        if let Some(row) = self.rows.get_mut(slot) {
            *row = next;
        }
        Ok(())
    }

    /// What the account's opening leaves out under `slot` once `segment` is applied, if that changes.
    fn before_account(
        &self,
        segment: &Segment,
        slot: usize,
        signed: Milli,
    ) -> Result<Option<i128>, Overflow> {
        let Some(account) = self.account.as_ref().filter(|a| segment.from < a.opened) else {
            return Ok(None);
        };
        let to = segment.to.map_or(account.opened, |to| to.min(account.opened));
        let time = i128::from(to.since(segment.from));
        let sum = signed.checked_mul(time).and_then(|s| account.before(slot).checked_add(s));
        sum.map(Some).ok_or(Overflow)
    }

    /// Adds a signed correction dated `at`.
    ///
    /// # Errors
    /// [`Overflow`]; nothing is changed.
    pub fn adjust(&mut self, slot: usize, at: Timestamp, exact: i128) -> Result<(), Overflow> {
        let Some(row) = self.rows.get(slot) else { return Ok(()) };
        let closed = row.closed.checked_add(exact).ok_or(Overflow)?;
        let before = match self.account.as_ref().filter(|a| at < a.opened) {
            Some(account) => Some(account.before(slot).checked_add(exact).ok_or(Overflow)?),
            None => None,
        };
        if let Some(history) = &mut self.history {
            history.adjust(slot, at, exact)?;
        }
        if let (Some(account), Some(before)) = (&mut self.account, before) {
            account.set(slot, before);
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
        for (_, key, row) in other.rows() {
            let slot = self.slot(key);
            let Some(own) = self.rows.get_mut(slot) else { continue };
            own.closed = own.closed.checked_add(row.closed).ok_or(Overflow)?;
            own.uncertain = own.uncertain.checked_add(row.uncertain).ok_or(Overflow)?;
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
        let grown = row.running.checked_mul(i128::from(at.since(ORIGIN)));
        let open = grown.and_then(|g| g.checked_sub(row.started));
        open.and_then(|o| o.checked_add(row.closed)).ok_or(Overflow)
    }

    /// Slots, keys and rows.
    pub fn rows(&self) -> impl Iterator<Item = (usize, KeyId, &Row)> {
        self.keys.iter().zip(&self.rows).enumerate().map(|(slot, (key, row))| (slot, *key, row))
    }

    /// The row of `slot`.
    #[must_use]
    pub fn row(&self, slot: usize) -> Option<&Row> {
        self.rows.get(slot)
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

    fn set(&mut self, slot: usize, before: i128) {
        if self.before.len() <= slot {
            self.before.resize(slot.saturating_add(1), 0);
        }
        if let Some(cell) = self.before.get_mut(slot) {
            *cell = before;
        }
    }
}

impl Row {
    /// The row with a segment of `signed` milli-units applied.
    fn with(&self, sign: Sign, segment: &Segment, signed: Milli) -> Option<Self> {
        let mut next = *self;
        match segment.to {
            Some(to) => {
                let amount = signed.checked_mul(i128::from(to.since(segment.from)))?;
                next.closed = next.closed.checked_add(amount)?;
            }
            None => {
                let start = signed.checked_mul(i128::from(segment.from.since(ORIGIN)))?;
                next.started = next.started.checked_add(start)?;
                next.running = next.running.checked_add(signed)?;
            }
        }
        if let Some(doubt) = segment.uncertain {
            let amount = signed.checked_mul(i128::from(doubt.to.since(doubt.from)))?;
            next.uncertain = next.uncertain.checked_add(amount)?;
        }
        if segment.provisional {
            next.provisional = match sign {
                Sign::Plus => next.provisional.checked_add(1)?,
                Sign::Minus => next.provisional.checked_sub(1)?,
            };
        }
        Some(next)
    }
}
