//! The lines of a bill: what was held, times how long, by group, key, model and workload; sorted, so that a bill made
//! twice is the same.
//!
//! Every amount is billed once: under its generic key, with the model it was held on. So the lines of a key add up to
//! the ledger's number for it, and those of a model to its number for the key with the model.

use super::{Adjusted, Billing, Held, Workload, parts};
use crate::domain::{
    amounts::Overflow,
    event::{Period, Position},
    names::{Map, ObjectId, Set},
    quantity::Milli,
    quota::Known,
    resources::usage_by_model,
    shapes::{PlacementId, ResourcesId},
    time::Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};

/// What is billed.
#[derive(Clone, Debug)]
pub struct Bill<'b> {
    groups: Vec<&'b str>,
    keys: Vec<String>,
    models: Vec<String>,
    workloads: Vec<Workload<'b>>,
    spans: Vec<Span>,
    corrections: Vec<Correction>,
    rows: Vec<Row>,
}

/// One line of a bill.
#[derive(Clone, Copy, Debug)]
pub struct Line<'b> {
    /// The group; empty for none.
    pub group: &'b str,
    /// The generic key.
    pub key: &'b str,
    /// The model; empty for none.
    pub model: &'b str,
    /// The workload; empty where lines are not by workload, and of corrections that somebody made.
    pub workload: Workload<'b>,
    /// When it was held; of a correction, the time that is corrected.
    pub period: Period,
    /// The price that counts, by number.
    pub price: Option<usize>,
    /// Milli-units × milliseconds.
    pub exact: i128,
    /// How sure it is.
    pub status: Status,
    /// What it corrects, if anything.
    pub correction: Option<&'b Correction>,
}

/// How sure a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// A pod that contributes still runs, or its stop may be withdrawn.
    Provisional,
    /// Everything that contributes has ended for good.
    Final,
    /// It corrects what was billed before, or what was metered.
    Corrected,
}

/// Why a line corrects another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Correction {
    /// Learned after the period was closed.
    Learned,
    /// Somebody said so.
    Adjusted {
        /// The records.
        positions: Vec<Position>,
        /// Why.
        why: String,
        /// Who.
        by: String,
    },
}

impl Correction {
    /// The records of who said so; none of what was learned.
    #[must_use]
    pub fn positions(&self) -> &[Position] {
        match self {
            Self::Learned => &[],
            Self::Adjusted { positions, .. } => positions,
        }
    }
}

/// When something was held, under one price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    period: Period,
    price: Option<usize>,
}

/// What a line is of, everything by number, in the order of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Of {
    group: u32,
    key: u32,
    model: u32,
    /// 0: it is none.
    correction: u32,
    workload: u32,
    span: u32,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    of: Of,
    exact: i128,
    provisional: bool,
}

/// Generic key, model and amount, of one pod.
type Amounts = Vec<(u32, u32, Milli)>;

/// What names are numbered by: their place in order.
fn number<T: Ord>(all: &[T], one: &T) -> u32 {
    let place = all.binary_search(one).unwrap_or_default();
    u32::try_from(place).unwrap_or(u32::MAX)
}

impl Billing {
    /// The bill. `price` says which price counts for a generic key on a model (empty for none) at an instant.
    ///
    /// # Errors
    /// [`Overflow`]: an amount leaves 128 bits.
    pub fn bill(
        &self,
        price: impl Fn(&str, &str, Timestamp) -> Option<usize>,
    ) -> Result<Bill<'_>, Overflow> {
        let mut maker = Maker::new(self, &price);
        for (held, course) in &self.held {
            let group = self.ledger.meter().shapes.group(held.placement);
            for share in course.shares(&self.axis) {
                let span = |spans: &Spans| spans.at(share.slice);
                maker.add(held, group.index(), share.millis, share.provisional, 0, span)?;
            }
        }
        for (late, millis) in &self.late {
            let group = self.ledger.meter().shapes.group(late.held.placement);
            let span = |spans: &Spans| spans.late(late.piece);
            maker.add(&late.held, group.index(), *millis, false, 1, span)?;
        }
        maker.adjust(self, &price)?;
        maker.finish()
    }
}

