//! The ledger as rows: what a checkpoint writes, and from which the ledger is made again, exactly as it was.
//!
//! ```text
//!  changed since the last time ─▶ keys ─▶ rows of some dozen things each ─▶ [bytes: not here]
//!  [bytes] ─▶ rows in order of their keys ─▶ Restoring ─▶ the same ledger: what follows is worked out anew
//! ```
//!
//! Rows hold what was said and what was summed up from it; never what follows from other rows: sums of the tree,
//! where something is found again, caches.

use super::{Counts, Decided, Ledger, Options, Quarantined};
use crate::domain::{
    amounts::Overflow,
    book::{self, Account, Book, Work, state::Booked},
    event::{EventId, Position},
    history::Rows,
    merkle::{Frontier, Hash},
    meter::{
        self, Adjusted, Meter,
        state::{PeriodCells, Periods},
    },
    names::{Interner, ObjectId, Uid},
    pod::Pod,
    shapes::{
        Measured, Placement,
        state::{WrittenModels, WrittenResources},
    },
    sources::Source,
    sums::Sums,
    table::{Misplaced, Slot, Table},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Names a row. Rows are read in the order of their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    /// Which things.
    pub table: TableName,
    /// Of hours, days and months, which; else 0.
    pub period: i64,
    /// Which of them.
    pub block: u32,
}

/// Why rows are no ledger.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRow {
    /// A row is not where it belongs.
    #[error("{0:?} holds something else")]
    Foreign(RowKey),
    /// A row is missing, or comes twice.
    #[error("{key:?}: {why}")]
    Misplaced {
        /// Which.
        key: RowKey,
        /// What does not fit.
        why: Misplaced,
    },
    /// The row that says what is said once.
    #[error("the row `Head` is missing")]
    NoHead,
    /// Amounts that no ledger can hold.
    #[error(transparent)]
    Overflow(#[from] Overflow),
}

/// What is said once.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Head {
    counts: Counts,
    last_decision: Position,
    leaf: Hash,
    next_decided: u32,
    next_request: u32,
    meter: meter::state::Head,
    book: Option<book::state::Head>,
}

/// A pod's evidence, and how it is charged.
type PodRow<'a> = (Cow<'a, Pod>, Option<Booked>);

