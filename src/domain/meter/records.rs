//! What each record about a pod changes in its row, and what heartbeats and corrections change.

use super::{Adjusted, Contradiction, MOST_ADJUSTED, Meter, Outcome, Retain, sums_of};
use crate::domain::{
    event::{Event, EventId, PodCreated, PodMoved, PodResized, PodStarted, PodStopped, Position},
    names::{GroupId, KeyId, Names, Uid},
    pod::{Created, Stop, What},
    time::Timestamp,
};

/// Records.
impl Meter {
    /// Takes `pod.created`.
    ///
    /// # Errors
    /// [`Contradiction`]; the meter is unchanged.
    pub fn created(
        &mut self,
        names: &mut Names,
        event: &Event<'_>,
        data: &PodCreated<'_>,
    ) -> Result<Outcome, Contradiction> {
        let (cluster, placement) = self.place(names, event, &data.group, &data.models);
        let reserved = self.shapes.resources(&data.reserved);
        let workload = data.owner.as_ref().map(|o| Uid::of(&o.uid));
        self.record(names, cluster, &data.uid, event.time, |pod| {
            let new = pod.create(Created { placement, reserved });
            if new && !pod.has_started() {
                pod.belongs(workload);
            }
            Ok(new)
        })
    }

    /// Takes `pod.started`.
    ///
    /// # Errors
    /// [`Contradiction`]; the meter is unchanged.
    pub fn started(
        &mut self,
        names: &mut Names,
        event: &Event<'_>,
        data: &PodStarted<'_>,
    ) -> Result<Outcome, Contradiction> {
        let (cluster, placement) = self.place(names, event, &data.group, &data.models);
        let held = self.shapes.resources(&data.held);
        let reserved = self.reserved(held, data.reserved.as_ref());
        let workload = data.owner.as_ref().map(|o| Uid::of(&o.uid));
        let node = self.node(&data.node);
        self.record(names, cluster, &data.uid, event.time, |pod| {
            if pod.node != 0 && node != 0 && pod.node != node {
                let (uid, node) = (data.uid.to_string(), data.node.to_string());
                return Err(Contradiction::TwoNodes { uid, node });
            }
            let new = pod.start(data.basis, event.time, placement, held, reserved);
            if new {
                pod.belongs(workload);
                pod.node = node;
            }
            Ok(new)
        })
    }

    /// Takes `pod.resized`.
    ///
    /// # Errors
    /// [`Contradiction`]; the meter is unchanged.
    pub fn resized(
        &mut self,
        names: &mut Names,
        event: &Event<'_>,
        data: &PodResized<'_>,
    ) -> Result<Outcome, Contradiction> {
        let cluster = names.cluster(&event.source);
        let held = self.shapes.resources(&data.held);
        let reserved = self.reserved(held, data.reserved.as_ref());
        self.record(names, cluster, &data.uid, event.time, |pod| {
            Ok(pod.change(event.time, What::Holds { held, reserved }))
        })
    }

    /// Takes `pod.moved`.
    ///
    /// # Errors
    /// [`Contradiction`]; the meter is unchanged.
    pub fn moved(
        &mut self,
        names: &mut Names,
        event: &Event<'_>,
        data: &PodMoved<'_>,
    ) -> Result<Outcome, Contradiction> {
        let (cluster, placement) = self.place(names, event, &data.group, &data.models);
        let workload = data.owner.as_ref().map(|o| Uid::of(&o.uid));
        self.record(names, cluster, &data.uid, event.time, |pod| {
            let new = pod.change(event.time, What::Is(placement));
            if new {
                pod.belongs(workload);
            }
            Ok(new)
        })
    }

    /// Takes `pod.stopped`, told by the record at `position`.
    ///
    /// # Errors
    /// [`Contradiction`]; the meter is unchanged.
    pub fn stopped(
        &mut self,
        names: &mut Names,
        position: Position,
        event: &Event<'_>,
        data: &PodStopped<'_>,
    ) -> Result<Outcome, Contradiction> {
        let PodStopped { earliest, latest, ran, .. } = *data;
        if latest < earliest {
            return Err(Contradiction::Backwards { field: "earliest..latest" });
        }
        if ran.is_some_and(|ran| ran.to < ran.from) {
            return Err(Contradiction::Backwards { field: "ran" });
        }
        let cluster = names.cluster(&event.source);
        let stop = Stop { basis: data.basis, time: event.time, earliest, latest, ran, position };
        self.record(names, cluster, &data.uid, event.time, |pod| Ok(pod.stop(stop)))
    }

    /// Takes `pod.stop_withdrawn`.
    ///
    /// # Errors
    /// [`Contradiction`]; the meter is unchanged.
    pub fn stop_withdrawn(
        &mut self,
        names: &mut Names,
        event: &Event<'_>,
        uid: &str,
        alive_at: Timestamp,
    ) -> Result<Outcome, Contradiction> {
        let cluster = names.cluster(&event.source);
        self.record(names, cluster, uid, event.time, |pod| Ok(pod.withdraw(alive_at)))
    }

    /// Takes `pod.ran`.
    ///
    /// # Errors
    /// [`Contradiction`]; the meter is unchanged.
    pub fn ran(
        &mut self,
        names: &mut Names,
        event: &Event<'_>,
        uid: &str,
        from: Timestamp,
    ) -> Result<Outcome, Contradiction> {
        let cluster = names.cluster(&event.source);
        self.record(names, cluster, uid, event.time, |pod| Ok(pod.run(from)))
    }

    /// Takes a heartbeat, and forgets what it puts beyond the horizon.
    pub fn synced(&mut self, names: &mut Names, event: &Event<'_>, since: Timestamp) {
        let cluster = names.cluster(&event.source);
        if self.sources.synced(cluster, since, event.time) && self.retain == Retain::Heartbeats {
            self.forget(cluster);
        }
    }

    /// Takes a signed correction: `exact` milli-units × milliseconds of a group's `key`, dated `at`.
    /// Returns whether it was new.
    ///
    /// # Errors
    /// [`Contradiction`]; the meter is unchanged.
    pub fn adjusted(
        &mut self,
        id: EventId,
        group: GroupId,
        key: KeyId,
        at: Timestamp,
        exact: i128,
    ) -> Result<bool, Contradiction> {
        if self.adjusted_ids.contains(&id) {
            return Ok(false);
        }
        if exact.unsigned_abs() > MOST_ADJUSTED {
            return Err(Contradiction::AbsurdCorrection { exact });
        }
        let window = self.window;
        let inside =
            window.from.is_none_or(|from| from <= at) && window.to.is_none_or(|to| at < to);
        if let Some(sums) = sums_of(&mut self.groups, group, self.history).filter(|_| inside) {
            let slot = sums.slot(key);
            sums.adjust(&mut self.splits, slot, at, exact)?;
            self.changed.push((group, at));
            self.adjusted.push(Adjusted { group, key, at, exact });
            self.newest = self.newest.max(Some(at));
        }
        self.adjusted_ids.insert(id);
        Ok(true)
    }
}
