//! `bizrq quota tree`: who may use what, who does, and what is left, drawn as the tree that it is.

mod draw;

use super::{
    check,
    file::{self, QuotaObject},
};
use crate::{
    cli::{
        Answer, Error,
        opened_log::OpenedLog,
        out::{Format, Out},
    },
    clock,
    domain::{
        admission::Reason,
        book::{Book, Exhaustion},
        event::Data,
        hours::NanoHours,
        ledger::{self, Ledger},
        names::{GroupId, KeyId},
        quota::Unit,
        time::Timestamp,
    },
};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq quota tree --log ./log
  bizrq quota tree --log ./log --at 2026-11-30T00:00:00Z dept-1
  bizrq quota tree --quotas quotas.yaml
  bizrq quota tree --log ./log --quotas planned.yaml -o json

Columns: hard (the limit), used (own use and what was given to children: the larger of a child's hard and used), self
(own use), consumed (unit-hours spent by the whole subtree), left (hard less used). A row cash/K counts unit-hours.
With --quotas the quotas of the log are left out: the tree shows what these files would make of its history.")]
#[command(group(clap::ArgGroup::new("input").required(true).multiple(true).args(["quotas", "log"])))]
pub(super) struct Args {
    /// YAML files of quotas; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    quotas: Vec<PathBuf>,
    /// The log to read: a folder, or nats://host:port,…
    #[arg(long, value_name = "LOG")]
    log: Option<String>,
    /// Count spend up to this instant; now, unless given
    #[arg(long, value_name = "T", value_parser = instant)]
    at: Option<Timestamp>,
    /// Show keys that a group uses and does not list, too
    #[arg(long)]
    all: bool,
    /// How the tree is shown
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// Show this group and what is below it
    group: Option<String>,
}

/// The tree, parents before their children.
#[derive(Serialize)]
pub(in crate::cli) struct Tree {
    at: Timestamp,
    position: u64,
    pub(in crate::cli) groups: Vec<Group>,
}

#[derive(Clone, Serialize)]
pub(in crate::cli) struct Group {
    pub(in crate::cli) group: String,
    parent: Option<String>,
    depth: usize,
    /// `Ready`, or why not: `NotReady`, `Removed`, `Undeclared`.
    state: &'static str,
    /// Of `NotReady`: the rule that its newest object breaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    keys: Vec<Row>,
}

/// One key of one group. Amounts in milli-units, of `cash/K` in milli-units × milliseconds.
#[derive(Serialize)]
#[serde(into = "RowJson")]
#[derive(Clone)]
struct Row {
    key: String,
    unit: Unit,
    cash: bool,
    hard: Option<i128>,
    used: i128,
    self_used: i128,
    consumed: i128,
    unreviewed: i128,
    exhaustion: Option<Exhaustion>,
}

/// A row as programs read it: every number a string, every sum with its exact value.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RowJson {
    key: String,
    unit: &'static str,
    hard: Option<String>,
    used: String,
    self_used: String,
    left: Option<String>,
    unreviewed: String,
    consumed_hours: String,
    consumed_exact: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    exhausted_at: Option<String>,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let objects = file::load(&args.quotas)?;
    let mut ledger = Ledger::new(ledger::Options::default());
    let declared = declare(&mut ledger, objects)?;
    ledger.begin_log();
    if let Some(place) = &args.log {
        let log = OpenedLog::open_read(place)?;
        let is_quota = |data: &Data<'_>| {
            matches!(data, Data::QuotaDeclared(_) | Data::QuotaRemoved(_) | Data::QuotaProposed(_))
        };
        log.fold(&mut ledger, |event| !declared || !is_quota(&event.data), |_| {})?;
    }
    let at = args.at.unwrap_or_else(clock::now);
    let mut tree = Tree::of(&ledger, at, args.all)?;
    if let Some(name) = &args.group {
        tree.groups = below(tree.groups, name)?;
    }
    match args.output {
        Format::Json => out.json(&tree)?,
        Format::Csv => csv(&tree, out)?,
        Format::Table => tree.draw(out)?,
    }
    Ok(Answer::Yes)
}

impl Tree {
    /// The tree of a ledger, spend counted up to `at`; with `all` also keys that a group does not list.
    pub(in crate::cli) fn of(ledger: &Ledger, at: Timestamp, all: bool) -> Result<Self, Error> {
        let groups = Gather { ledger, at, all }.groups(&places(ledger, at)?);
        Ok(Self { at, position: ledger.position(), groups })
    }

    /// The groups whose names `keep` lets through.
    pub(in crate::cli) fn only(&self, keep: impl Fn(&str) -> bool) -> Self {
        let groups = self.groups.iter().filter(|g| keep(&g.group)).cloned().collect();
        Self { groups, ..*self }
    }

