//! A folder that somebody holds, and who asks them to append: commands, and others.

use super::*;
use crate::domain::{
    event::{
        ClusterBound, ClusterRetired, Data, Event, EventId, PeriodClosed, PodRan, UsageAdjusted,
    },
    time::Timestamp,
};
use crate::event_log::file::Options;
use std::{fs, os::unix::fs::PermissionsExt, sync::Arc};
use tempfile::TempDir;
use tokio::{sync::oneshot, task::JoinHandle};

/// A folder, its log, and the task that serves the socket.
struct Held {
    dir: TempDir,
    log: Arc<FileLog>,
    end: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Held {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = Arc::new(FileLog::open(dir.path(), &Options::default()).unwrap());
        log.append(vec![bound("first")]).await.unwrap();
        let control = Control::open(dir.path()).unwrap().with_time(Duration::from_millis(300));
        let control = control.with_own(vec!["/clusters/east".to_owned()]);
        let (end, ended) = oneshot::channel();
        let served = Arc::clone(&log);
        let serving = tokio::spawn(async move {
            let ended = async {
                let _ = ended.await;
            };
            control.serve(&*served, ended, |_| {}).await;
        });
        Self { dir, log, end, serving }
    }

    async fn beside(&self) -> FileLog {
        FileLog::open_beside(self.dir.path()).await.unwrap()
    }

    /// What is answered to these bytes.
    async fn answer(&self, request: &[u8]) -> String {
        let mut stream = UnixStream::connect(self.dir.path().join(SOCKET)).await.unwrap();
        // Who is refused may not be read to the end.
        let _ = stream.write_all(request).await;
        let _ = stream.shutdown().await;
        answer_on(stream).await
    }

    async fn position(&self) -> Position {
        self.log.head().await.unwrap().position
    }
}

/// The line that comes; what was not read of the request resets the connection behind it.
async fn answer_on(stream: UnixStream) -> String {
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).await.unwrap();
    answer
}

fn event(data: Data<'_>) -> NewEvent {
    told("/operators/test", data)
}

fn told(source: &'static str, data: Data<'_>) -> NewEvent {
    let (time, id) = (Timestamp::from_millis(1_800_000_000_000).unwrap(), EventId::default());
    let (source, subject) = (source.into(), "test".into());
    NewEvent::note(&Event { id, source, subject, time, recorded_at: time, data }).unwrap()
}

fn bound(uid: &str) -> NewEvent {
    event(Data::ClusterBound(ClusterBound { uid: uid.into() }))
}

fn ran(uid: &str) -> NewEvent {
    let from = Timestamp::from_millis(1_800_000_000_000).unwrap();
    event(Data::PodRan(PodRan { uid: uid.into(), from }))
}

fn adjusted(exact: i128) -> NewEvent {
    let at = |hours: i64| Timestamp::from_millis(1_700_000_000_000 + hours * 3_600_000).unwrap();
    let period = crate::domain::event::Period { from: at(0), to: at(1) };
    let (key, why, by) = ("limits.cpu".into(), "it was wrong".into(), "test".into());
    event(Data::UsageAdjusted(UsageAdjusted { key, exact, period, why, by }))
}

fn closed(position: Position) -> NewEvent {
    let at = |hours: i64| Timestamp::from_millis(1_700_000_000_000 + hours * 3_600_000).unwrap();
    let root = "0".repeat(64).into();
    event(Data::PeriodClosed(PeriodClosed { from: at(0), to: at(1), position, root }))
}

fn lines(head: &str, events: &[NewEvent]) -> Vec<u8> {
    let mut request = format!("{head}\n").into_bytes();
    let mut hasher = LeafHasher::default();
    for event in events {
        event.write_line(0, &mut hasher, &mut request);
    }
    request
}

