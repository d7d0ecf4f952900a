//! Where groups stand: hard, used, self, consumed and left of every key of every group, as a tree. The one place that
//! reads these numbers off the ledger for people and programs: `bizrq quota tree`, the demo, the API and its page.

use super::{
    admission::Reason,
    book::{Book, Exhaustion},
    event::Period,
    hours::NanoHours,
    ledger::Ledger,
    meter::recount::Unanswerable,
    names::{GroupId, KeyId},
    quota::Unit,
    time::Timestamp,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The tree, parents before their children.
#[derive(Serialize, Clone, Debug)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "cli", schemars(rename = "Groups"))]
pub struct Tree {
    /// Spend is counted up to here.
    pub at: Timestamp,
    /// By the records up to here.
    pub position: u64,
    /// Declared groups before others, then by name.
    pub groups: Vec<Group>,
}

/// A group, and where it stands in the tree.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct Group {
    /// Its name; empty for what names none.
    pub group: String,
    /// The group above it.
    pub parent: Option<String>,
    /// How many are above it.
    pub depth: usize,
    /// `Ready`, or why not: `NotReady`, `Removed`, `Undeclared`.
    pub state: &'static str,
    /// Of `NotReady`: the rule that its newest object breaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// When its account was opened: spend counts from here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opened: Option<Timestamp>,
    /// Listed keys; of a group that nobody declared all that it used.
    #[cfg_attr(feature = "cli", schemars(with = "Vec<RowJson>"))]
    pub keys: Vec<Row>,
}

/// One key of one group. Amounts in milli-units, of `cash/K` in milli-units × milliseconds.
#[derive(Clone, Debug, Serialize)]
#[serde(into = "RowJson")]
pub struct Row {
    /// As the quota lists it.
    pub key: String,
    /// What it counts.
    pub unit: Unit,
    /// Whether it is a budget, `cash/K`.
    pub cash: bool,
    /// The limit, if it is listed.
    pub hard: Option<i128>,
    /// Of a budget that begins anew: what went over from the period before; below zero if it had overspent.
    pub carried: i128,
    /// Of a budget that begins anew: the period that the numbers are of.
    pub period: Option<Period>,
    /// Own use, and what was given to children.
    pub used: i128,
    /// Own use.
    pub self_used: i128,
    /// What the subtree spent, in milli-units × milliseconds.
    pub consumed: i128,
    /// What nobody reviewed.
    pub unreviewed: i128,
    /// When a budget is used up, if all goes on as it is.
    pub exhaustion: Option<Exhaustion>,
}

/// A row as programs read it: every number a string, every sum with its exact value.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "cli", schemars(rename = "Row"))]
#[serde(rename_all = "camelCase")]
pub struct RowJson {
    /// As the quota lists it.
    pub key: String,
    /// `core`, `byte`, `card` or `item`.
    pub unit: &'static str,
    /// The limit.
    pub hard: Option<String>,
    /// Of a budget that begins anew: what went over from the period before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carried: Option<String>,
    /// Of a budget that begins anew: the period that the numbers are of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
    /// Own use, and what was given to children.
    pub used: String,
    /// Own use.
    pub self_used: String,
    /// Hard, and what went over, less used.
    pub left: Option<String>,
    /// What nobody reviewed.
    pub unreviewed: String,
    /// Rounded, as everywhere.
    pub consumed_hours: String,
    /// Milli-units × milliseconds.
    pub consumed_exact: String,
    /// Of a budget: the instant, `by` an instant, or `never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exhausted_at: Option<String>,
}

impl Tree {
    /// The tree of a ledger, spend counted up to `at`; with `all` also keys that a group does not list.
    ///
    /// # Errors
    /// [`Unanswerable`]: `at` lies before what is remembered.
    pub fn of(ledger: &Ledger, at: Timestamp, all: bool) -> Result<Self, Unanswerable> {
        let groups = Gather { ledger, at, all }.groups(&places(ledger, at)?);
        Ok(Self { at, position: ledger.position(), groups })
    }

    /// So many groups of the same, of those that `shown` lets through, behind the group `after`, and whether more follow;
    /// `None` if there is no such group. Depths count from the highest that is shown.
    ///
    /// # Errors
    /// [`Unanswerable`].
    pub fn page(
        ledger: &Ledger,
        at: Timestamp,
        after: Option<&str>,
        most: usize,
        shown: impl Fn(GroupId) -> bool,
    ) -> Result<Option<(Self, bool)>, Unanswerable> {
        let places = shown_places(places(ledger, at)?, shown);
        let behind = |name| {
            let group = ledger.names().known_group(name)?;
            let place = places.iter().position(|(known, _)| *known == group)?;
            Some(place.saturating_add(1))
        };
        let Some(first) = after.map_or(Some(0), behind) else { return Ok(None) };
        let rest = places.get(first..).unwrap_or_default();
        let groups = Gather { ledger, at, all: false }.groups(rest.get(..most).unwrap_or(rest));
        Ok(Some((Self { at, position: ledger.position(), groups }, rest.len() > most)))
    }

