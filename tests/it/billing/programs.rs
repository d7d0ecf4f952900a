//! Bills of random histories as the auditor's program makes them, wherever the log is kept: in a folder, in an archive,
//! in an archive before the log that goes on, in a log that was rolled over, in one that was restored, and in a stream.
//!
//! ```text
//!                 ┌─ file log ──▶ archive ──▶ restored ──▶ stream       one history, so the same bill byte by byte
//!  world ─ told ──┤
//!                 └─ rolled: first ─▶ next      archive of both         another history: one record more
//! ```

mod desk;

use super::{Totals, added, closed_world, closings, fold, ledger, terms, two, without_nothing};
use crate::{
    histories::worlds,
    nats::server::{Server, Version},
    oracle::{
        Oracle,
        fold::instant,
        walk::Basis,
        world::{Class, Dice, World},
    },
    shared,
};
use bizrq::domain::{
    billing::{Billing, Correction, Line, Status, Terms},
    history::Unit,
};
use desk::{Desk, Told, asked, json, replay};
use rand::{RngExt, seq::IndexedRandom};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What a run met, and how often.
#[derive(Default)]
struct Met(BTreeMap<String, usize>);

impl Met {
    fn count(&mut self, class: impl Into<String>) {
        *self.0.entry(class.into()).or_default() += 1;
    }

    fn world(&mut self, world: &World) {
        world.classes.iter().for_each(|class| self.count(format!("{class:?}")));
    }

    /// Fails if any of these was never met, or a class of worlds was not.
    fn assert_all(&self, classes: &[&str]) {
        println!("{:?}", self.0);
        let worlds = Class::ALL.map(|class| format!("{class:?}"));
        let all = worlds.iter().map(String::as_str).chain(classes.iter().copied());
        let missing: Vec<_> = all.filter(|class| !self.0.contains_key(*class)).collect();
        assert!(missing.is_empty(), "never met: {missing:?} in {:?}", self.0);
    }
}

/// What is asked of an invoice, for the program and for the fold in this process.
struct Question {
    args: Vec<String>,
    terms: Terms,
    basis: Basis,
    from: i64,
    to: i64,
}

impl Question {
    fn new(basis: Basis, from: i64, to: i64) -> Self {
        let clock = match basis {
            Basis::Held => "held",
            Basis::Ran => "ran",
        };
        let (since, until) = (instant(from).to_string(), instant(to).to_string());
        let args = ["invoice", "--from", &since, "--to", &until, "--basis", clock];
        let args = args.map(str::to_owned).to_vec();
        Self { args, terms: terms(basis, from, to), basis, from, to }
    }

    /// Any period, basis and grouping.
    fn any(world: &World, dice: &mut Dice, met: &mut Met) -> Self {
        let (from, to) = two(world, dice);
        let basis = if dice.random_bool(0.8) { Basis::Held } else { Basis::Ran };
        let mut question = Self::new(basis, from, to);
        met.count(format!("{basis:?}"));
        // Lines by the hour of months are no test that a person waits for.
        let every = [(Unit::Hour, "hour"), (Unit::Day, "day")];
        if let Some((unit, name)) = every.choose(dice).filter(|_| dice.random_bool(0.5)) {
            question.terms.every = Some(*unit);
            question.args.extend(["--by".to_owned(), (*name).to_owned()]);
            met.count(format!("by {name}"));
        }
        if dice.random_bool(0.3) {
            question.terms.workloads = false;
            question.args.push("--summary".to_owned());
            met.count("summary");
        }
        question
    }

    fn with(&self, more: &[&str]) -> Vec<String> {
        self.args.iter().cloned().chain(more.iter().map(|&arg| arg.to_owned())).collect()
    }
}

