//! An event as somebody sees it who sees some groups only. What is not named here is not shown: a type that is new shows
//! nothing before somebody has thought about it.
//!
//! An event of which a part is shown has no `leaf`: that stands for the whole.

use crate::{
    api::view::View,
    domain::{
        event::{Admission, Data, Event, QuotaSpec, Refused},
        names::{ObjectId, Uid},
        text::Text,
    },
};
use serde::Serialize;

/// A CloudEvent without a leaf.
#[derive(Serialize)]
struct Shown<'e> {
    specversion: &'static str,
    id: String,
    r#type: String,
    source: &'e str,
    subject: &'e str,
    time: String,
    recordedat: String,
    data: &'e Data<'e>,
}

/// What `view` shows of an event, as a line of JSON; `None`: nothing.
pub(super) fn shown(view: &View<'_>, event: &Event<'_>) -> Option<String> {
    let data = data(view, event)?;
    let shown = Shown {
        specversion: "1.0",
        id: event.id.to_string(),
        r#type: data.kind()?.type_name(),
        source: &event.source,
        subject: &event.subject,
        time: event.time.to_string(),
        recordedat: event.recorded_at.to_string(),
        data: &data,
    };
    serde_json::to_string(&shown).ok()
}

fn data<'e>(view: &View<'_>, event: &Event<'e>) -> Option<Data<'e>> {
    let knows = |name: &str| view.known(name).is_some();
    let all = || Some(event.data.clone());
    let subject = |prefix| event.subject.strip_prefix(prefix).is_some_and(knows);
    match &event.data {
        Data::PodCreated(data) if knows(&data.group) => all(),
        Data::PodStarted(data) if knows(&data.group) => all(),
        Data::PodMoved(data) if knows(&data.group) => all(),
        Data::WorkloadObserved(data) if knows(&data.group) => all(),
        Data::PodRan(_) | Data::PodResized(_) | Data::PodStopped(_) | Data::PodStopWithdrawn(_) => {
            // These name no group. A pod that was elsewhere once could tell of that time.
            has_pod(view, event).then(all).flatten()
        }
        Data::WorkloadsAdmitted(data) => {
            let mut data = data.clone();
            data.admissions.retain(|admission: &Admission<'_>| knows(&admission.group));
            (!data.admissions.is_empty()).then_some(Data::WorkloadsAdmitted(data))
        }
        Data::WorkloadsRefused(data) => {
            let mut data = data.clone();
            data.refusals.retain(|refused: &Refused<'_>| knows(&refused.group));
            for refused in &mut data.refusals {
                refused.message = message(view, &refused.message).into_owned().into();
            }
            (!data.refusals.is_empty()).then_some(Data::WorkloadsRefused(data))
        }
        Data::QuotaDeclared(data) if subject("quotas/") => {
            let mut data = data.clone();
            hide_parent(view, &mut data.spec);
            Some(Data::QuotaDeclared(data))
        }
        Data::QuotaProposed(data) if subject("quotas/") => {
            let mut data = data.clone();
            if let Some(spec) = &mut data.spec {
                hide_parent(view, spec);
            }
            Some(Data::QuotaProposed(data))
        }
        Data::QuotaRemoved(_) if subject("quotas/") => all(),
        Data::UsageAdjusted(_) if subject("accounts/") => all(),
        _ => None,
    }
}

/// Whether every group that the event's pod ever was in is shown.
fn has_pod(view: &View<'_>, event: &Event<'_>) -> bool {
    let ledger = view.ledger();
    let pod = event.data.pod().zip(ledger.names().known_cluster(&event.source));
    let groups =
        pod.map(|(uid, cluster)| ledger.meter().groups_of(ObjectId { cluster, uid: Uid::of(uid) }));
    groups.is_some_and(|groups| !groups.is_empty() && groups.iter().all(|g| view.shows(*g)))
}

/// The group above the highest that is shown is nobody's business.
fn hide_parent(view: &View<'_>, spec: &mut QuotaSpec<'_>) {
    if view.known(&spec.parent).is_none() {
        spec.parent = Text::default();
    }
}

/// A refusal's words, unless they tell of a group that is not shown: what is above has limits and uses, too.
pub(in crate::api) fn message<'m>(view: &View<'_>, text: &'m str) -> std::borrow::Cow<'m, str> {
    let names = view.ledger().names();
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "-._".contains(c)));
    let mut groups = words
        .map(|word| word.trim_matches(|c: char| !c.is_ascii_alphanumeric()))
        .filter(|word| !word.is_empty())
        .filter_map(|word| names.known_group(word));
    match groups.all(|group| view.shows(group)) {
        true => text.into(),
        false => "a group above leaves no room for it; whoever sees that group sees why".into(),
    }
}
