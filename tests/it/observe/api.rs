//! An API server that lists and watches, in this process: pages of one snapshot, bookmarks, versions that are no longer
//! kept, connections that break, kinds that are not served. Its clock is the test's.

use axum::body::Body;
use bytes::Bytes;
use futures_util::StreamExt;
use hyper::{Request, Response, StatusCode};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    io,
    sync::{Arc, Mutex, MutexGuard},
};
use tokio::sync::mpsc;

/// The server; clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Api(Arc<Mutex<World>>);

#[derive(Default)]
pub(crate) struct World {
    version: u64,
    /// By path of the collection and uid.
    objects: BTreeMap<String, BTreeMap<String, Value>>,
    /// Path, version, line.
    history: Vec<(String, u64, String)>,
    /// Versions up to this are no longer kept.
    compacted: u64,
    watchers: Vec<(String, mpsc::UnboundedSender<io::Result<Bytes>>)>,
    /// Snapshots of lists that go on, by token.
    lists: BTreeMap<String, (u64, Vec<Value>)>,
    refused: BTreeMap<String, u16>,
    missing: BTreeSet<String>,
    /// Path and query of each request.
    pub(crate) asked: Vec<String>,
    /// What time it is, as in the header `Date`.
    pub(crate) date: Option<String>,
    /// Watches of these paths are told nothing, from these versions on.
    held: BTreeMap<String, u64>,
    /// Somebody else writes something between any two questions.
    pub(crate) restless: bool,
    /// Page sizes are cut down to this.
    pub(crate) page: Option<usize>,
}

impl Api {
    /// A client of it.
    pub(crate) fn client(&self) -> kube::Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let answer = api.world().answer(&request.uri().to_string());
            std::future::ready(Ok::<_, Infallible>(answer))
        });
        kube::Client::new(service, "default")
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    /// Stores an object: a new one, or a new version of one; says its version.
    pub(crate) fn put(&self, path: &str, object: Value) -> u64 {
        let mut world = self.world();
        world.version += 1;
        let version = world.version;
        world.put_at(path, object, version);
        version
    }

    /// The same at a version of its own.
    pub(crate) fn put_at(&self, path: &str, object: Value, version: u64) {
        self.world().put_at(path, object, version);
    }

    /// Deletes an object; `last` is its last version, else the one that is stored.
    pub(crate) fn delete(&self, path: &str, uid: &str) {
        let mut world = self.world();
        world.version += 1;
        let version = world.version;
        let last = world.objects.entry(path.to_owned()).or_default().get(uid).cloned();
        if let Some(last) = last {
            world.delete_at(path, last, version);
        }
    }

    /// The same at a version of its own.
    pub(crate) fn delete_at(&self, path: &str, last: Value, version: u64) {
        self.world().delete_at(path, last, version);
    }

    /// Breaks every watch in the middle of a line.
    pub(crate) fn cut(&self) {
        for (_, watcher) in self.world().watchers.drain(..) {
            let _ = watcher.send(Ok(Bytes::from_static(b"{\"type\":\"ADD")));
            let _ = watcher.send(Err(io::Error::other("cut")));
        }
    }

    /// Tells watches of `path` nothing until [`Self::release`], as a server does that is behind with it.
    pub(crate) fn hold(&self, path: &str) {
        let mut world = self.world();
        let version = world.version;
        world.held.insert(path.to_owned(), version);
    }

    /// Tells them all of it.
    pub(crate) fn release(&self, path: &str) {
        let mut world = self.world();
        let from = world.held.remove(path).unwrap();
        let is_new = |(p, v, _): &&(String, u64, String)| p == path && *v > from;
        let lines: Vec<_> = world.history.iter().filter(is_new).map(|h| h.2.clone()).collect();
        lines.iter().for_each(|line| world.tell(path, line));
    }

    /// How often all of `path` was listed.
    pub(crate) fn lists(&self, path: &str) -> usize {
        let first = format!("{path}?limit=500");
        let is_list = |uri: &&String| uri.starts_with(&first) && !uri.contains("continue=");
        self.world().asked.iter().filter(is_list).count()
    }

    /// Forgets all history, as etcd does: who asks for an older version gets 410.
    pub(crate) fn compact(&self) {
        let mut world = self.world();
        world.compacted = world.version;
        world.history.clear();
        world.version += 1;
    }

    /// Answers for `path` with this status from now on; 0: as usual.
    pub(crate) fn refuse(&self, path: &str, code: u16) {
        self.world().refused.insert(path.to_owned(), code);
    }

    /// Does not serve `path`.
    pub(crate) fn drop_kind(&self, path: &str) {
        self.world().missing.insert(path.to_owned());
    }

    /// Whether a watch of `path` stands.
    pub(crate) fn is_watched(&self, path: &str) -> bool {
        let world = self.world();
        world.watchers.iter().any(|(watched, watcher)| *watched == path && !watcher.is_closed())
    }
}

