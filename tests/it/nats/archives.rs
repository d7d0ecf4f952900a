//! A stream is exported to a folder and comes back from it, on both versions: the same positions, the same root.

use super::server::{Server, Version};
use crate::log_cli::{Said, bizrq, info};
use bizrq::{
    domain::event::Position,
    event_log::{
        EventLog, NewEvent, Reader,
        conformance::{decision, fact},
        jetstream::{JetStreamLog, Options},
    },
};
use tempfile::TempDir;

/// Twice the same ids, apart by less than any duplicate window.
fn events() -> Vec<NewEvent> {
    let event = |n: u64| if n.is_multiple_of(10) { decision(n) } else { fact(n) };
    (1..=3000).map(|n| event(n.min(2900))).collect()
}

async fn open(server: &Server) -> JetStreamLog {
    JetStreamLog::open(Options::new(&server.url())).await.unwrap()
}

async fn log(what: &'static str, log: &str, dir: &str) -> Said {
    let (log, dir) = (log.to_owned(), dir.to_owned());
    let run = move || bizrq(&["log", what, "-o", "json", "--log", &log, &dir]);
    tokio::task::spawn_blocking(run).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_goes_to_a_folder_and_back_into_another_server() {
    for version in Version::ALL {
        let (from, to, dir) =
            (Server::start(version), Server::start(version), TempDir::new().unwrap());
        let path = |name: &str| dir.path().join(name).display().to_string();
        let (archive, folder) = (path("archive"), path("folder"));
        // A file log keeps both of two records of one id; so does what it is copied to.
        let file = bizrq::event_log::AnyLog::open(&folder).await.unwrap();
        file.append(events()).await.unwrap();
        file.close().unwrap();
        let imported = log("import", &from.url(), &folder).await.report();
        assert_eq!((&imported["copied"], &imported["position"]), (&3000.into(), &3000.into()));
        let root = &info(&folder)["root"];
        let exported = log("export", &from.url(), &archive).await.report();
        assert_eq!((&exported["root"], &exported["copied"]), (root, &3000.into()));

        // An import that was interrupted goes on.
        let half = open(&to).await;
        half.append_at(1, &events()[..1234]).await.unwrap();
        let back = log("import", &to.url(), &archive).await.report();
        assert_eq!((&back["copied"], &back["root"]), (&1766.into(), root));
        assert_eq!(log("import", &to.url(), &archive).await.report()["copied"], 0);
        let head = half.head().await.unwrap();
        assert_eq!((head.position, head.last_decision), (3000, 2890 + 110));
        assert_eq!(half.append(vec![fact(5000)]).await.unwrap().first, 3001);
        let longer = log("import", &to.url(), &archive).await.report();
        assert_eq!((&longer["copied"], &longer["position"]), (&0.into(), &3001.into()));

        // Compressed, and with the stream that it was taken from, it is the same history.
        let packed = path("packed");
        assert_eq!(log("archive", &from.url(), &packed).await.report()["root"], *root);
        let both = format!("{packed},{}", from.url());
        assert_eq!(&info(&both)["root"], root);
        let third = Server::start(version);
        assert_eq!(log("import", &third.url(), &packed).await.report()["root"], *root);
        assert_eq!(&info(&third.url())["root"], root);

        // What holds something else is left alone.
        let other = Server::start(version);
        open(&other).await.append(vec![fact(7)]).await.unwrap();
        log("import", &other.url(), &archive)
            .await
            .refused(4, "the first that differs is at position 1:");
        log("export", &other.url(), &archive).await.refused(4, "it is no beginning of that log");
        let error = open(&other).await.append_at(5, &events()[..1]).await.unwrap_err();
        assert!(error.to_string().contains("the log ends at position 1"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolled_stream_is_archived_whole_and_its_continuation_can_stand_alone() {
    for version in Version::ALL {
        let (server, to, dir) =
            (Server::start(version), Server::start(version), TempDir::new().unwrap());
        let archive = dir.path().join("archive").display().to_string();
        let stream = open(&server).await;
        stream.append(events()[..100].to_vec()).await.unwrap();
        let old = dir.path().join("old").display().to_string();
        log("export", &server.url(), &old).await.report();
        log("export", &server.url(), &archive).await.report();
        let url = server.url();
        let roll =
            move || bizrq(&["log", "roll", "-o", "json", "--log", &url, "--to", "NEXT"]).report();
        tokio::task::spawn_blocking(roll).await.unwrap();
        stream.append(events()[100..200].to_vec()).await.unwrap();
        let root = &info(&server.url())["root"];
        let whole = log("export", &server.url(), &archive).await.report();
        assert_eq!(
            (&whole["base"], &whole["position"], &whole["root"]),
            (&0.into(), &201.into(), root)
        );

        // The old stream is archived and goes; the next one is a log that continues it.
        let operator = async_nats::jetstream::new(async_nats::connect(server.url()).await.unwrap());
        operator.delete_stream("BIZRQ").await.unwrap();
        let part = dir.path().join("part").display().to_string();
        let report = log("export", &server.url(), &part).await.report();
        assert_eq!(
            (&report["base"], &report["copied"], &report["root"]),
            (&100.into(), &101.into(), root)
        );
        // Archive and stream are one history.
        let both = format!("{old},{}", server.url());
        let folded = tokio::task::spawn_blocking(move || {
            let alone = both.rsplit(',').next().unwrap();
            bizrq(&["meter", "--log", alone])
                .refused(4, "continues a log that ends at position 100");
            bizrq(&["meter", "-o", "json", "--log", &both]).report()
        });
        assert_eq!(&folded.await.unwrap()["root"], root);
        let back = log("import", &to.url(), &part).await.report();
        assert_eq!(
            (&back["base"], &back["position"], &back["root"]),
            (&100.into(), &201.into(), root)
        );
        assert_eq!(log("import", &to.url(), &part).await.report()["copied"], 0);
        let restored = open(&to).await;
        assert_eq!(first_of(&restored, 101).await, 101);
        assert_eq!(restored.append(vec![fact(9000)]).await.unwrap().first, 202);
        // The archive takes what is new, though the stream before is gone.
        assert_eq!(log("export", &to.url(), &archive).await.report()["copied"], 1);
    }
}

async fn first_of(log: &JetStreamLog, from: Position) -> Position {
    log.read(from).unwrap().next().await.unwrap().unwrap().first()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn archives_that_overlap_follow_each_other_and_what_differs_is_named() {
    for version in Version::ALL {
        let (server, dir) = (Server::start(version), TempDir::new().unwrap());
        let path = |name: &str| dir.path().join(name).display().to_string();
        let (short, whole, part) = (path("short"), path("whole"), path("part"));
        let stream = open(&server).await;
        stream.append(events()[..100].to_vec()).await.unwrap();
        log("export", &server.url(), &short).await.report();
        let url = server.url();
        let roll =
            move || bizrq(&["log", "roll", "-o", "json", "--log", &url, "--to", "NEXT"]).report();
        tokio::task::spawn_blocking(roll).await.unwrap();
        stream.append(events()[100..200].to_vec()).await.unwrap();
        let root = log("export", &server.url(), &whole).await.report()["root"].clone();
        let operator = async_nats::jetstream::new(async_nats::connect(server.url()).await.unwrap());
        operator.delete_stream("BIZRQ").await.unwrap();
        // From 101 on.
        log("export", &server.url(), &part).await.report();

        // One behind the other; then one that has what is there and more; then one that is all there.
        let to = Server::start(version);
        log("import", &to.url(), &short).await.report();
        let filled = log("import", &to.url(), &part).await.report();
        assert_eq!((&filled["copied"], &filled["root"]), (&101.into(), &root), "{version:?}");
        let to = Server::start(version);
        open(&to).await.append_at(1, &events()[..60]).await.unwrap();
        log("import", &to.url(), &part).await.refused(4, "61 to 100 are missing between them");
        let filled = log("import", &to.url(), &whole).await.report();
        assert_eq!((&filled["copied"], &filled["root"]), (&141.into(), &root), "{version:?}");
        for archive in [&short, &part, &whole] {
            assert_eq!(log("import", &to.url(), archive).await.report()["copied"], 0);
        }
        // A log that begins later takes what it has not.
        let to = Server::start(version);
        log("import", &to.url(), &part).await.report();
        assert_eq!(log("import", &to.url(), &whole).await.report()["copied"], 0);
        log("import", &to.url(), &short).await.refused(4, "it begins at position 101");

        // Another record stands in the middle of what both hold.
        let to = Server::start(version);
        let mut other = events()[..100].to_vec();
        other[70] = fact(9999);
        open(&to).await.append_at(1, &other).await.unwrap();
        for archive in [&short, &whole] {
            let said = log("import", &to.url(), archive).await;
            said.refused(4, "the first that differs is at position 71:");
        }
        log("import", &to.url(), &part).await.refused(4, "at position 100 it has root");
        assert_eq!(open(&to).await.head().await.unwrap().position, 100, "nothing got in");
    }
}