#[tokio::test]
async fn of_a_cluster_that_the_holder_observes_nothing_is_ended() {
    let held = Held::new().await;
    let retired = |source| {
        let at = Timestamp::from_millis(1_700_000_000_000).unwrap();
        told(source, Data::ClusterRetired(ClusterRetired { at }))
    };
    let beside = held.beside().await;
    let refused = beside.append(vec![retired("/clusters/east")]).await.unwrap_err().to_string();
    assert!(refused.contains("/clusters/east is observed by the process"), "{refused}");
    assert_eq!(held.position().await, 1);
    // To let its name go ends nothing; nor is another cluster the holder's matter.
    let bound = told("/clusters/east", Data::ClusterBound(ClusterBound { uid: "".into() }));
    beside.append(vec![bound]).await.unwrap();
    held.beside().await.append(vec![retired("/clusters/west")]).await.unwrap();
    assert_eq!(held.position().await, 3);
}

#[tokio::test]
async fn what_is_asked_for_is_appended_by_who_holds_the_lock() {
    let held = Held::new().await;
    let beside = held.beside().await;
    let appended = beside.append(vec![adjusted(1), adjusted(2)]).await.unwrap();
    assert_eq!(appended, Appended { first: 2, last: 3 });
    let before = beside.head().await.unwrap();
    // A correction counts among decisions.
    assert_eq!((before.position, before.last_decision), (3, 3));
    assert_eq!(beside.decide(3, closed(3)).await, Ok(Appended { first: 4, last: 4 }));
    let conflict = AppendError::Conflict { expected: 3, last_decision: 4 };
    assert_eq!(beside.decide(3, closed(2)).await, Err(conflict));
    assert_eq!(held.log.head().await.unwrap(), beside.head().await.unwrap());
    // The folder is that of any log: its leaves and roots agree.
    assert_eq!(held.log.tree().await.unwrap(), beside.tree().await.unwrap());
    held.end.send(()).unwrap();
    held.serving.await.unwrap();
    assert!(!is_there(held.dir.path()));
    let away = beside.append(vec![adjusted(3)]).await.unwrap_err();
    assert!(matches!(away, AppendError::Away { .. }), "{away}");
}