/// A line as text, for who compares.
fn said(line: &Line<'_>) -> String {
    let workload = &line.workload;
    let cluster = workload.source.strip_prefix("/clusters/").unwrap_or(workload.source);
    let named = match workload.kind {
        "" => String::new(),
        kind => format!("{kind}/{}", workload.name),
    };
    let status = match line.status {
        Status::Provisional => "provisional",
        Status::Final => "final",
        Status::Corrected => "corrected",
    };
    let positions = line.correction.map(Correction::positions).unwrap_or_default();
    format!(
        "{}|{}|{}|{cluster}|{}|{named}|{}|{}|{}|{status}|{positions:?}",
        line.group,
        line.key,
        line.model,
        workload.namespace,
        line.period.from,
        line.period.to,
        line.exact
    )
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

fn exact(line: &Value) -> i128 {
    text(line, "exact").parse().unwrap()
}

fn lines(invoice: &Value) -> &[Value] {
    invoice["lines"].as_array().unwrap()
}

/// The same of a line of an invoice.
fn printed(line: &Value) -> String {
    let of = ["group", "key", "model", "cluster", "namespace", "workload", "from", "to", "exact"];
    let of = of.map(|name| text(line, name));
    let none = Vec::new();
    let positions = line["correction"]["positions"].as_array().unwrap_or(&none);
    let positions: Vec<u64> = positions.iter().map(|p| p.as_u64().unwrap()).collect();
    format!("{}|{}|{positions:?}", of.join("|"), text(line, "status"))
}

/// Sums by group and key, as the ledger names keys, of the lines that a period says.
fn sums<'v>(lines: impl IntoIterator<Item = &'v Value>) -> Totals {
    let mut totals = Totals::new();
    for line in lines {
        let (key, model) = (text(line, "key"), text(line, "model"));
        let mut keys = vec![key.to_owned()];
        keys.extend((!model.is_empty()).then(|| format!("{key}.{model}")));
        for key in keys {
            *totals.entry((text(line, "group").to_owned(), key)).or_default() += exact(line);
        }
    }
    without_nothing(totals)
}

/// What the oracle says of `[from, to)`.
fn walked(oracle: &Oracle, basis: Basis, from: i64, to: i64) -> Totals {
    let tally = oracle.tally(basis, from, to).into_iter();
    without_nothing(tally.map(|(row, line)| (row, line.exact)).collect())
}

/// Every place says the same as the first, byte by byte, and says it again.
fn same_everywhere(places: &[String], args: &[String], what: &str) -> Value {
    let (first, others) = places.split_first().unwrap();
    let once = asked(first, args);
    assert_eq!(asked(first, args), once, "{what}: made twice: {args:?}");
    for place in others {
        assert_eq!(asked(place, args), once, "{what}: {place}: {args:?}");
    }
    serde_json::from_str(&once).unwrap_or_default()
}

/// Where the clock of a line stands.
fn millis(line: &Value, name: &str) -> i64 {
    bizrq::domain::time::Timestamp::parse(text(line, name)).unwrap().millis()
}

/// Invoices of a history without closings: each slice of each is what the oracle says of it.
fn bill_any(world: &World, places: &[String], met: &mut Met) -> Value {
    let mut dice = world.dice();
    let oracle = Oracle::read(world.scale.grain, &world.events);
    let question = Question::any(world, &mut dice, met);
    let what = format!("world {}", world.seed);
    let invoice = same_everywhere(places, &question.with(&["-o", "json"]), &what);
    let Question { basis, from, to, .. } = question;
    assert_eq!(sums(lines(&invoice)), walked(&oracle, basis, from, to), "{what}");
    assert_eq!(sums(lines(&invoice)), ledger(basis, from, to, &world.events), "{what}");
    let mut slices: BTreeMap<(i64, i64), Vec<&Value>> = BTreeMap::new();
    for line in lines(&invoice) {
        slices.entry((millis(line, "from"), millis(line, "to"))).or_default().push(line);
        met.count(text(line, "status"));
    }
    for ((from, to), lines) in slices {
        assert_eq!(sums(lines), walked(&oracle, basis, from, to), "{what}: {from} to {to}");
    }
    for output in ["csv", "table"] {
        same_everywhere(places, &question.with(&["-o", output]), &what);
    }
    // As known at a position, wherever segments and archives end.
    let known = dice.random_range(1..=world.events.len());
    let at = question.with(&["-o", "json", "--position", &known.to_string()]);
    let then = same_everywhere(places, &at, &what);
    assert_eq!(sums(lines(&then)), ledger(basis, from, to, &world.events[..known]), "{what}");
    by_group(&question, &invoice, places, &what, met);
    invoice
}

