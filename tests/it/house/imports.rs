//! Which room may know which. A room is a file `src/NAME.rs` with the folder beside it.
//!
//! The table is the architecture: an arrow that is not in it does not compile into main.

use super::{
    paths::used,
    source::{place, sources},
};
use std::collections::BTreeSet;

/// Room, the rooms that it may use, and why so.
const TABLE: &[(&str, &[&str], &str)] = &[
    ("domain", &[], "the core depends on nothing that changes with the world"),
    ("event_log", &["domain"], "records are domain events"),
    ("projection", &["domain", "event_log"], "folds records into rows"),
    (
        "decider",
        &["domain", "event_log", "projection", "clock"],
        "decides on the ledger, then on the log; who asked over which wire is no matter",
    ),
    ("k8s", &["domain"], "foreign objects become domain values here and nowhere else"),
    (
        "observe",
        &["domain", "event_log", "projection", "decider", "k8s", "clock"],
        "what a cluster shows becomes events, and what it no longer shows ends reservations",
    ),
    (
        "webhook",
        &["domain", "decider", "projection", "k8s", "clock"],
        "what an API server asks, in the decider's words; who runs the decider is given to it",
    ),
    (
        "status",
        &["domain", "projection", "k8s"],
        "what the ledger says of groups, shown where their objects are; it decides nothing",
    ),
    (
        "api",
        &["domain", "event_log", "projection"],
        "what the ledger and the log say, by HTTP; it changes nothing",
    ),
    (
        "notify",
        &["domain", "event_log", "projection"],
        "what the ledger says that a group must hear, told once; it decides nothing",
    ),
    (
        "usage",
        &["domain", "event_log", "projection"],
        "what the log says that groups used, told in exact amounts; it decides nothing",
    ),
    ("import", &["domain"], "rows become events"),
    (
        "demo",
        &["domain", "event_log", "projection", "decider", "k8s", "webhook", "clock"],
        "a simulated cluster, through the real webhook and a real log",
    ),
    ("input", &[], "bytes of files, whatever they mean"),
    ("clock", &["domain"], "the one place that asks for the time"),
    ("telemetry", &[], "messages, whatever they are about"),
    (
        "metrics",
        &["domain", "projection", "decider"],
        "what rooms counted, told; who cannot tell for itself, and what groups use, is read here",
    ),
    ("shutdown", &[], "tasks and their end, whatever they do"),
    (
        "config",
        &["domain", "event_log", "decider", "k8s", "webhook", "telemetry"],
        "what was said becomes what each room needs to know; nothing is opened",
    ),
    (
        "run",
        &[
            "domain",
            "event_log",
            "projection",
            "decider",
            "k8s",
            "observe",
            "webhook",
            "status",
            "api",
            "notify",
            "usage",
            "clock",
            "metrics",
            "shutdown",
            "config",
        ],
        "the composition root of what serves: the one room that knows them all",
    ),
    (
        "cli",
        &[
            "domain",
            "event_log",
            "projection",
            "decider",
            "k8s",
            "observe",
            "webhook",
            "status",
            "api",
            "notify",
            "usage",
            "import",
            "demo",
            "input",
            "clock",
            "telemetry",
            "shutdown",
            "config",
            "run",
        ],
        "puts the rooms together",
    ),
];

/// Where the world comes in or goes out. None knows another: what two need belongs in `domain` or `k8s`.
const EDGES: &[&str] = &["observe", "import", "webhook", "status", "notify", "usage", "api"];

/// What the auditor's program may use. Of `cli` only how to print and how to exit; the clock only for "now".
const REPLAY: &[&str] = &["domain", "event_log", "projection", "clock", "cli"];

