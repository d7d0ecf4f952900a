//! What groups are told that they used: the growth of their sums, in pieces that were held evenly from one instant to
//! another.
//!
//! ```text
//!  ──────── told ────────┤ until ├───────────────▶ time
//!   what ended: whole, as soon as it is known; what runs: up to `until`, the rest when that moves on
//! ```
//!
//! It follows the meter record by record, adds what comes and takes away what goes, so a correction is a piece like
//! any other, of a negative amount perhaps. All that was told up to a [`Mark`] is a function of the mark alone, however
//! often one looked in between: whoever knows the last two marks tells the same pieces, and goes on.

use super::{
    amounts::{Overflow, product},
    event::{Data, Event, Period, Position, UsageAdjusted},
    ledger::{Applied, Ledger, Options, Record, Stop},
    meter::recount::Stepped,
    names::{GroupId, KeyId},
    pod::{Basis, Segment},
    quantity::Milli,
    shapes::Shapes,
    time::Timestamp,
};
use std::collections::BTreeMap;

/// The fold.
#[derive(Clone, Debug)]
pub struct Metered {
    ledger: Ledger,
    until: Timestamp,
    /// Milli-units that run and began by `until`.
    running: BTreeMap<Account, Milli>,
    /// Milli-units that run and began later, by their beginning.
    begun: BTreeMap<(Timestamp, Account), Milli>,
    news: News,
}

/// How far it was told: what ended by the records up to `position`, and what runs up to `until`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The last record that counts.
    pub position: Position,
    /// The instant up to which running pods count.
    pub until: Timestamp,
}

/// So much of `key` was held by `group`, evenly from one instant to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece<'m> {
    /// The group; empty for none.
    pub group: &'m str,
    /// The key.
    pub key: &'m str,
    /// Not empty.
    pub period: Period,
    /// Milli-units × milliseconds; below zero where less was used than was told.
    pub exact: i128,
}

/// Why it cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The ledger cannot.
    #[error(transparent)]
    Stop(#[from] Stop),
    /// What is told left 128 bits.
    #[error(transparent)]
    Overflow(#[from] Overflow),
}

type Account = (GroupId, KeyId);

/// What is not told yet.
#[derive(Clone, Debug, Default)]
struct News(BTreeMap<(Account, Timestamp, Timestamp), i128>);

impl Default for Metered {
    fn default() -> Self {
        let options = Options { history: false, quotas: false, ..Options::default() };
        Self {
            ledger: Ledger::new(options),
            until: Timestamp::MIN,
            running: BTreeMap::new(),
            begun: BTreeMap::new(),
            news: News::default(),
        }
    }
}

impl Metered {
    /// The fold of a log up to where `ledger` stands, as if all of that had been told up to the beginning of time.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn behind(ledger: Ledger) -> Result<Self, Overflow> {
        let mut fold = Self { ledger: ledger.usage_alone(), ..Self::default() };
        let Self { ledger, until, running, begun, news } = &mut fold;
        let meter = ledger.meter();
        let mut told = Told { shapes: &meter.shapes, until: *until, running, begun, news };
        let mut result = Ok(());
        for pod in meter.pods() {
            pod.segments(Basis::Held, |segment| {
                result = result.and_then(|()| told.run(&segment, 1));
            });
        }
        result.map(|()| fold)
    }

    /// Takes the next record of the log.
    ///
    /// # Errors
    /// [`Error`]; it is of no use then.
    pub fn take(&mut self, position: Position, record: &Record<'_>) -> Result<(), Error> {
        let applied = self.ledger.fold(position, record)?;
        match record {
            Record::Event(Event { subject, data: Data::UsageAdjusted(data), .. })
                if applied == Applied::Changed =>
            {
                self.adjust(subject, data)?;
            }
            Record::Event(event) if event.data.pod().is_some() => self.follow()?,
            _ => {}
        }
        Ok(())
    }

    /// What runs counts up to `until`, if that is later than before.
    ///
    /// # Errors
    /// [`Overflow`]; it is of no use then.
    pub fn advance(&mut self, until: Timestamp) -> Result<(), Overflow> {
        let from = self.until;
        self.until = from.max(until);
        for (account, milli) in &self.running {
            self.news.add(*account, from, self.until, *milli)?;
        }
        while let Some(first) = self.begun.first_entry() {
            let (begun, account) = *first.key();
            if begun > self.until {
                break;
            }
            let milli = first.remove();
            self.news.add(account, begun, self.until, milli)?;
            change(&mut self.running, account, milli)?;
        }
        Ok(())
    }

    /// How far it has come.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark { position: self.ledger.position(), until: self.until }
    }

    /// How many pieces are not told yet.
    #[must_use]
    pub fn untold(&self) -> usize {
        self.news.0.len()
    }

    /// What is not told yet, by group, key and time.
    #[must_use]
    pub fn pieces(&self) -> Vec<Piece<'_>> {
        let names = self.ledger.names();
        let pieces = self.news.0.iter().map(|(((group, key), from, to), exact)| Piece {
            group: names.group_name(*group),
            key: names.key_name(*key),
            period: Period { from: *from, to: *to },
            exact: *exact,
        });
        let mut pieces: Vec<_> = pieces.collect();
        // Their numbers depend on what else the ledger was told.
        pieces.sort_unstable_by_key(|piece| {
            (piece.group, piece.key, piece.period.from, piece.period.to)
        });
        pieces
    }

    /// All of it is told.
    pub fn told(&mut self) {
        self.news.0.clear();
    }

    /// A correction changes no rate; it is a millisecond long.
    fn adjust(&mut self, subject: &str, data: &UsageAdjusted<'_>) -> Result<(), Overflow> {
        let names = self.ledger.names();
        let group = subject.strip_prefix("accounts/").and_then(|name| names.known_group(name));
        let Some(account) = group.zip(names.known_key(&data.key)) else { return Ok(()) };
        let to = data.period.from.shifted(1);
        self.news.add(account, to.shifted(-1), to, data.exact)
    }

    fn follow(&mut self) -> Result<(), Overflow> {
        let Self { ledger, until, running, begun, news } = self;
        let meter = ledger.meter();
        let Some(Stepped { segments: [gone, come], .. }) = meter.stepped() else { return Ok(()) };
        let mut told = Told { shapes: &meter.shapes, until: *until, running, begun, news };
        for at in 0..gone.len().max(come.len()) {
            let (gone, come) = (gone.get(at), come.get(at));
            let pair = gone.zip(come).filter(|(gone, come)| {
                (gone.from, gone.placement, gone.held) == (come.from, come.placement, come.held)
            });
            if let Some((gone, come)) = pair {
                // Only the end moved: so much less or more is told, not all of it taken back.
                told.piece(come, told.end(gone), told.end(come), 1)?;
                told.piece(gone, told.end(come), told.end(gone), -1)?;
            } else {
                come.map_or(Ok(()), |come| told.piece(come, come.from, told.end(come), 1))?;
                gone.map_or(Ok(()), |gone| told.piece(gone, gone.from, told.end(gone), -1))?;
            }
            come.map_or(Ok(()), |come| told.run(come, 1))?;
            gone.map_or(Ok(()), |gone| told.run(gone, -1))?;
        }
        Ok(())
    }
}

