//! Kubernetes Events on quota objects, for `kubectl describe bizrq`: one for each notice of a group, named by its id, so
//! that the API server takes it once whoever brings it. An Event is a hint that is gone in an hour; the stream of
//! notices is the record.
//!
//! They are Events of `v1`. Those of `events.k8s.io/v1` may be of an object without a namespace only in `kube-system`
//! (Kubernetes 1.20), where bizrq has no business, and `kubectl describe` of that time shows no age of them.

use super::notice::{Notice, Scope, Told};
use crate::domain::{event::Refused, time::Timestamp};
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    jiff,
};
use kube::{Api, Client, api::PostParams};
use std::{collections::BTreeMap, future::Future, pin::pin, time::Duration};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

/// Where Events of objects without a namespace live.
const NAMESPACE: &str = "default";
/// Who reports.
const CONTROLLER: &str = "bizrq.io/notices";
/// What is older is no news any more, in milliseconds: who leads anew does not tell last week's.
const NEWS: i64 = 30 * 60_000;
/// After a failure.
const AGAIN: Duration = Duration::from_secs(5);
/// Between two: at most 50 a second.
const PACE: Duration = Duration::from_millis(20);
/// A request that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest message, in bytes; API servers take 1,024 of a note, which is what `events.k8s.io` calls it.
const MESSAGE: usize = 1_000;

/// Writes Events of what `told` says, until `end` comes true. `failed` hears what the API server says no with.
pub async fn run(
    client: Client,
    replica: String,
    mut told: watch::Receiver<Option<Told>>,
    now: fn() -> Timestamp,
    end: impl Future,
    failed: impl Fn(&str),
) {
    let api: Api<Event> = Api::namespaced(client, NAMESPACE);
    let mut end = pin!(end);
    let writing = async {
        // By topic the last that was written.
        let mut written = BTreeMap::new();
        loop {
            let news: Vec<Notice> = {
                let since = now().shifted(-NEWS);
                let told = told.borrow_and_update();
                let notices = told.iter().flat_map(|told| told.since(since));
                let is_new = |n: &&Notice| written.get(&n.topic).is_none_or(|w| *w < n.number);
                notices.filter(is_new).cloned().collect()
            };
            let mut has_failed = false;
            for notice in news {
                if let Some(event) = event(&notice, &replica) {
                    match timeout(PATIENCE, api.create(&PostParams::default(), &event)).await {
                        // Somebody wrote it.
                        Ok(Err(kube::Error::Api(status))) if status.code == 409 => {}
                        Ok(Ok(_)) => {}
                        // It will not be taken the next time either.
                        Ok(Err(kube::Error::Api(status))) if (400..500).contains(&status.code) => {
                            failed(&status.message);
                        }
                        Ok(Err(error)) => {
                            failed(&error.to_string());
                            has_failed = true;
                        }
                        Err(_) => {
                            failed("no answer");
                            has_failed = true;
                        }
                    }
                    if has_failed {
                        break;
                    }
                    sleep(PACE).await;
                }
                written.insert(notice.topic, notice.number);
            }
            if has_failed {
                sleep(AGAIN).await;
            } else if told.changed().await.is_err() {
                return std::future::pending::<()>().await;
            }
        }
    };
    tokio::select! {
        _ = &mut end => {}
        () = writing => {}
    }
}

