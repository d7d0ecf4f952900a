//! Lists and watches one kind of objects on one API server, for as long as somebody takes what it sends.
//!
//! ```text
//!  list (pages of one snapshot) ─▶ watch from its version ─▶ cut, or ended: watch from the last version
//!        ▲                              │ 410                   a list is asked for: list, and watch on
//!        └──────────────────────────────┘                       failures: again, later and later
//! ```
//!
//! A list that is asked for ends no watch: between what the watch has told and the list a pod may have come and gone,
//! and only the watch tells of it, then or later.
//!
//! A list is a consistent read: it names no version, so that the API server answers with the newest. What arrives
//! over a watch has the instant of its arrival only if it was written while the watch stood. A kind that fails
//! waits by itself; nobody else does.

use super::server::{Failure, Lines, Page, Server};
use crate::domain::time::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{borrow::Cow, sync::Arc, time::Duration};
use tokio::{
    sync::{Notify, mpsc},
    time::{Instant, sleep},
};

/// Objects of a page: some megabytes.
const PAGE: usize = 500;
/// The API server is asked to end each watch after so many seconds, and takes bookmarks once a minute.
const WATCH_SECONDS: u64 = 290;
/// Longer than any silence that a living watch can have.
const SILENCE: Duration = Duration::from_secs(WATCH_SECONDS + 30);
/// The first pause after a failure; each further one is twice as long …
const PAUSE: Duration = Duration::from_millis(200);
/// … up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A watch that fails so often in a row may have a version that is not known there: a list begins anew.
const FAILURES: u32 = 5;

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resource {
    /// `/api/v1/pods`, `/apis/apps/v1/deployments`; of several versions the first that is served.
    pub(super) paths: Vec<Box<str>>,
    /// Of which objects: `&labelSelector=…`, or nothing.
    pub(super) selector: Box<str>,
}

/// What is told of a kind.
#[derive(Debug)]
pub(super) enum Update<T> {
    /// A list of this version begins: what it does not show until [`Update::Listed`] is not there.
    Begins(u64),
    /// Objects, in the order of their versions.
    Objects(Vec<Sent<T>>),
    /// The list is whole.
    Listed {
        /// It shows everything as it was at this version.
        version: u64,
        /// When it began to be sent, by the API server's clock, in whole seconds.
        at: Option<Timestamp>,
        /// A watch stood all the while: nothing was missed before it.
        stood: bool,
    },
    /// Everything up to this version was told.
    Reached(u64),
    /// It does not work now, and is tried again.
    Failed(Failure),
}

/// An object that was sent.
#[derive(Debug)]
pub(super) struct Sent<T> {
    /// It was deleted; this is its last version.
    pub(super) deleted: bool,
    /// When it arrived, if it came as soon as it was written.
    pub(super) received: Option<Timestamp>,
    /// What was read of it, or why it cannot be read.
    pub(super) object: Result<T, String>,
}

/// Watches; see [`Watcher::run`].
pub(super) struct Watcher<T, R> {
    pub(super) server: Server,
    pub(super) resource: Resource,
    /// Reads an object from its text; gets the path of its kind, since objects in lists do not name it.
    pub(super) read: R,
    pub(super) now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// The kind's number among those that are watched.
    pub(super) number: usize,
    pub(super) out: mpsc::Sender<(usize, Update<T>)>,
    /// A list is wanted.
    pub(super) relist: Arc<Notify>,
    /// What happened before a list matters after it, too.
    pub(super) past: bool,
}

/// How far a watch is.
#[derive(Clone, Copy)]
struct Reach {
    /// Everything up to here came by the watch; it begins again behind it.
    watched: u64,
    /// The version of the last list.
    listed: u64,
    /// What is not newer was written before the watch stood or was read, and arrives late.
    late: u64,
}

/// Nobody takes what is sent.
struct Closed;

/// Why a watch is over.
enum Over {
    Ended,
    Failed(Failure),
    Closed,
}

#[derive(Deserialize)]
struct List<'t> {
    #[serde(default)]
    metadata: ListMeta<'t>,
    #[serde(borrow, default)]
    items: Option<Vec<&'t RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta<'t> {
    #[serde(borrow)]
    resource_version: Cow<'t, str>,
    #[serde(borrow, rename = "continue")]
    more: Option<Cow<'t, str>>,
}

#[derive(Deserialize)]
struct Line<'t> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'t, str>,
    #[serde(borrow)]
    object: &'t RawValue,
}

/// What a bookmark or an error says.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Said<'t> {
    #[serde(borrow)]
    metadata: ListMeta<'t>,
    code: u16,
    message: String,
}