/// Where segments are told.
struct Told<'m> {
    shapes: &'m Shapes,
    until: Timestamp,
    running: &'m mut BTreeMap<Account, Milli>,
    begun: &'m mut BTreeMap<(Timestamp, Account), Milli>,
    news: &'m mut News,
}

impl Told<'_> {
    /// Up to where a segment is told.
    fn end(&self, segment: &Segment) -> Timestamp {
        segment.to.unwrap_or_else(|| segment.from.max(self.until))
    }

    /// What `segment` holds counts `sign` times from `from` to `to`, if that is later.
    fn piece(
        &mut self,
        segment: &Segment,
        from: Timestamp,
        to: Timestamp,
        sign: Milli,
    ) -> Result<(), Overflow> {
        self.each(segment, sign, |told, account, milli| told.news.add(account, from, to, milli))
    }

    /// What `segment` holds runs on `sign` times more, unless it ended.
    fn run(&mut self, segment: &Segment, sign: Milli) -> Result<(), Overflow> {
        if segment.to.is_some() {
            return Ok(());
        }
        let from = segment.from;
        self.each(segment, sign, |told, account, milli| match from <= told.until {
            true => change(told.running, account, milli),
            false => change(told.begun, (from, account), milli),
        })
    }

    fn each(
        &mut self,
        segment: &Segment,
        sign: Milli,
        mut what: impl FnMut(&mut Self, Account, Milli) -> Result<(), Overflow>,
    ) -> Result<(), Overflow> {
        let group = self.shapes.group(segment.placement);
        let measure = self.shapes.known(segment.placement, segment.held);
        for (key, milli) in measure.into_iter().flat_map(|measure| measure.usage.iter()) {
            what(self, (group, key), milli.checked_mul(sign).ok_or(Overflow)?)?;
        }
        Ok(())
    }
}

impl News {
    /// Adds `milli` from `from` to `to`, if that is later.
    fn add(
        &mut self,
        account: Account,
        from: Timestamp,
        to: Timestamp,
        milli: Milli,
    ) -> Result<(), Overflow> {
        match from < to {
            true => change(
                &mut self.0,
                (account, from, to),
                product(milli, to.since(from)).ok_or(Overflow)?,
            ),
            false => Ok(()),
        }
    }
}

/// Adds to a cell; one of nothing is no cell.
fn change<K: Ord>(cells: &mut BTreeMap<K, i128>, key: K, by: i128) -> Result<(), Overflow> {
    use std::collections::btree_map::Entry;
    match cells.entry(key) {
        Entry::Vacant(cell) if by != 0 => drop(cell.insert(by)),
        Entry::Vacant(_) => {}
        Entry::Occupied(mut cell) => match cell.get().checked_add(by).ok_or(Overflow)? {
            0 => drop(cell.remove()),
            sum => drop(cell.insert(sum)),
        },
    }
    Ok(())
}