/// Spans of one generic key on one model: by slice of the billed time, and by piece of the closed time.
struct Spans {
    slices: Vec<u32>,
    late: Vec<u32>,
}

impl Spans {
    fn at(&self, slice: usize) -> u32 {
        self.slices.get(slice).copied().unwrap_or_default()
    }

    fn late(&self, piece: usize) -> u32 {
        self.late.get(piece).copied().unwrap_or_default()
    }
}

/// Names in the order in which they are printed, and where each stands.
impl Billing {
    /// All that was held, also what was learned late.
    fn all_held(&self) -> impl Iterator<Item = &Held> {
        self.held.keys().chain(self.late.keys().map(|late| &late.held))
    }

    /// Groups, and by the group's number its rank.
    fn ranked_groups(&self) -> (Vec<&str>, Vec<u32>) {
        let names = self.ledger.names();
        let unsorted: Vec<&str> = names.groups().map(|group| names.group_name(group)).collect();
        let mut groups = unsorted.clone();
        groups.sort_unstable();
        let ranks = unsorted.iter().map(|group| number(&groups, group)).collect();
        (groups, ranks)
    }

    /// Workloads, nobody among them, with their ranks.
    fn ranked_workloads(&self) -> (Vec<Workload<'_>>, Map<ObjectId, u32>) {
        let ids: Set<ObjectId> = self.all_held().map(|held| held.workload).collect();
        let called = |id: &ObjectId| self.workloads.get(*id, self.ledger.names());
        let nobody = std::iter::once(Workload::default());
        let mut workloads: Vec<Workload<'_>> = ids.iter().map(called).chain(nobody).collect();
        workloads.sort_unstable();
        workloads.dedup();
        let ranks = ids.iter().map(|id| (*id, number(&workloads, &called(id)))).collect();
        (workloads, ranks)
    }

    /// Generic keys, models, and by their ranks what each combination of resources and models holds.
    fn ranked_amounts(&self) -> (Vec<String>, Vec<String>, Shares) {
        let (mut keys, mut models) = (BTreeSet::new(), BTreeSet::from([String::new()]));
        let known = self.known();
        for (key, model) in self.adjusted.iter().map(|adjusted| adjusted.split(&known)) {
            keys.insert(key);
            models.insert(model);
        }
        let shapes: Set<_> = self.all_held().map(|held| (held.placement, held.held)).collect();
        let mut by_text = Vec::with_capacity(shapes.len());
        for shape in shapes {
            let all = &self.ledger.meter().shapes;
            let Some((resources, on)) = parts(all, shape.0, shape.1) else { continue };
            let mut amounts = Vec::new();
            usage_by_model(resources, on, |key, model, amount| {
                let (key, model) = (key.to_owned(), model.unwrap_or_default().to_owned());
                keys.insert(key.clone());
                models.insert(model.clone());
                amounts.push((key, model, amount));
            });
            by_text.push((shape, amounts));
        }
        let keys: Vec<_> = keys.into_iter().collect();
        let models: Vec<_> = models.into_iter().collect();
        let ranked = |(key, model, amount): &(String, String, Milli)| {
            (number(&keys, key), number(&models, model), *amount)
        };
        let amounts = by_text.iter().map(|(shape, all)| (*shape, all.iter().map(ranked).collect()));
        let amounts = amounts.collect();
        (keys, models, amounts)
    }
}

/// What resources with models hold, under ranks of keys and models.
type Shares = Map<(PlacementId, ResourcesId), Amounts>;

/// A bill in the making.
struct Maker<'b> {
    bill: Bill<'b>,
    group_ranks: Vec<u32>,
    workload_ranks: Map<ObjectId, u32>,
    amounts: Shares,
    spans: Map<(u32, u32), Spans>,
}

