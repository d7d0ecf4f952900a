//! Reviews of workloads and of pods' resizes.

use super::{
    Decision, Fit, Reason, Refusal, Verdict, checks,
    refusal::{self, amount},
};
use crate::domain::{
    amounts::Amounts,
    book::{Asked, Error, Spend, Trial},
    event::{Admission, Charge, ObjectRef, Operation, PodResize, Role},
    label_keys::LabelKeys,
    names::{GroupId, KeyId, Names, ObjectId, Uid},
    quantity::Milli,
    quota::{count_key, demand, pod_demand},
    time::Timestamp,
};

/// How long an unconfirmed admission is expected to matter, in milliseconds: the API server's longest request
/// (60 s) and a margin of 15 s. Advice for people; expiry follows a consistent read.
const RESERVED_MS: i64 = 75_000;

/// What a webhook was asked, reduced to what counts.
#[derive(Clone, Debug)]
pub struct Review<'r> {
    /// Uid of the review.
    pub request: &'r str,
    /// The cluster that asks, by name.
    pub cluster: &'r str,
    /// What is asked.
    pub operation: Operation,
    /// The workload; of a resize the pod's top-level workload.
    pub workload: &'r ObjectRef<'r>,
    /// Version of the object that is changed (of a resize, the pod's).
    pub old_resource_version: Option<&'r str>,
    /// The group that the object names (its label, else its pod template's, else its namespace's).
    pub group: Option<&'r str>,
    /// What to do if it names none.
    pub missing: MissingGroup<'r>,
    /// By which labels it could name one, and its models.
    pub labels: &'r LabelKeys,
    /// What it is to ask for.
    pub roles: &'r [Role<'r>],
    /// Of an update: what it was.
    pub old: Option<Former<'r>>,
    /// Of a resize: the pod. Of a pod that its workload's controller makes, too: it comes on top of the others.
    pub resize: Option<&'r PodResize<'r>>,
    /// What containers leave open.
    pub undeclared: &'r [Undeclared<'r>],
    /// Of a create: the reviewer's own watch shows an object of this name that is not being deleted, so that
    /// the create will end in a conflict.
    pub name_is_taken: bool,
    /// Of what the controller of a workload's kind makes (a ReplicaSet, a pod): the top-level workload, whose
    /// reservation it may use up.
    pub draws_on: Option<&'r ObjectRef<'r>>,
    /// Of a pod that draws on a reservation: the others that were let draw on it and are not in the book yet.
    pub drawn: &'r [PodResize<'r>],
    /// Of what makes other workloads, one at a time (a CronJob): what one of them asks for. It must fit the
    /// limits alone, else it never will.
    pub makes: &'r [Role<'r>],
    /// What is wrong with an amount; the roles then say nothing.
    pub invalid: Option<&'r str>,
}

/// A group for what names none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingGroup<'r> {
    /// Allowed, metered under the empty group.
    #[default]
    Allow,
    /// `GroupMissing`.
    Refuse,
    /// This group.
    Default(&'r str),
}

/// What an object was before an update.
#[derive(Clone, Copy, Debug)]
pub struct Former<'r> {
    /// Its group, resolved as the new one is; empty for none.
    pub group: &'r str,
    /// What it asked for.
    pub roles: &'r [Role<'r>],
}

/// A value that a container does not declare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undeclared<'r> {
    /// The container.
    pub container: &'r str,
    /// The key that it would count under: `limits.cpu`.
    pub key: &'r str,
}

/// What a review comes down to.
pub(super) struct Case {
    pub(super) asked: Asked,
    /// Of some key more is asked than the old object had.
    needs: bool,
    /// Keys of which that is so, and that exceed the present charge in the group.
    pub(super) grow: Vec<KeyId>,
    moved: bool,
}