/// Of one group, and of a group with all that is below it.
fn by_group(question: &Question, all: &Value, places: &[String], what: &str, met: &mut Met) {
    let groups: BTreeSet<&str> = lines(all).iter().map(|line| text(line, "group")).collect();
    let numberless = |invoice: &Value, groups: &BTreeSet<&str>| {
        let of = |line: &&Value| groups.contains(text(line, "group"));
        lines(invoice).iter().filter(of).map(printed).collect::<Vec<_>>()
    };
    for group in groups.iter().filter(|group| !group.is_empty()) {
        let args = question.with(&["-o", "json", "--group", group]);
        let one = same_everywhere(&places[..1], &args, what);
        assert_eq!(numberless(&one, &groups), numberless(all, &[*group].into()), "{what} {group}");
        met.count("one group");
    }
    // `root` is above all groups that have a quota object and none of the others.
    let args = question.with(&["-o", "json", "--group", "root", "--subtree"]);
    let below = same_everywhere(places, &args, what);
    let members: BTreeSet<&str> = lines(&below).iter().map(|line| text(line, "group")).collect();
    assert_eq!(numberless(&below, &members), numberless(all, &members), "{what}: subtree");
    if members.len() > 1 && members.len() < groups.len() {
        met.count("subtree of several");
    }
}

/// Costs are amounts times prices, and lines end where a price does.
fn priced(world: &World, desk: &Desk, places: &[String], met: &mut Met) {
    let mut dice = world.dice();
    let (from, to) = two(world, &mut dice);
    let cut = instant(dice.random_range(from..to));
    let file = desk.write(
        "prices.yaml",
        &format!(
            "currency: EUR\ndigits: 6\nprices:\n- {{key: limits.cpu, to: {cut}, price: \"2\"}}\n\
             - {{key: limits.cpu, from: {cut}, price: \"3\"}}\n\
             - {{key: limits.nvidia.com/gpu, price: \"5\"}}\n\
             - {{key: limits.nvidia.com/gpu, model: A30, price: \"7\"}}\n"
        ),
    );
    let question = Question::new(Basis::Held, from, to);
    let what = format!("world {}", world.seed);
    let args = question.with(&["-o", "json", "--prices", &file]);
    let invoice = same_everywhere(places, &args, &what);
    assert_eq!(sums(lines(&invoice)), ledger(Basis::Held, from, to, &world.events), "{what}");
    let mut cost = 0;
    for line in lines(&invoice) {
        let price = match (text(line, "key"), text(line, "model")) {
            ("limits.cpu", _) if millis(line, "to") <= cut.millis() => 2,
            ("limits.cpu", _) => {
                assert!(millis(line, "from") >= cut.millis(), "{what}: {line} has two prices");
                3
            }
            ("limits.nvidia.com/gpu", "A30") => 7,
            ("limits.nvidia.com/gpu", _) => 5,
            _ => continue,
        };
        met.count(format!("price {price}"));
        let minor: i128 = text(line, "cost").replace('.', "").parse().unwrap();
        let off = minor * 3_600_000_000 - exact(line) * price * 1_000_000;
        assert!(off.abs() * 2 <= 3_600_000_000, "{what}: {line}");
        cost += minor;
    }
    let total: i128 = text(&invoice, "cost").replace('.', "").parse().unwrap_or_default();
    assert_eq!(total, cost, "{what}");
}