#[test]
fn every_import_is_in_the_table() {
    let mut wrong = Vec::new();
    for source in sources("src") {
        if ["main", "lib"].contains(&source.room()) {
            continue;
        }
        let Some((_, allowed, why)) = TABLE.iter().find(|(room, ..)| *room == source.room()) else {
            wrong.push(format!(
                "{}: the room is not in the table; say what it may use",
                source.path
            ));
            continue;
        };
        for (used, at) in used(&source, &source.tokens(), "crate") {
            if used != source.room() && !allowed.contains(&used.as_str()) {
                wrong.push(format!("{at}: {} may not use {used} ({why})", source.room()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Who may ask an API server; no review comes by there.
const ASK_AN_API_SERVER: &[&str] =
    &["src/k8s/lease.rs", "src/k8s/trust.rs", "src/webhook/tls/cluster.rs"];

#[test]
fn on_the_way_of_a_review_nobody_can_ask_an_api_server() {
    let way = ["webhook", "decider", "projection", "event_log", "domain", "k8s"];
    for source in sources("src").iter().filter(|s| way.contains(&s.room())) {
        let may = ASK_AN_API_SERVER.contains(&&*source.path);
        let tokens = source.shipped();
        let has = |words: &[&str]| tokens.iter().any(|token| words.contains(&&*token.text));
        // Whoever asks needs one of these; the derive for the schema of quota objects needs none.
        let asks = has(&["kube"]) && has(&["Client", "Api", "runtime"]);
        assert_eq!(asks, may, "{}: asks an API server, or does no more", source.path);
        if !may {
            let knows =
                tokens.iter().any(|token| ["InCluster", "NamedSecret"].contains(&&*token.text));
            assert!(!knows, "{}: knows what asks an API server", source.path);
        }
    }
}

#[test]
fn edge_rooms_do_not_know_each_other() {
    for (room, allowed, _) in TABLE.iter().filter(|(room, ..)| EDGES.contains(room)) {
        let edges: Vec<_> = allowed.iter().filter(|a| EDGES.contains(a)).collect();
        assert!(edges.is_empty(), "{room} knows {edges:?}; move what both need to domain or k8s");
    }
}

#[test]
fn the_table_has_no_circle_and_no_dead_arrow() {
    let order: Vec<_> = TABLE.iter().map(|(room, ..)| *room).collect();
    let sources = sources("src");
    for (room, allowed, _) in TABLE {
        let mut reached: BTreeSet<&str> = allowed.iter().copied().collect();
        for _ in &order {
            let next = TABLE.iter().filter(|(r, ..)| reached.contains(r)).flat_map(|(_, a, _)| *a);
            reached = reached.iter().copied().chain(next.copied().collect::<Vec<_>>()).collect();
        }
        assert!(!reached.contains(room), "{room} uses itself by way of others");
        let really: BTreeSet<String> = sources
            .iter()
            .filter(|s| s.room() == *room)
            .flat_map(|s| used(s, &s.tokens(), "crate"))
            .map(|(used, _)| used)
            .collect();
        // The command line may use every room, whether it does today or not.
        let dead: Vec<_> = allowed.iter().filter(|a| !really.contains(**a)).collect();
        let dead = if *room == "cli" { Vec::new() } else { dead };
        assert!(dead.is_empty(), "{room} uses {dead:?} no more; take it out of the table");
    }
}

#[test]
fn the_auditor_uses_the_core_the_log_and_the_folds() {
    for source in sources("replay/src") {
        for (used, at) in used(&source, &source.tokens(), "bizrq") {
            assert!(REPLAY.contains(&used.as_str()), "{at}: replay may not use {used}");
        }
        for token in source.tokens() {
            let foreign = ["kube", "k8s_openapi", "axum"].contains(&token.text.as_str());
            assert!(!foreign, "{}: replay knows {}", place(&source, &token), token.text);
        }
    }
}

#[test]
fn nobody_climbs_out_of_a_room() {
    for source in sources("src") {
        // `src/cli/quota/tree.rs` is `cli::quota::tree`: three steps up is the crate.
        let depth = source.path.matches('/').count();
        let tokens = source.shipped();
        let mut steps = 0;
        for pair in tokens.windows(2) {
            steps = if pair[0].text == "super" && pair[1].text == "::" {
                steps + 1
            } else if pair[0].text == "::" && pair[1].text == "super" {
                steps
            } else {
                0
            };
            let at = place(&source, &pair[0]);
            assert!(steps < depth, "{at}: write `crate::`, so that the table sees it");
        }
    }
}
