//! Who may know JSON, and who may ask for the time. Every name here has its reason; nothing else gets in.

use super::source::{place, sources, starts};

/// File (or folder, with `/`), and why it knows JSON. The leaves' bytes are the codec's alone.
const JSON: &[(&str, &str)] = &[
    ("src/event_log/codec", "the lines of a log"),
    ("src/event_log/schema.rs", "describes the lines of a log"),
    ("src/event_log/jetstream/append.rs", "what the server answers to an append"),
    ("src/event_log/jetstream/stream.rs", "settings of streams that the client does not know"),
    ("src/event_log/file/roots.rs", "its own side file, which is rebuilt when it is lost"),
    ("src/event_log/file/control", "what a command asks of who holds the lock, and is told"),
    ("src/event_log/file/rollover.rs", "its own side file: where a log was ended"),
    ("src/event_log/archive.rs", "the manifest beside an archive's segments"),
    ("src/decider/wire.rs", "what replicas say to each other; nothing that outlives an answer"),
    ("src/demo", "the content of a decision as bytes, to be hashed into its id"),
    ("src/import/importer.rs", "a row's content as bytes, to be hashed into an id"),
    ("src/webhook/manifest.rs", "manifests, as somebody would apply them"),
    ("src/webhook/re", "what an API server sends, and is sent"),
    ("src/k8s/context.rs", "objects as the API server writes them"),
    ("src/k8s/trust.rs", "patches of webhook configurations"),
    ("src/webhook/tls/cluster.rs", "its own key of a Secret"),
    ("src/webhook/configuration.rs", "objects for an API server, as it reads them"),
    ("src/status.rs", "patches of statuses"),
    ("src/notify/", "notices, as whoever subscribes reads them, and its own side file"),
    ("src/run/told.rs", "the content of a note as bytes, to be hashed into its id"),
    ("src/usage/", "usage events, as whoever subscribes reads them"),
    ("src/config/file.rs", "values of settings, whatever they are, on their way to a setting"),
    ("src/observe/recording/", "what kubectl prints"),
    ("src/observe/objects.rs", "objects as the API server writes them"),
    ("src/observe/server.rs", "what an API server says when it refuses"),
    ("src/observe/watch.rs", "lists, and the lines of watches"),
    ("src/api/openapi.rs", "the description of the API"),
    ("src/api/events/", "events, as whoever subscribes reads them"),
    ("src/cli/", "what programs read of us"),
];

/// File, what it asks, why.
const CLOCKS: &[(&str, &str, &str)] = &[
    ("src/clock.rs", "Utc", "the one place that asks what time it is"),
    ("src/decider.rs", "Instant", "until when whoever decides is waited for"),
    ("src/decider/committer.rs", "Instant", "who waited too long, and how long an append took"),
    ("src/decider/draws.rs", "Instant", "a pod that was let through comes soon or never"),
    ("src/decider/forwarder.rs", "Instant", "when a letter leaves, and how far the log is"),
    ("src/decider/role.rs", "Instant", "how long nothing was heard from the log"),
    (
        "src/webhook/server.rs",
        "Instant",
        "when a review began, which is what its deadline counts from",
    ),
    ("src/webhook/server/connections.rs", "Instant", "how long a connection has been silent"),
    (
        "src/k8s/lease.rs",
        "Instant",
        "how long a lease stood still; no two hosts' clocks are compared",
    ),
    ("src/api/access/cluster.rs", "Instant", "how long an answer about a token holds"),
    ("src/api/events.rs", "Instant", "how long a turn has lasted"),
    ("src/api/metrics.rs", "Instant", "how long an answer took"),
    ("src/api/state.rs", "Instant", "how long records are read for a question"),
    ("src/run/cluster.rs", "Instant", "how long reviews have waited for their cluster"),
    ("src/status.rs", "Instant", "when objects were listed, and how long is written"),
    ("src/status/mirrors.rs", "Instant", "when mirrors were compared"),
    ("src/shutdown.rs", "Instant", "how long a stage may take"),
    ("src/observe/sweeper.rs", "Instant", "for how long a promise was seen to be open"),
    ("src/observe/watch.rs", "Instant", "whether a watch ended at once"),
    ("src/observe/watching.rs", "Instant", "how long a kind has had to be listed"),
    ("src/usage/teller.rs", "Instant", "how long what ended has waited to be told"),
    ("src/projection/runner.rs", "Instant", "how long a batch has waited; never in a row"),
    ("src/event_log/jetstream/append.rs", "Instant", "deadlines"),
    (
        "src/event_log/jetstream/reader.rs",
        "Instant",
        "deadlines, and how long a consumer was silent",
    ),
    ("src/event_log/jetstream/state.rs", "Instant", "how long a new leader may lag"),
    ("src/event_log/jetstream/rollover.rs", "Instant", "how long a copy may be behind"),
];

#[test]
fn json_is_known_where_the_list_says() {
    let mut wrong = Vec::new();
    for source in sources("src") {
        for token in source.shipped().iter().filter(|t| t.text == "serde_json") {
            if !JSON.iter().any(|(path, _)| source.path.starts_with(path)) {
                wrong.push(format!("{}: JSON is the codec's", place(&source, token)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (path, why) in JSON {
        let used = sources("src")
            .iter()
            .filter(|s| s.path.starts_with(path))
            .any(|s| s.shipped().iter().any(|t| t.text == "serde_json"));
        assert!(used, "{path} knows no JSON any more ({why}); take it out of the list");
    }
}

#[test]
fn the_time_is_asked_for_where_the_list_says() {
    for source in sources("src").into_iter().chain(sources("replay/src")) {
        let tokens = source.shipped();
        for at in 0..tokens.len() {
            for clock in ["Utc", "SystemTime", "Instant", "Local"] {
                let asked = starts(&tokens[at..], &format!("{clock} :: now"));
                let listed = CLOCKS.iter().any(|(p, c, _)| *p == source.path && *c == clock);
                let at = place(&source, &tokens[at]);
                assert!(!asked || listed, "{at}: {clock}::now; use crate::clock, or take a time");
            }
        }
    }
    for (path, clock, why) in CLOCKS {
        let asks = sources("src").iter().filter(|s| s.path == *path).any(|s| {
            let tokens = s.shipped();
            (0..tokens.len()).any(|at| starts(&tokens[at..], &format!("{clock} :: now")))
        });
        assert!(asks, "{path} asks {clock} no more ({why}); take it out of the list");
    }
}