    /// One group alone; `None`: no account is called so, and nobody used anything under that name.
    #[must_use]
    pub fn one(ledger: &Ledger, at: Timestamp, name: &str) -> Option<Group> {
        let (book, group) = (ledger.book()?, ledger.names().known_group(name)?);
        let is_known = book.opened(group).is_some()
            || book.declaration(group).is_some()
            || book.invalid(group).is_some()
            || book.holds(group)
            || ledger.meter().sums(group).is_some_and(|sums| sums.keys().next().is_some());
        let depth = book.above(group).len().saturating_sub(1);
        let group = Gather { ledger, at, all: false }.groups(&[(group, depth)]).pop();
        group.filter(|_| is_known)
    }

    /// Whether [`Self::one`] of this group looks at few others: it was declared, and has at most `most` groups below it.
    #[must_use]
    pub fn is_small(ledger: &Ledger, name: &str, most: usize) -> bool {
        let known = ledger.book().zip(ledger.names().known_group(name));
        let Some((book, group)) = known.filter(|(book, group)| book.declaration(*group).is_some())
        else {
            return false;
        };
        let mut open = vec![group];
        let mut below = 0_usize;
        while let Some(group) = open.pop() {
            let children = book.children(group);
            below = below.saturating_add(children.len());
            if below > most {
                return false;
            }
            open.extend_from_slice(children);
        }
        true
    }

    /// The groups whose names `keep` lets through.
    #[must_use]
    pub fn only(&self, keep: impl Fn(&str) -> bool) -> Self {
        let groups = self.groups.iter().filter(|g| keep(&g.group)).cloned().collect();
        Self { groups, ..*self }
    }

    /// `name` and what is below it; `None` if there is no such group.
    #[must_use]
    pub fn below(self, name: &str) -> Option<Self> {
        let mut rest = self.groups.into_iter().skip_while(|g| g.group != name);
        let top = rest.next()?;
        let depth = top.depth;
        let below = rest.take_while(|g| g.depth > depth);
        let raised = |g: Group| Group { depth: g.depth.saturating_sub(depth), ..g };
        let groups = std::iter::once(top).chain(below).map(raised).collect();
        Some(Self { groups, at: self.at, position: self.position })
    }
}

/// Where each group stands: itself and how deep, parents before their children, children by name.
fn places(ledger: &Ledger, at: Timestamp) -> Result<Vec<(GroupId, usize)>, Unanswerable> {
    let (Some(book), names) = (ledger.book(), ledger.names()) else { return Ok(Vec::new()) };
    // The last is taken first: declared groups before others, then by name.
    let by_name = |groups: &mut Vec<GroupId>| {
        let order = |g: GroupId| (book.opened(g).is_none(), names.group_name(g));
        groups.sort_by(|a, b| order(*b).cmp(&order(*a)));
    };
    let used = ledger.usage(at)?;
    let spenders = used.iter().filter_map(|line| names.known_group(&line.group));
    let busy = names.groups().filter(|g| book.holds(*g)).chain(spenders);
    let all: BTreeSet<GroupId> = book.accounts().chain(busy).collect();
    let mut open: Vec<_> = all.into_iter().filter(|g| book.parents(*g).is_empty()).collect();
    by_name(&mut open);
    let mut open: Vec<(GroupId, usize)> = open.into_iter().map(|g| (g, 0)).collect();
    let mut places = Vec::new();
    while let Some((group, depth)) = open.pop() {
        places.push((group, depth));
        // A group whose change of parent is open counts in both, and is drawn under the first.
        let first = |child: &GroupId| book.parents(*child).first() == Some(&group);
        let mut children: Vec<_> = book.children(group).iter().copied().filter(first).collect();
        by_name(&mut children);
        open.extend(children.into_iter().map(|child| (child, depth.saturating_add(1))));
    }
    Ok(places)
}

/// The places of what is shown, a subtree or several; parents come before their children, so what follows a top is
/// below it.
fn shown_places(
    mut places: Vec<(GroupId, usize)>,
    shown: impl Fn(GroupId) -> bool,
) -> Vec<(GroupId, usize)> {
    let mut top = None;
    places.retain_mut(|(group, depth)| {
        if !shown(*group) {
            top = None;
            return false;
        }
        let above = *top.get_or_insert(*depth);
        // Two tops may follow each other; the second need not stand as deep as the first.
        let above = above.min(*depth);
        top = Some(above);
        *depth = depth.saturating_sub(above);
        true
    });
    places
}

/// What one group spent of each key, in milli-units × milliseconds.
type Spent = BTreeMap<String, i128>;

/// Reads numbers off a ledger.
struct Gather<'l> {
    ledger: &'l Ledger,
    at: Timestamp,
    all: bool,
}

