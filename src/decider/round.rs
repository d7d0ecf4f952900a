//! One round: reviews are decided one after another on the ledger and the overlay, and become one event.
//!
//! ```text
//!  asks ─▶ asked before? ─▶ settled
//!      └─▶ decided in order ─▶ settled, up to the first that must be recorded;
//!                           ─▶ from there on held: true once the event has landed
//! ```
//!
//! Nothing here waits or appends.

use super::{
    Answer, Ask, Unavailable, What, Workload,
    draws::{self, Draws},
    overlay::Overlay,
    queue::Pending,
    recent::{Recent, RequestId},
};
use crate::{
    domain::{
        admission::{self, Decision, Reason, Refusal, Verdict},
        book::Trial,
        event::{Admission, Data, Event, EventId, Position, QuotaProposed, WorkloadsAdmitted},
        meter::Meter,
        names::{Names, ObjectId, Set, Uid},
        time::Timestamp,
    },
    event_log::NewEvent,
    projection::Desk,
};

/// What a round goes by.
pub(super) struct Basis<'b> {
    pub(super) overlay: &'b mut Overlay,
    pub(super) recent: &'b Recent,
    pub(super) draws: &'b Draws,
    /// A decision record that the projection has read. The ledger may not know it for one (a type of a newer build).
    pub(super) floor: Position,
    pub(super) now: Timestamp,
    /// A larger event is not appended.
    pub(super) batch_bytes: usize,
}

/// What came of a round.
#[derive(Default)]
pub(super) struct Round {
    /// Answered, whatever becomes of the draft.
    pub(super) settled: Vec<(Pending, Answer)>,
    /// How many were asked before.
    pub(super) repeated: u64,
    /// What must be on the log first.
    pub(super) draft: Option<Draft>,
    /// To be decided in another round.
    pub(super) left: Vec<Pending>,
    /// The last decision by which it was judged.
    pub(super) known: Position,
}

/// An event to be appended, and who waits for it.
pub(super) struct Draft {
    pub(super) encoded: NewEvent,
    pub(super) event: Event<'static>,
    pub(super) callers: Vec<(Pending, Hanging)>,
}

/// An answer that hangs on a draft.
pub(super) enum Hanging {
    /// Allowed by the draft itself, with these warnings.
    Recorded(Vec<String>),
    /// Decided behind something in the draft.
    Behind(Answer),
    /// The same as the one before that has this request.
    SameAs(RequestId),
}