/// What else the auditor asks says the same of every place: without the place's own name.
fn asked_everything(places: &[String], invoice: &Value, desk: &Desk, dice: &mut Dice) {
    let position = invoice["position"].as_u64().unwrap();
    let to = text(invoice, "to").to_owned();
    let number = |n: u64| n.to_string();
    let (a, b) = (dice.random_range(1..=position), position);
    let mut questions = vec![
        vec!["verify".to_owned()],
        vec!["state".to_owned(), "--position".to_owned(), number(a)],
        vec!["diff".to_owned(), number(a), number(b)],
        vec!["consistency".to_owned(), text(invoice, "root").to_owned()],
    ];
    let line = lines(invoice).choose(dice);
    if let Some(line) = line {
        let of = ["--group", text(line, "group"), "--key", text(line, "key"), "--to", &to];
        questions.push(["explain"].iter().chain(&of).map(|&a| a.to_owned()).collect());
    }
    for mut question in questions {
        question.extend(["-o", "json"].map(str::to_owned));
        let once = json(&places[0], &question);
        for place in &places[1..] {
            assert_eq!(json(place, &question), once, "{place}: {question:?}");
        }
    }
    let Some(line) = line else { return };
    let file = desk.write("invoice.json", &invoice.to_string());
    let number = line["line"].to_string();
    let prove = ["prove", "--invoice", &file, "--line", &number].map(str::to_owned);
    let proof = asked(&places[0], &prove);
    for place in &places[1..] {
        assert_eq!(asked(place, &prove), proof, "{place}: line {number}");
    }
    let proof = desk.write("proof.json", &proof);
    let checked = replay(&["check-proof", "--invoice", &file, "--proof", &proof]);
    assert_eq!(checked.code, 0, "line {number}: {}{}", checked.stdout, checked.stderr);
}

#[test]
fn a_log_its_archive_both_together_and_what_was_restored_give_one_bill_and_it_is_the_oracle_s() {
    if shared::replay("billing::programs::places").is_none() {
        return;
    }
    let mut met = Met::default();
    for world in worlds(37, 16) {
        met.world(&world);
        let desk = Desk::new();
        let told = Told::of(&world.events);
        let live = desk.log("live", &told);
        let (whole, restored) = (desk.archive("whole", &live, None), desk.path("restored"));
        let mut places = vec![live.clone(), whole.clone(), desk.import(&restored, &whole)];
        let mut dice = world.dice();
        let until = world.events.choose(&mut dice).unwrap().recorded_at;
        if let Some(part) = desk.try_archive("part", &live, until) {
            places.push(format!("{part},{live}"));
            met.count("an archive before its log");
        }
        let invoice = bill_any(&world, &places, &mut met);
        priced(&world, &desk, &places, &mut met);
        if world.seed % 3 == 0 {
            asked_everything(&places, &invoice, &desk, &mut dice);
        }
    }
    met.assert_all(&[
        "Held",
        "Ran",
        "by hour",
        "by day",
        "summary",
        "provisional",
        "final",
        "one group",
        "subtree of several",
        "price 2",
        "price 3",
        "price 5",
        "price 7",
        "an archive before its log",
    ]);
}

/// Invoices of the periods of a world with closings, as the fold in this process makes them of the very records that
/// the log holds; together they are the ledger's number and the oracle's.
fn bill_closed(
    world: &World,
    told: &Told,
    places: &[String],
    ends: [i64; 4],
    met: &mut Met,
) -> Value {
    let what = format!("world {}", world.seed);
    let mut parts = Vec::new();
    let mut last = Value::Null;
    for ends in ends.windows(2) {
        let question = Question::new(Basis::Held, ends[0], ends[1]);
        let invoice = same_everywhere(places, &question.with(&["-o", "json"]), &what);
        let billing: Billing = fold(&question.terms, &told.events);
        let bill = billing.bill(|_, _, _| None).unwrap();
        let expected: Vec<_> = bill.lines().map(|line| said(&line)).collect();
        let found: Vec<_> = lines(&invoice).iter().map(printed).collect();
        assert_eq!(found, expected, "{what}: {ends:?}");
        for line in lines(&invoice) {
            met.count(text(line, "status"));
            let by_hand = line["correction"]["by"].as_str().is_some_and(|by| !by.is_empty());
            if text(line, "status") == "corrected" {
                met.count(if by_hand { "said by somebody" } else { "learned late" });
            }
        }
        if let Some(closing) = billing.closing() {
            assert_eq!(invoice["closed"], true, "{what}");
            assert_eq!(invoice["position"], closing.position, "{what}");
            assert_eq!(text(&invoice, "root"), told.root(closing.position).to_string(), "{what}");
            // Whatever came later, it is the invoice that was made when the period was closed.
            let at = question.with(&["-o", "json", "--position", &closing.at.to_string()]);
            assert_eq!(same_everywhere(&places[..1], &at, &what), invoice, "{what}");
            met.count(if closing.position + 1 == closing.at {
                "closed"
            } else {
                "closed as known"
            });
        }
        parts.push(sums(lines(&invoice)));
        last = invoice;
    }
    let (from, to) = (ends[0], ends[3]);
    let all = added(parts);
    assert_eq!(all, ledger(Basis::Held, from, to, &told.events), "{what}");
    let oracle = Oracle::read(world.scale.grain, &world.events);
    let by_hand = added(told.corrections(from, to));
    assert_eq!(all, added([walked(&oracle, Basis::Held, from, to), by_hand]), "{what}");
    last
}