impl<T, R> Watcher<T, R>
where
    R: Fn(&str, &str) -> Result<T, String>,
{
    /// Watches until nobody takes what it sends.
    pub(super) async fn run(self) {
        let mut failures = 0;
        while let Ok(next) = self.list_and_follow(failures).await {
            failures = next;
        }
    }

    /// Returns how often in a row it has failed.
    async fn list_and_follow(&self, failures: u32) -> Result<u32, Closed> {
        match self.list().await? {
            Ok((path, version)) => {
                self.follow(&path, version).await?;
                Ok(0)
            }
            Err(failure) => {
                let failures = failures.saturating_add(1);
                self.pause(failure, failures).await?;
                Ok(failures)
            }
        }
    }

    /// Lists everything; returns where the kind is served, and the version of the list.
    async fn list(&self) -> Result<Result<(Box<str>, u64), Failure>, Closed> {
        let mut failure = Failure::NotServed;
        for path in &self.resource.paths {
            match self.list_at(path, false).await? {
                Ok(version) => return Ok(Ok((path.clone(), version))),
                Err(Failure::NotServed) => {}
                Err(other) => failure = other,
            }
        }
        Ok(Err(failure))
    }

    /// Lists everything at `path`, beside a watch that stands or not.
    async fn list_at(&self, path: &str, stood: bool) -> Result<Result<u64, Failure>, Closed> {
        let (mut more, mut begun) = (String::new(), None);
        loop {
            let page = self.server.page(&self.page_uri(path, PAGE, &more)).await;
            let listed = page.and_then(|page| Ok((page.at, self.read_page(path, &page)?)));
            let (at, (objects, version, next)) = match listed {
                Ok(listed) => listed,
                Err(failure) => return Ok(Err(failure)),
            };
            if begun.is_none() {
                self.send(Update::Begins(version)).await?;
            }
            let at = *begun.get_or_insert(at);
            self.send(Update::Objects(objects)).await?;
            match next {
                Some(next) => more = format!("&continue={}", encoded(&next)),
                None => {
                    self.send(Update::Listed { version, at, stood }).await?;
                    return Ok(Ok(version));
                }
            }
        }
    }

    fn page_uri(&self, path: &str, limit: usize, more: &str) -> String {
        format!("{path}?limit={limit}{}{more}", self.resource.selector)
    }

    #[allow(clippy::type_complexity)]
    fn read_page(
        &self,
        path: &str,
        page: &Page,
    ) -> Result<(Vec<Sent<T>>, u64, Option<String>), Failure> {
        let list: List<'_> = serde_json::from_slice(&page.text).map_err(odd)?;
        let object = |item: &&RawValue| {
            let object = (self.read)(path, item.get());
            Sent { deleted: false, received: None, object }
        };
        let objects = list.items.iter().flatten().map(object).collect();
        let next = list.metadata.more.filter(|more| !more.is_empty()).map(Cow::into_owned);
        Ok((objects, version(&list.metadata.resource_version)?, next))
    }

    /// Watches from `version` on until a list is needed.
    async fn follow(&self, path: &str, version: u64) -> Result<(), Closed> {
        let mut failures = 0;
        let mut reach = Reach { watched: version, listed: version, late: version };
        loop {
            let begun = Instant::now();
            let before = reach.watched;
            match self.watch(path, &mut reach).await {
                Over::Closed => return Err(Closed),
                Over::Failed(Failure::Gone | Failure::NotServed) => return Ok(()),
                // A server that ends every watch at once is not asked without a pause.
                Over::Ended if reach.watched > before || begun.elapsed() > LONGEST_PAUSE => {
                    failures = 0
                }
                Over::Ended => {
                    failures = 1;
                    sleep(PAUSE).await;
                }
                Over::Failed(_) if failures >= FAILURES => return Ok(()),
                Over::Failed(failure) => {
                    failures = if reach.watched > before { 1 } else { failures.saturating_add(1) };
                    self.pause(failure, failures).await?;
                }
            }
        }
    }

    async fn watch(&self, path: &str, reach: &mut Reach) -> Over {
        let mut lines = match self.connect(path, reach).await {
            Ok(connected) => connected,
            Err(failure) => return Over::Failed(failure),
        };
        loop {
            let next = tokio::select! {
                next = lines.next() => next,
                () = self.relist.notified() => match self.list_again(path, reach).await {
                    Err(Closed) => return Over::Closed,
                    Ok(Err(failure)) => return Over::Failed(failure),
                    Ok(Ok(())) => continue,
                },
            };
            let text = match next {
                Ok(Some(text)) => text,
                Ok(None) => return Over::Ended,
                Err(failure) => return Over::Failed(failure),
            };
            let (objects, reached, failure) = self.read_lines(path, &text, reach);
            if !objects.is_empty() && self.send(Update::Objects(objects)).await.is_err() {
                return Over::Closed;
            }
            reach.watched = reach.watched.max(reached);
            if reached > reach.listed && self.send(Update::Reached(reached)).await.is_err() {
                return Over::Closed;
            }
            if let Some(failure) = failure {
                return Over::Failed(failure);
            }
        }
    }

    /// Opens a watch from `version` on, and asks which version was the newest once it stood: what is older was
    /// written before, and arrives late.
    async fn connect(&self, path: &str, reach: &mut Reach) -> Result<Lines, Failure> {
        let uri = format!(
            "{path}?watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={}{}",
            reach.watched, self.resource.selector
        );
        let lines = self.server.lines(&uri, SILENCE).await?;
        reach.late = self.newest(path, reach.watched.max(reach.listed)).await?;
        Ok(lines)
    }

    /// Lists while the watch stands.
    async fn list_again(
        &self,
        path: &str,
        reach: &mut Reach,
    ) -> Result<Result<(), Failure>, Closed> {
        let listed = match self.list_at(path, true).await? {
            Ok(listed) => listed,
            Err(failure) => return Ok(Err(failure)),
        };
        let newest = self.newest(path, listed).await;
        reach.listed = listed;
        Ok(newest.map(|newest| reach.late = newest))
    }

    /// The newest version at the server, which has known `least`.
    async fn newest(&self, path: &str, least: u64) -> Result<u64, Failure> {
        let (newest, _) = newest_at(&self.server, &self.resource, path).await?;
        // A server that was restored from an older copy would say nothing until it gets to that version.
        if newest < least { Err(Failure::Gone) } else { Ok(newest) }
    }

    /// The objects in these lines, the version that they reach, and what ends the watch.
    fn read_lines(
        &self,
        path: &str,
        text: &[u8],
        reach: &Reach,
    ) -> (Vec<Sent<T>>, u64, Option<Failure>) {
        let now = (self.now)();
        let (mut objects, mut reached) = (Vec::new(), 0);
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let read = serde_json::from_slice::<Line<'_>>(line).map_err(odd);
            let said = read.and_then(|line| {
                let said = serde_json::from_str::<Said<'_>>(line.object.get()).map_err(odd)?;
                let version = match &*line.kind {
                    "ERROR" if said.code == 410 => return Err(Failure::Gone),
                    "ERROR" => {
                        let (code, message) = (said.code, said.message);
                        return Err(Failure::Refused { code, message, retry_after: None });
                    }
                    _ => version(&said.metadata.resource_version)?,
                };
                Ok((line, version))
            });
            let (line, version) = match said {
                Ok(said) => said,
                Err(failure) => return (objects, reached, Some(failure)),
            };
            reached = reached.max(version);
            if line.kind != "BOOKMARK" && (self.past || version > reach.listed) {
                let received = (version > reach.late).then_some(now);
                let object = (self.read)(path, line.object.get());
                objects.push(Sent { deleted: line.kind == "DELETED", received, object });
            }
        }
        (objects, reached, None)
    }

    async fn send(&self, update: Update<T>) -> Result<(), Closed> {
        self.out.send((self.number, update)).await.map_err(|_| Closed)
    }

    /// Says what failed and waits, longer each time; whoever asks for a list ends the waiting.
    async fn pause(&self, failure: Failure, failures: u32) -> Result<(), Closed> {
        let doubled = PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(10));
        let mut pause = doubled.min(LONGEST_PAUSE);
        if let Failure::Refused { retry_after: Some(seconds), .. } = failure {
            pause = pause.max(Duration::from_secs(seconds)).min(LONGEST_PAUSE);
        }
        self.send(Update::Failed(failure)).await?;
        tokio::select! {
            () = sleep(pause) => {}
            () = self.relist.notified() => {}
            () = self.out.closed() => return Err(Closed),
        }
        Ok(())
    }
}