/// Makes an Event of each group and reason of `refusals`, on the quota object that `uid` knows. Whoever refused does it;
/// what cannot be written is not tried again: the log has it.
///
/// # Errors
/// What the API server says no with.
pub async fn tell_refusals(
    client: Client,
    replica: &str,
    refusals: &[Refused<'_>],
    uid: impl Fn(&str) -> Option<String>,
    now: Timestamp,
) -> Result<(), String> {
    let api: Api<Event> = Api::namespaced(client, NAMESPACE);
    let mut by_group: BTreeMap<(&str, &str), Vec<&Refused<'_>>> = BTreeMap::new();
    for refused in refusals {
        by_group.entry((&refused.group, &refused.reason)).or_default().push(refused);
    }
    for ((group, reason), refused) in by_group {
        let first = refused.iter().map(|r| r.first).min();
        let last = refused.iter().max_by_key(|r| r.last);
        let (Some(uid), Some(first), Some(last)) = (uid(group), first, last) else {
            continue;
        };
        let count = refused.iter().fold(0_u64, |sum, r| sum.saturating_add(r.count));
        let workload = &last.workload;
        let namespace = workload.namespace.as_deref().unwrap_or_default();
        let message = format!(
            "refused {count} times, the last time {} {namespace}/{}: {}",
            workload.kind, workload.name, last.message
        );
        let about = About { group: group.to_owned(), uid, action: "Refuse", warns: true };
        let name = Scope::of(&[group, reason, replica, &now.to_string()]).to_string();
        let times = Times { count, first, last: last.last };
        let Some(event) = about.event(&name, reason.to_owned(), message, replica, times) else {
            continue;
        };
        match timeout(PATIENCE, api.create(&PostParams::default(), &event)).await {
            Ok(made) => drop(made.map_err(|error| error.to_string())?),
            Err(_) => return Err("no answer".to_owned()),
        }
        sleep(PACE).await;
    }
    Ok(())
}

/// The Event of a notice about a quota object; `None`: it is about none.
fn event(notice: &Notice, replica: &str) -> Option<Event> {
    let (group, uid) = (notice.group.clone(), notice.uid.clone()?);
    let reason = notice.kind.split('.').flat_map(capitalised).collect();
    let about = About { group, uid, action: "Notice", warns: notice.stands };
    let once = Times { count: 1, first: notice.at, last: notice.at };
    about.event(&notice.id, reason, notice.message.clone(), replica, once)
}

/// A quota object, and what is done about it.
struct About {
    group: String,
    uid: String,
    action: &'static str,
    warns: bool,
}

/// How often it happened, the first time and the last.
struct Times {
    count: u64,
    first: Timestamp,
    last: Timestamp,
}

impl About {
    fn event(
        self,
        name: &str,
        reason: String,
        mut message: String,
        replica: &str,
        times: Times,
    ) -> Option<Event> {
        let time = |at: Timestamp| jiff::Timestamp::from_millisecond(at.millis()).ok().map(Time);
        if message.len() > MESSAGE {
            let ends = message.char_indices().map(|(at, _)| at).take_while(|at| *at <= MESSAGE);
            let end = ends.last().unwrap_or(0);
            message.truncate(end);
        }
        Some(Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{name}", self.group)),
                namespace: Some(NAMESPACE.to_owned()),
                ..ObjectMeta::default()
            },
            count: Some(i32::try_from(times.count).unwrap_or(i32::MAX)),
            first_timestamp: Some(time(times.first)?),
            last_timestamp: Some(time(times.last)?),
            action: Some(self.action.to_owned()),
            reason: Some(reason),
            message: Some(message),
            type_: Some(if self.warns { "Warning" } else { "Normal" }.to_owned()),
            involved_object: ObjectReference {
                api_version: Some("bizrq.io/v1".to_owned()),
                kind: Some("BizGroupResourceQuota".to_owned()),
                name: Some(self.group),
                uid: Some(self.uid),
                ..ObjectReference::default()
            },
            source: Some(EventSource { component: Some(CONTROLLER.to_owned()), host: None }),
            reporting_component: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(replica.to_owned()),
            ..Event::default()
        })
    }
}

fn capitalised(word: &str) -> impl Iterator<Item = char> {
    let mut letters = word.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::time::ORIGIN,
        notify::notice::{Topic, What},
    };

    fn notice() -> Notice {
        let topic = Topic { scope: Scope::of(&["uid"]), what: What::Cash(100) };
        Notice {
            id: topic.id(1),
            topic,
            number: 1,
            kind: "cash.exhausted".to_owned(),
            stands: true,
            group: "team".to_owned(),
            key: "cash/limits.cpu".to_owned(),
            uid: Some("5f0c6f0e-0000-4000-8000-000000000001".to_owned()),
            threshold: Some(100),
            generation: Some(1),
            at: ORIGIN,
            exact: true,
            forecast: None,
            hard: "8".to_owned(),
            of: "1".to_owned(),
            message: "ü".repeat(MESSAGE),
            position: 3,
        }
    }

    #[test]
    fn an_event_is_named_by_its_notice_and_fits() {
        let event = event(&notice(), "replica").unwrap();
        assert_eq!(event.metadata.name.unwrap(), format!("team.{}", notice().id));
        assert_eq!(event.reason.as_deref(), Some("CashExhausted"));
        assert_eq!(event.type_.as_deref(), Some("Warning"));
        assert!(event.message.unwrap().len() <= MESSAGE);
        assert_eq!(event.last_timestamp.unwrap().0.as_millisecond(), ORIGIN.millis());
    }

    #[test]
    fn what_is_about_no_quota_object_is_no_event() {
        let notice = Notice { uid: None, ..notice() };
        assert!(event(&notice, "replica").is_none());
    }
}