impl<'b> Maker<'b> {
    fn new(billing: &'b Billing, price: &impl Fn(&str, &str, Timestamp) -> Option<usize>) -> Self {
        let (groups, group_ranks) = billing.ranked_groups();
        let (workloads, workload_ranks) = billing.ranked_workloads();
        let (keys, models, amounts) = billing.ranked_amounts();
        let (corrections, rows) = (vec![Correction::Learned], Vec::new());
        let mut maker = Self {
            bill: Bill { groups, keys, models, workloads, spans: Vec::new(), corrections, rows },
            group_ranks,
            workload_ranks,
            amounts,
            spans: Map::default(),
        };
        let pairs: BTreeSet<(u32, u32)> =
            maker.amounts.values().flatten().map(|(key, model, _)| (*key, *model)).collect();
        for (key, model) in pairs {
            maker.cut(billing, (key, model), price);
        }
        maker
    }

    /// The spans of a generic key on a model: slices of one calendar period under one price are one.
    fn cut(
        &mut self,
        billing: &Billing,
        pair: (u32, u32),
        price: &impl Fn(&str, &str, Timestamp) -> Option<usize>,
    ) {
        let name = |names: &[String], at: u32| names.get(at as usize).cloned().unwrap_or_default();
        let (key, model) = (name(&self.bill.keys, pair.0), name(&self.bill.models, pair.1));
        let spans = &mut self.bill.spans;
        let mut slices: Vec<u32> = Vec::with_capacity(billing.axis.len());
        for slice in 0..billing.axis.len() {
            let period = billing.axis.of(slice);
            let price = price(&key, &model, period.from);
            let goes_on = |last: &&mut Span| {
                let every = billing.terms.every;
                let within = every.is_none_or(|unit| unit.end_of(last.period.from) > period.from);
                !slices.is_empty() && within && last.price == price
            };
            match spans.last_mut().filter(goes_on) {
                Some(last) => last.period.to = period.to,
                None => spans.push(Span { period, price }),
            }
            slices.push(last(spans));
        }
        let late = billing.closings.pieces().map(|period| {
            spans.push(Span { period, price: price(&key, &model, period.from) });
            last(spans)
        });
        let late = late.collect();
        self.spans.insert(pair, Spans { slices, late });
    }

    fn add(
        &mut self,
        held: &Held,
        group: usize,
        millis: i128,
        provisional: bool,
        correction: u32,
        span: impl Fn(&Spans) -> u32,
    ) -> Result<(), Overflow> {
        let group = self.group_ranks.get(group).copied().unwrap_or_default();
        let workload = self.workload_ranks.get(&held.workload).copied().unwrap_or_default();
        let Some(amounts) = self.amounts.get(&(held.placement, held.held)) else { return Ok(()) };
        for (key, model, amount) in amounts {
            let exact = amount.checked_mul(millis).ok_or(Overflow)?;
            let span = self.spans.get(&(*key, *model)).map_or(0, &span);
            let of = Of { group, key: *key, model: *model, correction, workload, span };
            self.bill.rows.push(Row { of, exact, provisional });
        }
        Ok(())
    }

    /// Lines of what somebody said. The ledger counts a correction under the very key that it names; of a key with a
    /// model the generic key is none the wiser, so that what is added to the model is taken from no model.
    fn adjust(
        &mut self,
        billing: &Billing,
        price: &impl Fn(&str, &str, Timestamp) -> Option<usize>,
    ) -> Result<(), Overflow> {
        let known = billing.known();
        for Told { adjusted, positions, generic } in told(&billing.adjusted, &known) {
            let (key, model) = adjusted.split(&known);
            let (why, by) = (adjusted.why.clone(), adjusted.by.clone());
            self.bill.corrections.push(Correction::Adjusted { positions, why, by });
            let correction = u32::try_from(self.bill.corrections.len()).unwrap_or(u32::MAX);
            let none = String::new();
            let taken =
                (!generic && !model.is_empty()).then_some((&none, adjusted.exact.checked_neg()));
            for (model, exact) in std::iter::once((&model, Some(adjusted.exact))).chain(taken) {
                let price = price(&key, model, adjusted.period.from);
                self.bill.spans.push(Span { period: adjusted.period, price });
                let of = Of {
                    group: number(&self.bill.groups, &adjusted.group.as_str()),
                    key: number(&self.bill.keys, &key),
                    model: number(&self.bill.models, model),
                    correction,
                    workload: 0,
                    span: last(&self.bill.spans),
                };
                let exact = exact.ok_or(Overflow)?;
                self.bill.rows.push(Row { of, exact, provisional: false });
            }
        }
        Ok(())
    }