/// What is to be recorded.
// Nearly everything is an admission: a box would cost an allocation for each.
#[allow(clippy::large_enum_variant)]
enum Record {
    Admission(Admission<'static>),
    Proposal(QuotaProposed<'static>),
}

/// Decides `asks`: workloads of one cluster, or one quota object.
pub(super) fn decide(mut desk: Desk<'_>, basis: &mut Basis<'_>, asks: Vec<Pending>) -> Round {
    let seen = desk.position();
    basis.overlay.read(seen);
    let mut round = Round::default();
    let (fresh, twins) = round.settle_known(&desk, basis.recent, asks);
    let read = desk.last_decision().max(basis.floor);
    round.known = basis.overlay.last().map_or(read, |position| position.max(read));
    let decided = desk.decide(|trial, names, meter| {
        basis.overlay.redo(trial, names).map_err(|error| error.to_string())?;
        let mut judge = |p: &Pending| {
            judge(&mut World { trial, names, meter }, &p.ask, seen, basis.draws, basis.now)
        };
        Ok::<_, String>(fresh.iter().map(&mut judge).collect::<Vec<_>>())
    });
    // The fold goes on while the event is written.
    drop(desk);
    match decided.unwrap_or_else(|| Err("it keeps no quotas".to_owned())) {
        Ok(decided) => {
            let mut drawn = Drawn::default();
            fresh
                .into_iter()
                .zip(decided)
                .for_each(|(pending, decided)| drawn.add(pending, decided));
            round.draw(drawn, seen, basis);
        }
        Err(why) => {
            let answer = |p| (p, Answer::from(Unavailable::Stopped { why: why.clone() }));
            round.settled.extend(fresh.into_iter().map(answer));
        }
    }
    round.place_twins(twins);
    round
}

/// Whether a review lets nothing grow, so that it needs no log.
pub(super) fn grows_nothing(
    mut desk: Desk<'_>,
    ask: &Ask,
    draws: &Draws,
    now: Timestamp,
) -> Option<Answer> {
    let What::Workload(workload) = &ask.what else { return None };
    let (decision, warnings) = desk.decide(|trial, names, meter| {
        judge_workload(&mut World { trial, names, meter }, ask, workload, draws, now)
    })?;
    matches!(decision, Decision::Allowed).then_some(Answer::Allowed { recorded: None, warnings })
}

type Decided = (Decision<Record>, Vec<String>);

/// What is decided on.
struct World<'w, 'b> {
    trial: &'w mut Trial<'b>,
    names: &'w mut Names,
    meter: &'w Meter,
}

fn judge(
    world: &mut World<'_, '_>,
    ask: &Ask,
    seen: Position,
    draws: &Draws,
    now: Timestamp,
) -> Decided {
    let mark = ask.dry_run.then(|| world.trial.mark());
    let decided = match &ask.what {
        What::Workload(workload) => judge_workload(world, ask, workload, draws, now),
        What::Quota(quota) => {
            let review = quota.review(ask, seen);
            let World { trial, names, meter } = world;
            owned(admission::decide_quota(trial, names, *meter, &review, now), |proposal| {
                Record::Proposal(proposal.into_owned())
            })
        }
    };
    let Some(mark) = mark else { return decided };
    world.trial.back(mark);
    match decided {
        (Decision::Record(_), warnings) => (Decision::Allowed, warnings),
        decided => decided,
    }
}

/// A pod that is let draw on its workload's promise is remembered until it is seen.
fn judge_workload(
    World { trial, names, meter }: &mut World<'_, '_>,
    ask: &Ask,
    workload: &Workload,
    draws: &Draws,
    now: Timestamp,
) -> Decided {
    let open = workload.open();
    let mut review = workload.review(ask, &open);
    let record = |admission: Admission<'_>| Record::Admission(admission.into_owned());
    let Some((top, pod)) = workload.draws() else {
        return owned(admission::decide(trial, names, *meter, &review, now), record);
    };
    let (top, mut drawn) = (draws::workload(&ask.cluster, top), draws.lock());
    let cluster = names.known_cluster_of(&ask.cluster);
    let seen = |uid: &str| {
        let pod = cluster.map(|cluster| ObjectId { cluster, uid: Uid::of(uid) });
        pod.is_some_and(|pod| meter.pod(pod).is_some())
    };
    let others = drawn.others(top, pod, seen);
    review.drawn = &others;
    let decided = owned(admission::decide(trial, names, *meter, &review, now), record);
    if matches!(decided.0, Decision::Allowed) && !ask.dry_run {
        drawn.put(top, pod.clone());
    }
    decided
}

fn owned<R>(verdict: Verdict<R>, record: impl FnOnce(R) -> Record) -> Decided {
    let decision = match verdict.decision {
        Decision::Allowed => Decision::Allowed,
        Decision::Record(decided) => Decision::Record(record(decided)),
        Decision::Refused(refusal) => Decision::Refused(refusal),
    };
    (decision, verdict.warnings)
}

/// Decided asks in their order, and apart from them what is to be recorded, in the same order.
#[derive(Default)]
struct Drawn {
    asks: Vec<(Pending, Hanging)>,
    admissions: Vec<Admission<'static>>,
    proposal: Option<QuotaProposed<'static>>,
}

impl Drawn {
    fn add(&mut self, pending: Pending, (decision, warnings): Decided) {
        let answer = match decision {
            Decision::Allowed => Hanging::Behind(Answer::Allowed { recorded: None, warnings }),
            Decision::Refused(refusal) => Hanging::Behind((*refusal).into()),
            Decision::Record(record) => {
                match record {
                    Record::Admission(admission) => self.admissions.push(admission),
                    Record::Proposal(proposal) => self.proposal = Some(proposal),
                }
                Hanging::Recorded(warnings)
            }
        };
        self.asks.push((pending, answer));
    }

    /// The place of the record of this number among the asks.
    fn place(&self, number: usize) -> Option<usize> {
        let recorded = |(_, answer): &(Pending, Hanging)| matches!(answer, Hanging::Recorded(_));
        let mut places = (0..).zip(&self.asks).filter(|(_, ask)| recorded(ask));
        places.nth(number).map(|(at, _)| at)
    }

    /// The event that records what is to be recorded; `None`: nothing is.
    fn event(&mut self, seen: Position, now: Timestamp) -> Option<Event<'static>> {
        let (Pending { ask, .. }, _) = self.asks.first()?;
        let (subject, data) = match (&ask.what, self.proposal.take()) {
            (What::Quota(quota), Some(proposal)) => {
                (format!("quotas/{}", quota.name), Data::QuotaProposed(proposal))
            }
            _ if self.admissions.is_empty() => return None,
            _ => {
                let admissions = std::mem::take(&mut self.admissions);
                let batch = WorkloadsAdmitted { seen, admissions };
                ("decisions".to_owned(), Data::WorkloadsAdmitted(batch))
            }
        };
        Some(Event {
            id: EventId::default(),
            source: format!("/clusters/{}", ask.cluster).into(),
            subject: subject.into(),
            time: now,
            recorded_at: now,
            data,
        })
    }
}

impl Round {
    /// Settles what was asked before. What was not is returned, and apart from it what is asked twice just now.
    fn settle_known(
        &mut self,
        desk: &Desk<'_>,
        recent: &Recent,
        asks: Vec<Pending>,
    ) -> (Vec<Pending>, Vec<(Pending, RequestId)>) {
        let (mut fresh, mut twins, mut met) = (Vec::new(), Vec::new(), Set::default());
        for pending in asks {
            let ask = &pending.ask;
            if ask.dry_run {
                fresh.push(pending);
                continue;
            }
            let id = RequestId::of(ask);
            let recorded = || desk.recorded(&ask.cluster, &ask.request);
            let known = recent.get(id).cloned();
            let known = known.or_else(|| Some(Answer::recorded(recorded()?, Vec::new())));
            match known {
                Some(answer) => {
                    self.repeated += 1;
                    self.settled.push((pending, answer));
                }
                None if met.insert(id) => fresh.push(pending),
                None => twins.push((pending, id)),
            }
        }
        (fresh, twins)
    }