    /// Draws it for people.
    pub(in crate::cli) fn draw(&self, out: &mut Out) -> Result<(), Error> {
        draw::draw(self, out)
    }
}

/// Declares the objects of files before anything else happened; whether there were any.
fn declare(ledger: &mut Ledger, objects: Vec<QuotaObject>) -> Result<bool, Error> {
    let objects = check::parents_first(objects);
    let event = |object| check::event(object, 1, "/operators/tree", Timestamp::MIN);
    let events: Vec<_> = objects.iter().map(event).collect();
    check::declare(ledger, &objects, &events).map_err(|e| Error::input("quotas", e))?;
    Ok(!objects.is_empty())
}

/// Where each group stands: itself and how deep, parents before their children, children by name.
fn places(ledger: &Ledger, at: Timestamp) -> Result<Vec<(GroupId, usize)>, Error> {
    let (Some(book), names) = (ledger.book(), ledger.names()) else { return Ok(Vec::new()) };
    // The last is taken first: declared groups before others, then by name.
    let by_name = |groups: &mut Vec<GroupId>| {
        let order = |g: GroupId| (book.opened(g).is_none(), names.group_name(g));
        groups.sort_by(|a, b| order(*b).cmp(&order(*a)));
    };
    let used = ledger.usage(at).map_err(|e| Error::input("--at", e))?;
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
        for line in self.ledger.usage(self.at).unwrap_or_default() {
            spent.entry(line.group).or_default().insert(line.key, line.exact);
        }
        let none = Spent::new();
        let group = |(id, depth): &(GroupId, usize)| {
            let (state, reason) = state(book, *id);
            let parent = book.parents(*id).first().map(|p| name(*p));
            let group = name(*id);
            let keys = self.keys(book, *id, state, spent.get(&group).unwrap_or(&none));
            Group { group, parent, depth: *depth, state, reason, keys }
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
            used: line.used,
            self_used: line.self_used,
            consumed: book.consumed(group, key, meter, self.at),
            unreviewed: book.unreviewed(group, key),
            exhaustion: None,
        };
        let Some(budgeted) = names.budgeted(key) else { return row };
        Row {
            cash: true,
            used: book.budget_used(group, budgeted, meter, self.at),
            self_used: crate::domain::book::Spend::spent(meter, group, budgeted, self.at),
            consumed: book.consumed(group, budgeted, meter, self.at),
            unreviewed: 0,
            exhaustion: book.exhaustion(group, budgeted, meter),
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

/// `name` and what is below it.
fn below(groups: Vec<Group>, name: &str) -> Result<Vec<Group>, Error> {
    let mut rest = groups.into_iter().skip_while(|g| g.group != name);
    let Some(top) = rest.next() else {
        return Err(Error::Usage(format!("no group is called `{name}`; leave it out to see all")));
    };
    let depth = top.depth;
    let below = rest.take_while(|g| g.depth > depth);
    Ok(std::iter::once(top)
        .chain(below)
        .map(|g| Group { depth: g.depth.saturating_sub(depth), ..g })
        .collect())
}

impl Row {
    fn left(&self) -> Option<i128> {
        self.hard.map(|hard| hard.saturating_sub(self.used))
    }

    /// An amount of this row as Kubernetes writes it; of `cash/K` in unit-hours.
    fn text(&self, amount: i128) -> String {
        if self.cash { NanoHours::of(amount).to_string() } else { self.unit.written(amount) }
    }
}

impl From<Row> for RowJson {
    fn from(row: Row) -> Self {
        let exhausted_at = match row.exhaustion {
            Some(Exhaustion::At(at)) => Some(at.to_string()),
            Some(Exhaustion::By(at)) => Some(format!("by {at}")),
            Some(Exhaustion::Never) => Some("never".to_owned()),
            None => None,
        };
        Self {
            unit: row.unit.name(),
            hard: row.hard.map(|hard| row.text(hard)),
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

fn csv(tree: &Tree, out: &mut Out) -> Result<(), Error> {
    out.csv_row([
        "group",
        "parent",
        "state",
        "key",
        "unit",
        "hard",
        "used",
        "self",
        "consumedHours",
        "left",
    ])?;
    for group in &tree.groups {
        for row in &group.keys {
            let json = RowJson::from(row.clone());
            out.csv_row([
                &*group.group,
                group.parent.as_deref().unwrap_or_default(),
                group.state,
                &json.key,
                json.unit,
                json.hard.as_deref().unwrap_or_default(),
                &json.used,
                &json.self_used,
                &json.consumed_hours,
                json.left.as_deref().unwrap_or_default(),
            ])?;
        }
    }
    Ok(())
}

pub(in crate::cli) fn instant(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text).map_err(|e| e.to_string())
}