impl Gather<'_> {
    fn groups(&self, places: &[(GroupId, usize)]) -> Vec<Group> {
        let Some(book) = self.ledger.book() else { return Vec::new() };
        let name = |g: GroupId| self.ledger.names().group_name(g).to_owned();
        // Nobody's account was opened for these: their hours are those of the meter.
        let mut spent: BTreeMap<String, Spent> = BTreeMap::new();
        let has_account = |(group, _): &(GroupId, usize)| state(book, *group).0 != "Undeclared";
        let known = match self.all || !places.iter().all(has_account) {
            true => self.ledger.usage(self.at).unwrap_or_default(),
            false => Vec::new(),
        };
        for line in known {
            spent.entry(line.group).or_default().insert(line.key, line.exact);
        }
        let none = Spent::new();
        let group = |(id, depth): &(GroupId, usize)| {
            let (state, reason) = state(book, *id);
            let parent = book.parents(*id).first().map(|p| name(*p));
            let group = name(*id);
            let keys = self.keys(book, *id, state, spent.get(&group).unwrap_or(&none));
            let opened = book.opened(*id);
            Group { group, parent, depth: *depth, state, reason, opened, keys }
        };
        places.iter().map(group).collect()
    }

    fn keys(&self, book: &Book, group: GroupId, state: &str, spent: &Spent) -> Vec<Row> {
        let names = self.ledger.names();
        let listed = book.declaration(group).map_or(&[][..], |d| &d.spec.hard);
        let mut keys: BTreeSet<KeyId> = listed.iter().map(|(key, _)| *key).collect();
        let undeclared = state == "Undeclared";
        if self.all || undeclared {
            keys.extend(book.keys(group));
            keys.extend(spent.keys().filter_map(|key| names.known_key(key)));
        }
        let mut rows: Vec<_> = keys.into_iter().map(|key| self.row(book, group, key)).collect();
        for row in rows.iter_mut().filter(|_| undeclared) {
            row.consumed = spent.get(&row.key).copied().unwrap_or_default();
        }
        rows.retain(|row| row.hard.is_some() || row.used != 0 || row.consumed != 0);
        rows.sort_by(|a, b| (a.cash, &a.key).cmp(&(b.cash, &b.key)));
        rows
    }

    fn row(&self, book: &Book, group: GroupId, key: KeyId) -> Row {
        let (names, meter) = (self.ledger.names(), self.ledger.meter());
        let text = names.key_name(key);
        let line = book.line(group, key);
        let row = Row {
            key: text.to_owned(),
            unit: Unit::of(text),
            cash: false,
            hard: line.limit,
            carried: 0,
            period: None,
            used: line.used,
            self_used: line.self_used,
            consumed: 0,
            unreviewed: book.unreviewed(group, key),
            exhaustion: None,
        };
        let Some(budgeted) = names.budgeted(key) else {
            return Row { consumed: book.consumed(group, key, meter, self.at), ..row };
        };
        Row {
            cash: true,
            used: book.budget_used(group, budgeted, meter, self.at),
            carried: book.carried(group, budgeted, meter, self.at),
            period: book.period(group, self.at).map(Period::from),
            self_used: book.budget_own(group, budgeted, meter, self.at),
            consumed: book.budget_consumed(group, budgeted, meter, self.at),
            unreviewed: 0,
            exhaustion: book.exhaustion(group, budgeted, meter, self.at),
            ..row
        }
    }
}

fn state(book: &Book, group: GroupId) -> (&'static str, Option<&'static str>) {
    match (book.declaration(group), book.invalid(group)) {
        (_, Some(invalid)) => ("NotReady", Some(Reason::of(&invalid.fault).name())),
        (Some(_), None) => ("Ready", None),
        (None, None) if book.opened(group).is_some() => ("Removed", None),
        (None, None) => ("Undeclared", None),
    }
}

impl Row {
    /// What may be used: hard, and of a budget what went over.
    #[must_use]
    pub fn limit(&self) -> Option<i128> {
        self.hard.map(|hard| hard.saturating_add(self.carried))
    }

    /// The same less used.
    #[must_use]
    pub fn left(&self) -> Option<i128> {
        self.limit().map(|limit| limit.saturating_sub(self.used))
    }

    /// An amount of this row as Kubernetes writes it; of `cash/K` in unit-hours.
    fn text(&self, amount: i128) -> String {
        if self.cash { NanoHours::of(amount).to_string() } else { self.unit.written(amount) }
    }
}

impl From<Row> for RowJson {
    fn from(row: Row) -> Self {
        let exhausted_at = row.exhaustion.map(|end| end.to_string());
        Self {
            unit: row.unit.name(),
            hard: row.hard.map(|hard| row.text(hard)),
            carried: row.period.map(|_| row.text(row.carried)),
            period: row.period,
            used: row.text(row.used),
            self_used: row.text(row.self_used),
            left: row.left().map(|left| row.text(left)),
            unreviewed: row.text(row.unreviewed),
            consumed_hours: NanoHours::of(row.consumed).to_string(),
            consumed_exact: row.consumed.to_string(),
            exhausted_at,
            key: row.key,
        }
    }
}