    /// Rows in order, those of one line as one, without those that come to nothing.
    fn finish(mut self) -> Result<Bill<'b>, Overflow> {
        self.bill.rows.sort_unstable_by_key(|row| row.of);
        let mut lines: Vec<Row> = Vec::new();
        for row in self.bill.rows {
            match lines.last_mut().filter(|last| last.of == row.of) {
                Some(last) => {
                    last.exact = last.exact.checked_add(row.exact).ok_or(Overflow)?;
                    last.provisional |= row.provisional;
                }
                None => lines.push(row),
            }
        }
        lines.retain(|row| row.exact != 0);
        Ok(Bill { rows: lines, ..self.bill })
    }
}

fn last(spans: &[Span]) -> u32 {
    u32::try_from(spans.len().saturating_sub(1)).unwrap_or(u32::MAX)
}

/// A correction that somebody made: one record, or two of which one names the generic key.
struct Told<'b> {
    adjusted: &'b Adjusted,
    positions: Vec<Position>,
    /// The generic key was corrected, too.
    generic: bool,
}

/// Group, generic key, amount, why, who, and when.
type Same<'b> = (&'b str, String, i128, &'b str, &'b str, Timestamp);

/// Corrections in the order of their records. Whoever corrects a model's number corrects the generic one, too, with
/// the same words: that is one correction.
fn told<'b>(adjusted: &'b [Adjusted], known: &Known) -> Vec<Told<'b>> {
    let mut told: Vec<Told<'b>> = Vec::new();
    let mut open: BTreeMap<Same<'_>, Vec<usize>> = BTreeMap::new();
    for adjusted in adjusted {
        let (key, model) = adjusted.split(known);
        let Adjusted { group, exact, why, by, period, .. } = adjusted;
        let same = (group.as_str(), key, *exact, why.as_str(), by.as_str(), period.from);
        let at = told.len();
        if !model.is_empty() {
            open.entry(same).or_default().push(at);
        } else if let Some(of) = open.get_mut(&same).and_then(Vec::pop)
            && let Some(told) = told.get_mut(of)
        {
            told.positions.push(adjusted.position);
            told.generic = true;
            continue;
        }
        told.push(Told { adjusted, positions: vec![adjusted.position], generic: false });
    }
    told
}

impl Adjusted {
    /// Generic key and model, empty for none.
    fn split(&self, known: &Known) -> (String, String) {
        let (key, model) = known.split(&self.key);
        (key.to_owned(), model.unwrap_or_default().to_owned())
    }
}

impl Billing {
    /// Resource names that tell a key from its model.
    fn known(&self) -> Known {
        let mut known = self.ledger.meter().known_resources();
        self.terms.resources.iter().for_each(|name| known.learn(name));
        known
    }
}

impl Bill<'_> {
    /// How many lines.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether nothing is billed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines, in order.
    pub fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        self.rows.iter().filter_map(|row| {
            let Row { of, exact, provisional } = *row;
            let span = self.spans.get(of.span as usize)?;
            let correction = (of.correction as usize).checked_sub(1);
            let correction = correction.and_then(|at| self.corrections.get(at));
            let status = match (correction.is_some(), provisional) {
                (true, _) => Status::Corrected,
                (false, true) => Status::Provisional,
                (false, false) => Status::Final,
            };
            Some(Line {
                group: self.groups.get(of.group as usize)?,
                key: self.keys.get(of.key as usize)?,
                model: self.models.get(of.model as usize)?,
                workload: self.workloads.get(of.workload as usize).copied()?,
                period: span.period,
                price: span.price,
                exact,
                status,
                correction,
            })
        })
    }
}