/// Decides a review; what must be recorded stays in force in the trial. `spend` and `now` matter to time
/// budgets only (and `now` to the advice in the record).
pub fn decide<'r>(
    trial: &mut Trial<'_>,
    names: &mut Names,
    spend: &impl Spend,
    review: &Review<'r>,
    now: Timestamp,
) -> Verdict<Admission<'r>> {
    let ends_in_conflict = review.operation == Operation::Create && review.name_is_taken;
    if review.operation == Operation::Delete || ends_in_conflict {
        return Decision::Allowed.into();
    }
    let named = review.group.filter(|g| !g.is_empty());
    let group = match (named, review.missing) {
        (Some(group), _) | (None, MissingGroup::Default(group)) => group,
        (None, MissingGroup::Allow) => "",
        (None, MissingGroup::Refuse) => {
            return checks::group_missing(review.workload, &review.labels.group).into();
        }
    };
    let admission = admission(review, group, now);
    let Some(id) = names.known_group(group) else {
        // A name that nobody declared is not learned from a review; what only shrinks there may pass all the same.
        let shrinks = review.invalid.is_none() && shrinks(trial, names, review, group);
        let allowed = Decision::Allowed.into();
        return if shrinks { allowed } else { checks::not_declared(group).into() };
    };
    if let Some(why) = review.invalid {
        let invalid = || Refusal::new(Reason::InvalidQuantity, why);
        return checks::frozen(trial, group, id).unwrap_or_else(invalid).into();
    }
    if draws(trial, names, review, id) {
        return Decision::Allowed.into();
    }
    let case = match weigh(trial, names, review, &admission, id) {
        Ok(case) => case,
        Err(refusal) => {
            // So much that no limit could hold it: how many would be accepted is known all the same.
            let fit = checks::frozen(trial, group, id)
                .map_or_else(|| fit(trial, names, review, &admission), |_| None);
            return refusal.with(fit).into();
        }
    };
    let neutral = !case.needs && !case.moved;
    if neutral && review.makes.is_empty() {
        return Decision::Allowed.into();
    }
    if !case.grow.is_empty() || case.moved || !review.makes.is_empty() {
        let refused = checks::frozen(trial, group, id)
            .or_else(|| checks::unspecified(trial, names, review, id))
            .or_else(|| checks::model_required(trial, names, review, id))
            .or_else(|| checks::cash_out(trial, names, spend, &case, now))
            .or_else(|| checks::never_fits(trial, names, review, id));
        if let Some(refusal) = refused {
            return refusal.into();
        }
    }
    if neutral {
        return Decision::Allowed.into();
    }
    let mark = trial.mark();
    trial.reserve(&case.asked);
    let exceeded = trial.exceeded(mark);
    if !exceeded.is_empty() {
        trial.back(mark);
        let fit = fit(trial, names, review, &admission);
        return Refusal::exceeded(names, exceeded, fit).into();
    }
    let full = trial.nearly_full(mark);
    let warnings = full.into_iter().map(|(group, key)| near(trial, names, group, key)).collect();
    Verdict { decision: Decision::Record(admission), warnings }
}

/// The record of a review in `group`.
fn admission<'r>(review: &Review<'r>, group: &'r str, now: Timestamp) -> Admission<'r> {
    let moved = review.old.filter(|old| review.resize.is_none() && old.group != group);
    Admission {
        request: review.request.into(),
        cluster: review.cluster.into(),
        operation: review.operation,
        workload: review.workload.borrowed(),
        old_resource_version: review.old_resource_version.map(Into::into),
        group: group.into(),
        roles: review.roles.to_vec(),
        old_roles: moved.map(|old| old.roles.to_vec()),
        resize: review.resize.cloned(),
        reserved_until: now.shifted(RESERVED_MS),
    }
}

/// What is asked for, and what of it is more than before.
fn weigh(
    trial: &Trial<'_>,
    names: &mut Names,
    review: &Review<'_>,
    admission: &Admission<'_>,
    group: GroupId,
) -> Result<Case, Refusal> {
    let asked = trial.asked(names, admission).map_err(|error| unreadable(&error))?;
    if let Some(more) = asked.resized() {
        let grow: Vec<_> = more.iter().filter(|(_, by)| *by > 0).map(|(key, _)| key).collect();
        return Ok(Case { needs: !grow.is_empty(), grow, moved: false, asked });
    }
    let moved = admission.old_roles.is_some();
    let old = match review.old.filter(|_| !moved) {
        Some(old) => demand_in(trial, group, review.workload, old.roles, names)?,
        None => Amounts::default(),
    };
    let (groups, charge) = trial.charge_of(asked.workload);
    let whole;
    // A new group is asked for all that is charged elsewhere, too.
    let ask = if moved {
        let mut all = Amounts::clone(&asked.demand);
        all.raise_all(&charge);
        whole = all;
        &whole
    } else {
        &*asked.demand
    };
    let inside = groups.contains(&group);
    let (mut old, mut present) = (old.walk(), charge.walk());
    let (mut needs, mut grow) = (false, Vec::new());
    for (key, ask) in ask.iter() {
        let (old, present) = (old.at(key), present.at(key));
        if ask > old {
            needs = true;
            if !inside || ask > present {
                grow.push(key);
            }
        }
    }
    Ok(Case { needs, grow, moved, asked })
}

