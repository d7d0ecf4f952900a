//! What is told to the book, as events: for those who fold the same history with a whole ledger.

use super::world::{Dem, Real, object, resources};
use bizrq::domain::{
    event::{
        Data, Event, EventId, PodCreated, PodMoved, PodResized, PodStarted, PodStopped,
        ResizeBasis, StartBasis, StopBasis,
    },
    resources::Models,
};
use std::sync::Arc;

impl Real {
    /// Keeps an event that says what is told to the book.
    pub(super) fn note(&mut self, subject: &str, data: Data<'static>) {
        let time = self.time();
        self.told.push(Event {
            id: EventId(self.told.len() as u128 + 1),
            source: "/clusters/east".into(),
            subject: subject.to_owned().into(),
            time,
            recorded_at: time,
            data,
        });
    }

    /// What an observer would say of a pod that is so now.
    pub(super) fn note_pod(
        &mut self,
        uid: u32,
        top: u32,
        group: &'static str,
        dem: Dem,
        bound: bool,
    ) {
        let (name, owner) = (format!("u{uid}"), Some(object(top, "")));
        let (held, models) = (Arc::new(resources(dem)), Models::default());
        let known = self.pods.get(&uid).copied();
        if known.is_none_or(|(.., was_bound)| bound && !was_bound) {
            let (uid, owner, reserved) = (name.clone().into(), owner.clone(), Arc::clone(&held));
            let data = match bound {
                false => {
                    let group = group.into();
                    Data::PodCreated(PodCreated { uid, owner, group, models, reserved })
                }
                true => Data::PodStarted(PodStarted {
                    uid,
                    owner,
                    group: group.into(),
                    models,
                    node: "n1".into(),
                    held,
                    reserved: None,
                    basis: StartBasis::Bound,
                }),
            };
            self.note("pods/web/p", data);
            return;
        }
        let uid = name.into();
        if known.is_some_and(|(was_top, was, ..)| (was_top, was) != (top, group)) {
            let data = PodMoved { uid, owner, group: group.into(), models };
            self.note("pods/web/p", Data::PodMoved(data));
        } else {
            let basis = ResizeBasis::KubeletStatus;
            let data = PodResized { uid, held, reserved: None, basis };
            self.note("pods/web/p", Data::PodResized(data));
        }
    }

    /// What an observer would say of a pod that ends now.
    pub(super) fn note_end(&mut self, uid: u32) {
        let now = self.time();
        let data = PodStopped {
            uid: format!("u{uid}").into(),
            earliest: now,
            latest: now,
            basis: StopBasis::TerminalStatus,
            phase: "Succeeded".into(),
            reason: "".into(),
            ran: None,
        };
        self.note("pods/web/p", Data::PodStopped(data));
    }
}