/// The tables: those that are written as they are (`ledger` and `book`), and those that are written in another form
/// (`other`). The order is that of reading: what refers to something comes after it.
macro_rules! tables {
    (
        other { $($(#[$doc:meta])* $other:ident: $form:ty;)+ }
        ledger { $($(#[$ledger_doc:meta])* $name:ident: $row:ty = $($path:ident).+;)+ }
        book { $($(#[$book_doc:meta])* $book:ident: $book_row:ty = $($book_path:ident).+;)+ }
    ) => {
        /// The kinds of rows. A store keeps them by number: a change of the order is a new format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum TableName {
            $($(#[$ledger_doc])* $name,)+
            $($(#[$book_doc])* $book,)+
            $($(#[$doc])* $other,)+
        }

        impl TableName {
            /// Every kind, in order.
            pub const ALL: &[Self] = &[$(Self::$name,)+ $(Self::$book,)+ $(Self::$other,)+];
        }

        #[derive(Debug, Serialize, Deserialize)]
        enum Form<'a> {
            $($name(Cow<'a, [$row]>),)+
            $($book(Cow<'a, [$book_row]>),)+
            $($other($form),)+
        }

        impl Form<'_> {
            const fn table(&self) -> TableName {
                match self {
                    $(Self::$name(_) => TableName::$name,)+
                    $(Self::$book(_) => TableName::$book,)+
                    $(Self::$other(_) => TableName::$other,)+
                }
            }
        }

        impl Ledger {
            /// Calls `each` with the tables that are written as they are.
            fn each_table(&mut self, mut each: impl FnMut(TableName, &mut dyn Changing)) {
                $(each(TableName::$name, &mut self.$($path).+);)+
                if let Some(book) = &mut self.book {
                    $(each(TableName::$book, &mut book.$($book_path).+);)+
                }
            }

            fn plain_row(&self, key: RowKey) -> Option<Form<'_>> {
                let block = key.block;
                Some(match key.table {
                    $(TableName::$name => Form::$name(Cow::Borrowed(self.$($path).+.block(block))),)+
                    $(TableName::$book => {
                        Form::$book(Cow::Borrowed(self.book()?.$($book_path).+.block(block)))
                    })+
                    $(TableName::$other => return None,)+
                })
            }

            /// Takes in a row; gives back one that is written in another form.
            fn load<'a>(&mut self, block: u32, form: Form<'a>) -> Result<Option<Form<'a>>, Misplaced> {
                match form {
                    $(Form::$name(rows) => self.$($path).+.load(block, rows.into_owned())?,)+
                    $(Form::$book(rows) => {
                        if let Some(book) = &mut self.book {
                            book.$($book_path).+.load(block, rows.into_owned())?;
                        }
                    })+
                    $(Form::$other(_) => return Ok(Some(form)),)+
                }
                Ok(None)
            }
        }
    };
}

tables! {
    other {
        /// Resources of pods, each combination once.
        Resources: Vec<WrittenResources>;
        /// Hardware models, each combination once.
        Models: Vec<WrittenModels>;
        /// Pods: evidence, and how they are charged.
        Pods: Vec<Slot<PodRow<'a>>>;
        /// What groups add in an hour before a date begins at some place.
        Parts: PeriodCells;
        /// What groups add in an hour.
        Hours: PeriodCells;
        /// What groups add in a day.
        Days: PeriodCells;
        /// What groups add in a month.
        Months: PeriodCells;
        /// What is said once.
        Head: Box<Head>;
    }
    ledger {
        /// Names of groups.
        Groups: Box<str> = names.groups.texts;
        /// Keys.
        Keys: Box<str> = names.keys.texts;
        /// Sources of facts.
        Sources: Box<str> = names.clusters.texts;
        /// Names of nodes.
        Nodes: Box<str> = meter.nodes.texts;
        /// Groups with models.
        Placements: Placement = meter.shapes.placements;
        /// Resources with models, in the order in which they were worked out.
        Measured: Measured = meter.shapes.measured;
        /// Heartbeats.
        Heartbeats: Source = meter.sources.table;
        /// Usage of groups.
        Sums: Sums = meter.groups;
        /// Usage of pods that were forgotten, by group.
        Settled: Sums = meter.settled;
        /// Corrections.
        Adjusted: Adjusted = meter.adjusted;
        /// Their ids.
        AdjustedIds: EventId = meter.adjusted_ids.list;
        /// Ids of the newest decisions.
        Decided: EventId = decided.ring.table;
        /// Requests of the newest decisions, and the records that answer them.
        Requests: (ObjectId, Position) = decided.asked.table;
        /// Records that were not taken.
        Quarantined: Quarantined = quarantined;
        /// Roots of the log.
        Roots: Hash = roots;
    }
    book {
        /// Accounts: what is declared, proposed and in force.
        Accounts: Account = accounts;
        /// Quota objects that are gone.
        GoneQuotas: Uid = gone_quotas.list;
        /// Workloads: what they ask for, and what was promised to them.
        Works: Slot<Work> = works.rows.table;
        /// Workloads that are gone.
        Ended: Slot<(ObjectId, Timestamp)> = ended.rows.table;
    }
}

/// A row, to be written or just read.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Row<'a>(Form<'a>);

/// A ledger that is being read.
#[derive(Debug)]
pub struct Restoring {
    ledger: Ledger,
    head: Option<Head>,
    /// Charged pods, by the meter's slot.
    booked: Vec<(u32, Booked)>,
}

/// A table as far as what changed is concerned.
trait Changing {
    fn take_changed(&mut self) -> Vec<u32>;
    fn blocks(&self) -> u32;
    fn note_all(&mut self);
}

impl<T, const BLOCK: usize> Changing for Table<T, BLOCK> {
    fn take_changed(&mut self) -> Vec<u32> {
        self.take_changed()
    }

    fn blocks(&self) -> u32 {
        self.blocks()
    }

    fn note_all(&mut self) {
        self.note_all();
    }
}

impl RowKey {
    /// A block of a table without periods.
    const fn of(table: TableName, block: u32) -> Self {
        Self { table, period: 0, block }
    }

    const fn of_period((rows, period, block): (Rows, i64, u32)) -> Self {
        let table = match rows {
            Rows::Parts => TableName::Parts,
            Rows::Hours => TableName::Hours,
            Rows::Days => TableName::Days,
            Rows::Months => TableName::Months,
        };
        Self { table, period, block }
    }
}

/// What is to be written.
impl Ledger {
    /// What this ledger keeps; rows of other options are of no use for it.
    #[must_use]
    pub fn options(&self) -> Options {
        let Meter { basis, window, history, retain, .. } = self.meter;
        Options { basis, window, history, retain, quotas: self.book.is_some() }
    }

    /// The rows that changed since the last call, in order. Whoever asks writes them.
    pub fn take_changed(&mut self) -> Vec<RowKey> {
        self.keys(|table| table.take_changed(), |meter, sums| meter.take_changed_periods(sums))
    }

    /// Every row, in order.
    pub fn every_row(&mut self) -> Vec<RowKey> {
        self.keys(|table| (0..table.blocks()).collect(), |meter, _| meter.every_period())
    }

    /// Every row is to be written, as into an empty store.
    pub fn note_everything(&mut self) {
        self.each_table(|_, table| table.note_all());
        self.meter.pods.table.note_all();
        self.meter.shapes.resources.note_all();
        self.meter.shapes.models.note_all();
        self.meter.note_periods();
    }

    fn keys(
        &mut self,
        blocks: impl Fn(&mut dyn Changing) -> Vec<u32>,
        periods: impl Fn(&mut Meter, &[u32]) -> Periods,
    ) -> Vec<RowKey> {
        let mut keys = vec![RowKey::of(TableName::Head, 0)];
        let mut sums = Vec::new();
        let mut add = |name, table: &mut dyn Changing| {
            let blocks = blocks(table);
            keys.extend(blocks.iter().map(|block| RowKey::of(name, *block)));
            if name == TableName::Sums {
                sums = blocks;
            }
        };
        self.each_table(&mut add);
        add(TableName::Pods, &mut self.meter.pods.table);
        add(TableName::Resources, &mut self.meter.shapes.resources);
        add(TableName::Models, &mut self.meter.shapes.models);
        keys.extend(periods(&mut self.meter, &sums).into_iter().map(RowKey::of_period));
        keys.sort_unstable();
        keys
    }

    /// A row as it is now. Of a block behind the end it is empty.
    #[must_use]
    pub fn row(&self, key: RowKey) -> Row<'_> {
        let RowKey { table, period, block } = key;
        let (meter, shapes) = (&self.meter, &self.meter.shapes);
        Row(match table {
            TableName::Head => Form::Head(Box::new(self.head())),
            TableName::Resources => Form::Resources(shapes.written_resources(block)),
            TableName::Models => Form::Models(shapes.written_models(block)),
            TableName::Pods => Form::Pods(self.pods(block)),
            TableName::Parts => Form::Parts(meter.period(Rows::Parts, period, block)),
            TableName::Hours => Form::Hours(meter.period(Rows::Hours, period, block)),
            TableName::Days => Form::Days(meter.period(Rows::Days, period, block)),
            TableName::Months => Form::Months(meter.period(Rows::Months, period, block)),
            _ => match self.plain_row(key) {
                Some(row) => row,
                // Rows of a book that is not kept: nobody asks for them.
                None => Form::Head(Box::default()),
            },
        })
    }

    fn head(&self) -> Head {
        Head {
            counts: self.counts,
            last_decision: self.last_decision,
            leaf: self.leaf,
            next_decided: self.decided.ring.next,
            next_request: self.decided.asked.next,
            meter: self.meter.head(),
            book: self.book().map(Book::head),
        }
    }

    fn pods(&self, block: u32) -> Vec<Slot<PodRow<'_>>> {
        let pods = self.meter.pods.table.block(block).iter();
        let rows = pods.map(|slot| match slot {
            Slot::Vacant(next) => Slot::Vacant(*next),
            Slot::Taken(pod) => {
                let booked = self.book().and_then(|book| book.booked(&self.meter, pod));
                Slot::Taken((Cow::Borrowed(pod), booked))
            }
        });
        rows.collect()
    }
}

impl Decided {
    fn resume(&mut self, next: u32, next_request: u32) {
        self.ids = self.ring.table.as_slice().iter().copied().collect();
        self.requests = self.asked.table.as_slice().iter().copied().collect();
        (self.ring.next, self.asked.next) = (next, next_request);
    }
}

/// What was written, read again.
impl Restoring {
    /// An empty ledger of these options, to be filled.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let mut ledger = Ledger::new(options);
        // What a new ledger knows is among what is read.
        ledger.names.groups = Interner::default();
        ledger.meter.shapes.models = Table::default();
        Self { ledger, head: None, booked: Vec::new() }
    }

    /// Takes in the next row in order of keys.
    ///
    /// # Errors
    /// [`BadRow`]; the ledger is then of no use.
    pub fn row(&mut self, key: RowKey, Row(form): Row<'_>) -> Result<(), BadRow> {
        let RowKey { table, period, block } = key;
        if form.table() != table {
            return Err(BadRow::Foreign(key));
        }
        let other = self.ledger.load(block, form).map_err(|why| BadRow::Misplaced { key, why })?;
        let meter = &mut self.ledger.meter;
        let loaded = match other {
            None => Ok(()),
            Some(Form::Head(head)) => {
                self.head = Some(*head);
                Ok(())
            }
            Some(Form::Resources(written)) => meter.shapes.load_resources(block, written),
            Some(Form::Models(written)) => meter.shapes.load_models(block, written),
            Some(Form::Pods(rows)) => self.load_pods(block, rows),
            Some(Form::Parts(cells)) => meter.load_period(Rows::Parts, period, block, &cells),
            Some(Form::Hours(cells)) => meter.load_period(Rows::Hours, period, block, &cells),
            Some(Form::Days(cells)) => meter.load_period(Rows::Days, period, block, &cells),
            Some(Form::Months(cells)) => meter.load_period(Rows::Months, period, block, &cells),
            Some(_) => return Err(BadRow::Foreign(key)),
        };
        loaded.map_err(|why| BadRow::Misplaced { key, why })
    }

    fn load_pods(&mut self, block: u32, rows: Vec<Slot<PodRow<'_>>>) -> Result<(), Misplaced> {
        let first = self.ledger.meter.pods.count();
        let booked = &mut self.booked;
        let pods = (first..).zip(rows).map(|(slot, row)| match row {
            Slot::Vacant(next) => Slot::Vacant(next),
            Slot::Taken((pod, charged)) => {
                booked.extend(charged.map(|charged| (slot, charged)));
                Slot::Taken(pod.into_owned())
            }
        });
        let pods = pods.collect();
        self.ledger.meter.pods.table.load(block, pods)
    }

    /// The ledger as it was when its rows were written; `tree` stood beside them.
    ///
    /// # Errors
    /// [`BadRow`] when something is missing.
    pub fn finish(self, tree: Frontier) -> Result<Ledger, BadRow> {
        let Self { mut ledger, head, booked } = self;
        let Head { counts, last_decision, leaf, next_decided, next_request, meter, book } =
            head.ok_or(BadRow::NoHead)?;
        ledger.names.resume();
        ledger.meter.resume(&mut ledger.names, &meter)?;
        ledger.decided.resume(next_decided, next_request);
        if let Some(kept) = &mut ledger.book {
            kept.resume(book.ok_or(BadRow::NoHead)?, booked, &ledger.meter);
        }
        (ledger.counts, ledger.last_decision) = (counts, last_decision);
        ledger.leaf = leaf;
        ledger.position = tree.position();
        ledger.frontier = tree;
        Ok(ledger)
    }
}
