//! What must be on the log of each pod, and what its group used, by the statuses that the stand-in wrote.
//!
//! A start is the API server's instant of the binding. An end was seen when it came (`Received`), or is what the
//! containers say (`ContainersFinished`), or nobody saw it: then the truth lies in the interval that is marked.

use super::{control_plane::eventually, installation::Installed, nodes::Written};
use bizrq::{
    clock,
    domain::{hours::NanoHours, time::Timestamp},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Milli-units of what every pod here holds: one core.
const CORE: i128 = 1000;
/// How an end is known, best first.
const BASES: [&str; 6] =
    ["TerminalStatus", "Received", "ContainersFinished", "Deleted", "NodeLost", "Absent"];
/// Statuses have whole seconds.
const SECOND: i64 = 1000;

/// From when to when a pod is billed.
struct Segment {
    start: Timestamp,
    stop: Option<Stop>,
}

struct Stop {
    basis: String,
    time: Timestamp,
    earliest: Timestamp,
    latest: Timestamp,
}

/// Waits until the log says of every pod of the namespace what was written, and compares what its group used.
pub(crate) fn agrees(installed: &Installed, namespace: &str, group: &str) {
    let written = installed.plane.nodes.written(namespace);
    assert!(!written.is_empty());
    let segments = eventually(&format!("{namespace}: the log says what was written"), || {
        let facts = by_pod(installed.tail("pod"));
        let segments = written.iter().map(|(uid, written)| {
            let segment = Segment::of(facts.get(uid).map_or(&[], Vec::as_slice), uid)?;
            segment.fits(written).map_err(|why| format!("pod {uid}: {why}, {written:?}"))?;
            Ok(segment)
        });
        segments.collect::<Result<Vec<_>, String>>()
    });
    let at = clock::now();
    let line = installed.used(group, at);
    let exact: i128 = segments.iter().map(|segment| segment.exact(at)).sum();
    let doubt: i128 = segments.iter().map(Segment::doubt).sum();
    assert_eq!(line["exact"], exact.to_string(), "{line}");
    assert_eq!(line["uncertainHours"], NanoHours::of(doubt).to_string(), "{line}");
    assert_eq!(line["provisional"], segments.iter().any(Segment::is_provisional), "{line}");
}

/// The events of each pod, in their order.
fn by_pod(facts: Vec<Value>) -> BTreeMap<String, Vec<Value>> {
    let mut pods = BTreeMap::<String, Vec<Value>>::new();
    for mut fact in facts {
        let event = fact["event"].take();
        let uid = event["data"]["uid"].as_str().unwrap().to_owned();
        pods.entry(uid).or_default().push(event);
    }
    pods
}

impl Segment {
    /// What the log says of a pod: of its stops the best, as long as none shows that it lived on.
    fn of(facts: &[Value], uid: &str) -> Result<Self, String> {
        let of = |kind: &'static str| {
            let name = format!("io.bizrq.pod.{kind}.v1");
            facts.iter().filter(move |event| event["type"] == *name)
        };
        let start = of("started").next().ok_or_else(|| format!("pod {uid} has not started"))?;
        if start["data"]["basis"] != "Bound" {
            return Err(start.to_string());
        }
        let alive = of("stop_withdrawn").map(|event| instant(&event["data"]["aliveAt"])).max();
        let stops = of("stopped").map(Stop::of);
        let stops = stops.filter(|stop| !stop.is_provisional() || Some(stop.time) >= alive);
        let stop = stops.min_by_key(|stop| (stop.rank(), stop.time));
        Ok(Self { start: instant(&start["time"]), stop })
    }

    /// Whether it is what was written.
    fn fits(&self, written: &Written) -> Result<(), String> {
        if self.start != instant(&json!(written.bound)) {
            return Err(format!("it started at {}", self.start));
        }
        match (&self.stop, &written.ended) {
            (None, None) => Ok(()),
            (Some(stop), Some(ended)) => stop.fits(instant(&json!(ended))),
            (Some(stop), None) => Err(format!("it stopped, by {} at {}", stop.basis, stop.time)),
            (None, Some(_)) => Err("it has not stopped".to_owned()),
        }
    }

    fn exact(&self, at: Timestamp) -> i128 {
        let until = self.stop.as_ref().map_or(at, |stop| stop.time);
        CORE * i128::from(until.since(self.start))
    }

    fn doubt(&self) -> i128 {
        let doubt = |stop: &Stop| stop.latest.since(stop.earliest);
        CORE * i128::from(self.stop.as_ref().map_or(0, doubt))
    }

    fn is_provisional(&self) -> bool {
        self.stop.as_ref().is_none_or(Stop::is_provisional)
    }
}

impl Stop {
    fn of(event: &Value) -> Self {
        let data = &event["data"];
        Self {
            basis: data["basis"].as_str().unwrap().to_owned(),
            time: instant(&event["time"]),
            earliest: instant(&data["earliest"]),
            latest: instant(&data["latest"]),
        }
    }

    /// The place of its basis, best first.
    fn rank(&self) -> usize {
        BASES.iter().position(|basis| *basis == self.basis).unwrap()
    }

    fn is_provisional(&self) -> bool {
        ["Absent", "NodeLost"].contains(&&*self.basis)
    }

    fn fits(&self, ended: Timestamp) -> Result<(), String> {
        // Known to the second, the end lies somewhere in it.
        let could_be = self.earliest < ended.shifted(SECOND) && ended <= self.latest;
        let is_right = self.basis != "ContainersFinished" || self.time == ended;
        if could_be && is_right {
            return Ok(());
        }
        let Self { basis, time, earliest, latest } = self;
        Err(format!("by {basis} it stopped at {time}, from {earliest} to {latest}"))
    }
}

fn instant(text: &Value) -> Timestamp {
    Timestamp::parse(text.as_str().unwrap()).unwrap()
}