/// The newest version of a kind on its API server and the time there, both read after the question was put.
pub(super) async fn newest(
    server: &Server,
    resource: &Resource,
) -> Result<(u64, Option<Timestamp>), Failure> {
    let mut failure = Failure::NotServed;
    for path in &resource.paths {
        match newest_at(server, resource, path).await {
            Err(Failure::NotServed) => {}
            Err(other @ Failure::Odd(_)) => return Err(other),
            Err(other) => failure = other,
            newest => return newest,
        }
    }
    Err(failure)
}

async fn newest_at(
    server: &Server,
    resource: &Resource,
    path: &str,
) -> Result<(u64, Option<Timestamp>), Failure> {
    let page = server.page(&format!("{path}?limit=1{}", resource.selector)).await?;
    let list: List<'_> = serde_json::from_slice(&page.text).map_err(odd)?;
    Ok((version(&list.metadata.resource_version)?, page.at))
}

fn version(text: &str) -> Result<u64, Failure> {
    text.parse().map_err(|_| {
        let text: String = text.chars().take(40).collect();
        Failure::Odd(format!("resourceVersion `{text}` is no whole number"))
    })
}

fn odd(error: serde_json::Error) -> Failure {
    Failure::Odd(error.to_string())
}

/// `text` as a value in a query.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(char::from(byte));
            }
            other => encoded.push_str(&format!("%{other:02X}")),
        }
    }
    encoded
}