impl World {
    fn put_at(&mut self, path: &str, mut object: Value, version: u64) {
        self.version = self.version.max(version);
        object["metadata"]["resourceVersion"] = version.to_string().into();
        let uid = object["metadata"]["uid"].as_str().unwrap().to_owned();
        let stored = self.objects.entry(path.to_owned()).or_default();
        let event = if stored.contains_key(&uid) { "MODIFIED" } else { "ADDED" };
        stored.insert(uid, object.clone());
        self.happen(path, event, object, version);
    }

    fn delete_at(&mut self, path: &str, mut last: Value, version: u64) {
        self.version = self.version.max(version);
        last["metadata"]["resourceVersion"] = version.to_string().into();
        let uid = last["metadata"]["uid"].as_str().unwrap();
        self.objects.entry(path.to_owned()).or_default().remove(uid);
        self.happen(path, "DELETED", last, version);
    }

    fn happen(&mut self, path: &str, event: &str, object: Value, version: u64) {
        let line = json!({"type": event, "object": object}).to_string();
        self.history.push((path.to_owned(), version, line.clone()));
        if !self.held.contains_key(path) {
            self.tell(path, &line);
        }
    }

    fn tell(&mut self, path: &str, line: &str) {
        for (_, watcher) in self.watchers.iter().filter(|(watched, _)| watched == path) {
            let _ = watcher.send(Ok(Bytes::from(format!("{line}\n"))));
        }
    }

    fn answer(&mut self, uri: &str) -> Response<Body> {
        self.asked.push(uri.to_owned());
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let query: BTreeMap<&str, &str> =
            query.split('&').filter_map(|pair| pair.split_once('=')).collect();
        let refused = self.refused.get(path).copied().filter(|code| *code > 0);
        if self.missing.contains(path) {
            return self.no(404, "the server could not find the requested resource");
        }
        if let Some(code) = refused {
            return self.no(code, "not now");
        }
        if query.contains_key("watch") {
            return self.watch(path, query["resourceVersion"].parse().unwrap());
        }
        if let Some((_, name)) = path.strip_prefix("/api/v1/namespaces/").map(|name| ((), name)) {
            let found = self.objects.get("/api/v1/namespaces").and_then(|all| {
                all.values().find(|object| object["metadata"]["name"] == *name).cloned()
            });
            return match found {
                Some(object) => self.yes(object.to_string()),
                None => self.no(404, "not found"),
            };
        }
        self.list(path, query["limit"].parse().unwrap(), query.get("continue").copied())
    }

    fn list(&mut self, path: &str, limit: usize, token: Option<&str>) -> Response<Body> {
        self.version += u64::from(self.restless);
        let limit = limit.min(self.page.unwrap_or(usize::MAX));
        let (version, mut left) = match token {
            Some(token) => match self.lists.remove(token) {
                Some(list) if list.0 > self.compacted => list,
                _ => return self.no(410, "The provided continue parameter is too old"),
            },
            None => {
                let objects = self.objects.get(path).into_iter().flat_map(|all| all.values());
                (self.version, objects.cloned().collect())
            }
        };
        let rest = left.split_off(limit.min(left.len()));
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if !rest.is_empty() {
            let token = format!("{path}@{version}+{}", rest.len());
            metadata["continue"] = token.clone().into();
            // As a query carries it.
            self.lists.insert(
                token.replace('/', "%2F").replace('@', "%40").replace('+', "%2B"),
                (version, rest),
            );
        }
        // Items of built-in kinds do not name their kind.
        for item in &mut left {
            let item = item.as_object_mut().unwrap();
            item.remove("apiVersion");
            item.remove("kind");
        }
        self.yes(json!({"kind": "List", "metadata": metadata, "items": left}).to_string())
    }

    fn watch(&mut self, path: &str, from: u64) -> Response<Body> {
        if from < self.compacted {
            let status = json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old resource version"}});
            return self.yes(format!("{status}\n"));
        }
        let (sender, receiver) = mpsc::unbounded_channel();
        for (_, _, line) in self.history.iter().filter(|(p, v, _)| p == path && *v > from) {
            let _ = sender.send(Ok(Bytes::from(format!("{line}\n"))));
        }
        self.watchers.push((path.to_owned(), sender));
        let lines = futures_util::stream::unfold(receiver, |mut receiver| async {
            receiver.recv().await.map(|line| (line, receiver))
        });
        Response::new(Body::from_stream(lines.boxed()))
    }

    fn yes(&self, text: String) -> Response<Body> {
        let response = Response::builder();
        let response = match &self.date {
            Some(date) => response.header("Date", date),
            None => response,
        };
        response.body(Body::from(text)).unwrap()
    }

    fn no(&self, code: u16, message: &str) -> Response<Body> {
        let status = json!({"kind": "Status", "code": code, "message": message});
        let response = Response::builder().status(StatusCode::from_u16(code).unwrap());
        response.body(Body::from(status.to_string())).unwrap()
    }
}