    /// Turns what was decided into answers and a draft; what makes it too large is left for another round.
    fn draw(&mut self, mut drawn: Drawn, seen: Position, basis: &Basis<'_>) {
        while let Some(event) = drawn.event(seen, basis.now) {
            let encoded = match NewEvent::decision(&event) {
                Ok(encoded) if encoded.bytes() <= basis.batch_bytes => encoded,
                Ok(encoded) => {
                    self.cut(&mut drawn, event, encoded.bytes(), basis.batch_bytes);
                    continue;
                }
                Err(error) => {
                    let why = error.to_string();
                    self.cut_at(&mut drawn, 0, |_| Unavailable::Log { why: why.clone() }.into());
                    break;
                }
            };
            let first = drawn.place(0).unwrap_or(drawn.asks.len());
            let callers = drawn.asks.split_off(first);
            self.draft = Some(Draft { encoded, event, callers });
            break;
        }
        self.settled.extend(drawn.asks.into_iter().filter_map(|(pending, answer)| match answer {
            Hanging::Behind(answer) => Some((pending, answer)),
            _ => None,
        }));
    }

    /// Makes the draft smaller by half; refuses what alone is more than a record may be.
    fn cut(&mut self, drawn: &mut Drawn, event: Event<'static>, bytes: usize, most: usize) {
        if let Data::WorkloadsAdmitted(mut batch) = event.data
            && batch.admissions.len() > 1
        {
            let half = batch.admissions.len() / 2;
            batch.admissions.truncate(half);
            drawn.admissions = batch.admissions;
            let from = drawn.place(half).unwrap_or(drawn.asks.len());
            self.left.splice(0..0, drawn.asks.drain(from..).map(|(pending, _)| pending));
            return;
        }
        self.cut_at(drawn, 0, |_| {
            let message = format!(
                "it takes {bytes} bytes to record, and a record holds {most}; give it fewer roles, \
                 keys or containers"
            );
            Refusal::new(Reason::MalformedObject, message).into()
        });
    }

    /// Answers the record of this number itself; what was decided behind it is left.
    fn cut_at(&mut self, drawn: &mut Drawn, number: usize, answer: impl Fn(&Pending) -> Answer) {
        let Some(at) = drawn.place(number) else { return };
        let mut behind = drawn.asks.drain(at..).map(|(pending, _)| pending);
        if let Some(pending) = behind.next() {
            let answer = answer(&pending);
            self.settled.push((pending, answer));
        }
        self.left.splice(0..0, behind);
    }

    /// Who asks twice at once is told what the first is told.
    fn place_twins(&mut self, twins: Vec<(Pending, RequestId)>) {
        for (pending, id) in twins {
            let is_same = |other: &Pending| RequestId::of(&other.ask) == id;
            let settled = self.settled.iter().find(|(other, _)| is_same(other));
            if let Some((_, answer)) = settled {
                let answer = answer.clone();
                self.repeated += 1;
                self.settled.push((pending, answer));
                continue;
            }
            match self.draft.as_mut().filter(|d| d.callers.iter().any(|(p, _)| is_same(p))) {
                Some(draft) => {
                    self.repeated += 1;
                    draft.callers.push((pending, Hanging::SameAs(id)));
                }
                None => self.left.push(pending),
            }
        }
    }
}