/// Whether what a controller makes is covered by what its workload was promised. A pod needs what no other pod
/// of the workload uses; what is between them (a ReplicaSet) may ask for as much as the workload, since its pods are
/// reviewed, too.
fn draws(trial: &Trial<'_>, names: &mut Names, review: &Review<'_>, group: GroupId) -> bool {
    let Some(top) = review.draws_on else { return false };
    let Some(cluster) = names.known_cluster_of(review.cluster) else {
        return false;
    };
    let top = ObjectId { cluster, uid: Uid::of(&top.uid) };
    let (asked, (groups, room)) = match review.resize {
        Some(pod) => (pod_demand(&pod.to, &pod.models, names), trial.unused_of(top)),
        None => {
            let asked = demand(review.workload, review.roles, Charge::Steady, names);
            (asked, trial.charge_of(top))
        }
    };
    let own = names.known_key(&count_key(review.workload));
    let drawn = review.drawn.iter().map(|pod| pod_demand(&pod.to, &pod.models, names));
    let Ok(drawn) = drawn.collect::<Result<Vec<_>, _>>() else { return false };
    let fits = |(key, ask): (KeyId, Milli)| {
        let with = |sum: Milli, pod: &Amounts| sum.saturating_add(pod.get(key));
        Some(key) == own || drawn.iter().fold(ask, with) <= room.get(key)
    };
    groups.contains(&group) && asked.is_ok_and(|asked| asked.iter().all(fits))
}

fn demand_in(
    trial: &Trial<'_>,
    group: GroupId,
    object: &ObjectRef<'_>,
    roles: &[Role<'_>],
    names: &mut Names,
) -> Result<Amounts, Refusal> {
    trial.demand_in(group, object, roles, names).map_err(|error| unreadable(&error))
}

/// Whether an update in a group that nobody declared asks for no more of any key.
fn shrinks(trial: &Trial<'_>, names: &mut Names, review: &Review<'_>, group: &str) -> bool {
    let Some(old) = review.old.filter(|old| old.group == group && review.resize.is_none()) else {
        return false;
    };
    let mut demand = |roles| demand_in(trial, GroupId::NONE, review.workload, roles, names);
    let (Ok(old), Ok(new)) = (demand(old.roles), demand(review.roles)) else { return false };
    new.iter().all(|(key, ask)| ask <= old.get(key))
}

fn unreadable(error: &Error) -> Refusal {
    match error {
        Error::Overflow(_) => Refusal::new(
            Reason::InvalidQuantity,
            "its pods times what each of them asks for is more than any amount that can be counted; write fewer \
             replicas, or smaller requests and limits",
        ),
        Error::NotAVersion(_) => Refusal::new(Reason::MalformedObject, error.to_string()),
    }
}

/// How many replicas would be accepted, if exactly one role grows: found by halving, in 64 tries at most.
fn fit(
    trial: &mut Trial<'_>,
    names: &mut Names,
    review: &Review<'_>,
    admission: &Admission<'_>,
) -> Option<Fit> {
    if review.resize.is_some() {
        return None;
    }
    let old_count = |role: &Role<'_>| {
        let mut old = review.old.iter().flat_map(|old| old.roles);
        old.find(|old| old.name == role.name && old.pod == role.pod).map_or(0, |old| old.count)
    };
    let growing = |(_, role): &(usize, &Role<'_>)| role.count > old_count(role);
    let mut growing = (0_usize..).zip(review.roles).filter(growing);
    let (Some((at, role)), None) = (growing.next(), growing.next()) else { return None };
    let of = role.count;
    let surge = role.peak.saturating_sub(role.count);
    let mut fewer = admission.clone();
    let mut fits = |count: u64| {
        if let Some(role) = fewer.roles.get_mut(at) {
            role.count = count;
            role.peak = count.saturating_add(surge);
        }
        let Ok(asked) = trial.asked(names, &fewer) else { return false };
        let mark = trial.mark();
        trial.reserve(&asked);
        let fits = trial.exceeded(mark).is_empty();
        trial.back(mark);
        fits
    };
    let (mut low, mut high) = (0, of.saturating_sub(1));
    while low < high {
        let middle = high.midpoint(low.saturating_add(1));
        if fits(middle) { low = middle } else { high = middle.saturating_sub(1) }
    }
    // Nothing of this role at all may still be too much, if something else grows too.
    (low > 0 || fits(0)).then_some(Fit { replicas: low, of })
}

fn near(trial: &Trial<'_>, names: &Names, group: GroupId, key: KeyId) -> String {
    let line = trial.line(group, key);
    format!(
        "group `{}` now uses {} of {} {}",
        names.group_name(group),
        amount(names, key, line.used),
        amount(names, key, line.limit.unwrap_or_default()),
        names.key_name(key)
    )
}

/// Used by [`checks`] to print budgets.
pub(super) fn budget_line(
    names: &Names,
    group: GroupId,
    key: KeyId,
    budget: KeyId,
    used: i128,
    limit: i128,
) -> String {
    format!(
        "exhausted budget: {}, requested: {}, used: {name}={}, limited: {name}={}",
        names.group_name(group),
        names.key_name(key),
        refusal::amount(names, budget, used),
        refusal::amount(names, budget, limit),
        name = names.key_name(budget)
    )
}