#[tokio::test]
async fn who_did_not_read_what_came_of_the_same_matter_is_refused() {
    let held = Held::new().await;
    let (first, second) = (held.beside().await, held.beside().await);
    // Pods come and go, and change nothing about clusters.
    held.log.append(vec![ran("a"), adjusted(1)]).await.unwrap();
    first.append(vec![bound("second")]).await.unwrap();
    let overtaken = Err(AppendError::Overtaken { position: 4 });
    assert_eq!(second.append(vec![bound("third")]).await, overtaken);
    second.append(vec![adjusted(2)]).await.unwrap();
    assert_eq!(held.position().await, 5);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_and_nothing_is_appended() {
    let held = Held::new().await;
    let good = adjusted(1);
    let short = &lines(r#"{"seen":1,"events":1}"#, std::slice::from_ref(&good))[..80];
    let long = vec![b'x'; 9000];
    let cases: [(Vec<u8>, &str); 13] = [
        (b"\n".to_vec(), "head: "),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "head: "),
        (vec![0xff; 40], "ends early"),
        (long, "longer than 4096"),
        (lines("{}", &[]), "head: missing field"),
        (lines(r#"{"seen":1,"events":0}"#, &[]), "events: 0"),
        (lines(r#"{"seen":1,"events":-1}"#, &[]), "head: "),
        (lines(r#"{"seen":1,"events":18446744073709551615}"#, &[]), "from 1 to 200000"),
        (lines(r#"{"seen":1,"events":1,"more":1}"#, &[]), "unknown field"),
        (lines(r#"{"seen":1,"events":1}"#, &[ran("a")]), "`io.bizrq.pod.ran.v1` is not taken"),
        // One without its condition, one with a condition that has none.
        (lines(r#"{"seen":1,"events":1}"#, &[closed(1)]), "period.closed.v1` is not taken"),
        (lines(r#"{"seen":1,"expected":0,"events":1}"#, &[good]), "usage.adjusted.v1` is not"),
        (lines(r#"{"seen":1,"expected":0,"events":2}"#, &[closed(1), closed(2)]), "alone"),
    ];
    for (request, words) in cases {
        let answer = held.answer(&request).await;
        assert!(answer.contains("refused") && answer.contains(words), "{words}: {answer}");
    }
    // Half a request, and nobody who ends it: others wait no longer than it may take.
    let mut slow = UnixStream::connect(held.dir.path().join(SOCKET)).await.unwrap();
    slow.write_all(short).await.unwrap();
    let appended = held.beside().await.append(vec![adjusted(2)]).await.unwrap();
    assert_eq!(appended, Appended { first: 2, last: 2 });
    let answer = answer_on(slow).await;
    assert!(answer.contains("did not come within"), "{answer}");
    // One that hangs up in the middle leaves nothing behind either.
    let mut gone = UnixStream::connect(held.dir.path().join(SOCKET)).await.unwrap();
    gone.write_all(short).await.unwrap();
    drop(gone);
    held.beside().await.append(vec![adjusted(3)]).await.unwrap();
    assert_eq!(held.position().await, 3);
}

#[tokio::test]
async fn the_socket_is_its_owners_and_what_was_left_behind_is_replaced() {
    let held = Held::new().await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let path = held.dir.path().join(SOCKET);
    assert_eq!(mode(&path), 0o600);
    // As after kill -9.
    held.serving.abort();
    let _ = held.serving.await;
    assert!(is_there(held.dir.path()));
    let again = Control::open(held.dir.path()).unwrap();
    drop(again);
    fs::remove_file(&path).unwrap();
    fs::write(&path, "mine").unwrap();
    let refused = Control::open(held.dir.path()).unwrap_err();
    assert!(refused.to_string().contains("is no socket; move it away"), "{refused}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
}

/// Somebody who takes a request and hangs up without an answer.
async fn hang_up(listener: tokio::net::UnixListener) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut some = [0; 16];
    stream.read_exact(&mut some).await.unwrap();
}

#[tokio::test]
async fn an_answer_that_the_folder_does_not_bear_out_is_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    let log = FileLog::open(dir.path(), &Options::default()).unwrap();
    log.append(vec![bound("first"), adjusted(1)]).await.unwrap();
    let path = dir.path().join(SOCKET);
    for (first, last) in [(3, 3), (2, 2), (1, 1), (0, 9), (u64::MAX, u64::MAX)] {
        let _ = fs::remove_file(&path);
        let listener = tokio::net::UnixListener::bind(&path).unwrap();
        let beside = FileLog::open_beside(dir.path()).await.unwrap();
        let lying = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 64];
            stream.read_exact(&mut request).await.unwrap();
            let answer = format!("{{\"appended\":{{\"first\":{first},\"last\":{last}}}}}\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
        let said = beside.append(vec![adjusted(2)]).await.unwrap_err().to_string();
        assert!(said.contains("where the log has others"), "{first} to {last}: {said}");
        lying.await.unwrap();
    }
}

#[tokio::test]
async fn of_a_holder_that_ends_before_it_answers_it_is_said_what_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let log = FileLog::open(dir.path(), &Options::default()).unwrap();
    log.append(vec![bound("first")]).await.unwrap();
    let path = dir.path().join(SOCKET);
    let listen = || {
        let _ = fs::remove_file(&path);
        tokio::net::UnixListener::bind(&path).unwrap()
    };
    let beside = FileLog::open_beside(dir.path()).await.unwrap();

    // It lives, and may yet append.
    let hanging = tokio::spawn(hang_up(listen()));
    let unclear = beside.append(vec![adjusted(1), adjusted(2)]).await.unwrap_err().to_string();
    assert!(unclear.contains("the log now holds 0 of 2; run the command again"), "{unclear}");
    hanging.await.unwrap();

    // It appended one of two, and died.
    let hanging = tokio::spawn(hang_up(listen()));
    log.append(vec![adjusted(1)]).await.unwrap();
    log.close().unwrap();
    let unclear = beside.append(vec![adjusted(1), adjusted(2)]).await.unwrap_err().to_string();
    assert!(unclear.contains("the log now holds 1 of 2; run the command again"), "{unclear}");
    hanging.await.unwrap();

    // It died and had appended nothing.
    let hanging = tokio::spawn(hang_up(listen()));
    let away = beside.append(vec![adjusted(3)]).await.unwrap_err();
    let said = away.to_string();
    assert!(matches!(away, AppendError::Away { .. }), "{said}");
    assert!(said.contains("it ended") && said.contains("nothing was written"), "{said}");
    hanging.await.unwrap();
}