#[test]
fn closed_periods_survive_roll_over_archive_and_restore_and_all_bills_are_the_ledger_s_number() {
    if shared::replay("billing::programs::closed").is_none() {
        return;
    }
    let mut met = Met::default();
    for world in worlds(38, 16) {
        met.world(&world);
        let (events, ends) = closed_world(&world);
        let desk = Desk::new();
        let mut dice = world.dice();
        let cut = dice.random_range(1..events.len());
        let (told, first, next) = desk.rolled(&events, cut);
        assert_eq!(closings(&told.events).len(), 2, "both are closed behind the roll-over, too");
        met.count(match closings(&told.events).iter().filter(|c| c.at as usize > cut).count() {
            0 => "rolled after all closings",
            1 => "rolled between closings",
            _ => "rolled before all closings",
        });
        let old = desk.archive("old", &first, None);
        let both = desk.archive("both", &first, None);
        assert_eq!(desk.archive("both", &next, None), both, "it goes on with the next log");
        let restored = desk.import(&desk.path("restored"), &both);
        let places =
            [format!("{first},{next}"), format!("{old},{next}"), both, restored].map(String::from);
        let invoice = bill_closed(&world, &told, &places, ends, &mut met);
        if world.seed % 3 == 0 {
            asked_everything(&places, &invoice, &desk, &mut dice);
        }
    }
    met.assert_all(&[
        "provisional",
        "final",
        "corrected",
        "learned late",
        "said by somebody",
        "closed",
        "closed as known",
        "rolled after all closings",
        "rolled between closings",
        "rolled before all closings",
    ]);
}

#[test]
fn a_stream_is_billed_like_a_folder_and_a_rolled_one_like_one_history() {
    if shared::replay("billing::programs::streams").is_none() {
        return;
    }
    let mut met = Met::default();
    for version in Version::ALL {
        for world in worlds(39, 2) {
            let desk = Desk::new();
            let live = desk.log("live", &Told::of(&world.events));
            let whole = desk.archive("whole", &live, None);
            let server = Server::start(version);
            let stream = desk.import(&server.url(), &whole);
            let mut places = vec![live.clone(), stream.clone(), format!("{whole},{stream}")];
            let from_stream = desk.archive("again", &stream, None);
            places.push(from_stream);
            let invoice = bill_any(&world, &places, &mut met);
            priced(&world, &desk, &places, &mut met);
            asked_everything(&places, &invoice, &desk, &mut world.dice());

            let (events, ends) = closed_world(&world);
            let cut = world.dice().random_range(1..events.len());
            let rolled = Server::start(version);
            let told = desk.rolled_stream(&rolled.url(), &events, cut);
            let both = desk.archive("both", &rolled.url(), None);
            let restored = desk.import(&desk.path("restored"), &both);
            let places = [rolled.url(), both, restored];
            let invoice = bill_closed(&world, &told, &places, ends, &mut met);
            asked_everything(&places, &invoice, &desk, &mut world.dice());
        }
    }
    let statuses = ["provisional", "final", "corrected"];
    assert!(statuses.iter().all(|status| met.0.contains_key(*status)), "{:?}", met.0);
}
