//! Reviews: what the webhooks are asked, decided by the real rules, recorded before anybody hears "allowed".

use super::{
    CLUSTERS, Error, MINUTE, Refused, SECOND, cast,
    cast::Group,
    door::{Door, Told},
    life::Workload,
    manifests,
    queue::Happening,
    record::Said,
    world::World,
};
use crate::domain::{
    admission::{Decision, Former, MissingGroup, QuotaReview, Review, decide, decide_quota},
    event::{
        self, Data, Operation, PodResize, QuotaDeclared, Role, WorkloadsAdmitted, WorkloadsRefused,
    },
    label_keys::LabelKeys,
    time::Timestamp,
};

/// What somebody asks about a workload.
pub(super) struct Ask {
    pub(super) work: u64,
    pub(super) operation: Operation,
    /// The group that it is to be in.
    pub(super) group: String,
    /// What it is to ask for.
    pub(super) role: Role<'static>,
    /// Of a pod's resize: the pod.
    pub(super) resize: Option<PodResize<'static>>,
}

/// What was answered.
pub(super) enum Answer {
    /// Nothing grows: no record was needed.
    Allowed,
    /// Allowed, and recorded.
    Admitted,
    /// Refused, and noted.
    Refused(Told),
}

impl Answer {
    pub(super) fn is_yes(&self) -> bool {
        !matches!(self, Self::Refused(_))
    }
}

impl From<Told> for Answer {
    fn from(told: Told) -> Self {
        match told {
            Told { allowed: false, .. } => Self::Refused(told),
            Told { recorded: true, .. } => Self::Admitted,
            _ => Self::Allowed,
        }
    }
}

impl World {
    /// Reviews what one cluster asks at one moment: one after another, recorded as one batch.
    pub(super) fn review(&mut self, now: Timestamp, asks: &[Ask]) -> Result<Vec<Answer>, Error> {
        let Some(cluster) = asks.first().and_then(|a| self.works.get(&a.work)).map(|w| w.cluster)
        else {
            return Ok(Vec::new());
        };
        let requests: Vec<String> = asks.iter().map(|_| self.random.uuid()).collect();
        let (name, source) = (self.cluster(cluster).name, self.cluster(cluster).source);
        let versions: Vec<String> = asks.iter().map(|ask| self.old_version(ask)).collect();
        let seen = self.record.ledger.position();
        let (mut admissions, mut answers) = (Vec::new(), Vec::new());
        let works = &self.works;
        self.record.ledger.decide(|trial, names, meter| {
            for ((ask, request), version) in asks.iter().zip(&requests).zip(&versions) {
                let Some(work) = works.get(&ask.work) else { continue };
                let old = Former { group: &work.group, roles: std::slice::from_ref(&work.role) };
                let updates = ask.operation == Operation::Update;
                let review = Review {
                    request,
                    cluster: name,
                    operation: ask.operation,
                    workload: &work.object,
                    old_resource_version: updates.then_some(&**version),
                    group: Some(&ask.group),
                    missing: MissingGroup::Allow,
                    labels: &LabelKeys::USUAL,
                    roles: std::slice::from_ref(&ask.role),
                    old: updates.then_some(old),
                    resize: ask.resize.as_ref(),
                    undeclared: &[],
                    name_is_taken: false,
                    draws_on: None,
                    drawn: &[],
                    makes: &[],
                    invalid: None,
                };
                answers.push(match decide(trial, names, meter, &review, now).decision {
                    Decision::Allowed => Answer::Allowed,
                    Decision::Record(admission) => {
                        admissions.push(admission);
                        Answer::Admitted
                    }
                    Decision::Refused(refusal) => Answer::Refused(Told::no(*refusal)),
                });
            }
        });
        if !admissions.is_empty() {
            let data = Data::WorkloadsAdmitted(WorkloadsAdmitted { seen, admissions });
            self.record.decide(Said { source, subject: "decisions", time: now, now, data })?;
        }
        self.note_refusals(now, cluster, asks, &answers)?;
        Ok(answers)
    }

    /// Reviews one thing.
    pub(super) fn review_one(&mut self, now: Timestamp, ask: Ask) -> Result<Answer, Error> {
        let asks = [ask];
        let answers = match self.door.take() {
            None => self.review(now, &asks)?,
            Some(mut door) => {
                let answered = self.ask_at(&mut *door, now, &asks);
                self.door = Some(door);
                answered?
            }
        };
        let what = || "nobody answered a review".to_owned();
        answers.into_iter().next().ok_or_else(|| Error::Plot { time: now, what: what() })
    }

    /// Asks the webhook what one cluster asks, one after another.
    fn ask_at(
        &mut self,
        door: &mut dyn Door,
        now: Timestamp,
        asks: &[Ask],
    ) -> Result<Vec<Answer>, Error> {
        let mut answers = Vec::new();
        let mut cluster = 0;
        for ask in asks {
            let uid = self.random.uuid();
            let version = self.old_version(ask);
            let Some(work) = self.works.get(&ask.work) else { continue };
            cluster = work.cluster;
            let path = format!("/validate/workloads/{}", CLUSTERS[cluster]);
            let review = ask.review(work, &uid, &version);
            let published = self.record.published(now);
            answers.push(door.ask(&mut self.record, &path, review.to_json(), published)?.into());
            if let (Some(Answer::Admitted | Answer::Allowed), None) = (answers.last(), &ask.resize)
            {
                door.show(CLUSTERS[cluster], &review.object)?;
            }
        }
        self.note_refusals(now, cluster, asks, &answers)?;
        Ok(answers)
    }

    /// Submits a new workload; admitted, it is observed a moment later.
    pub(super) fn submit(&mut self, now: Timestamp, work: u64) -> Result<Answer, Error> {
        let answer = match self.works.get(&work).map(Ask::create) {
            Some(ask) => self.review_one(now, Ask { work, ..ask })?,
            None => return Err(Error::Plot { time: now, what: "a workload is missing".into() }),
        };
        if answer.is_yes() {
            self.seen(now, work);
        } else {
            self.works.remove(&work);
        }
        Ok(answer)
    }

    /// Asks for a workload to become something else; allowed, it does, and is observed a moment later.
    pub(super) fn update(
        &mut self,
        now: Timestamp,
        work: u64,
        change: impl FnOnce(&mut Ask),
    ) -> Result<Answer, Error> {
        let Some(known) = self.works.get(&work) else {
            return Err(Error::Plot { time: now, what: "a workload is missing".into() });
        };
        let mut ask = Ask { work, operation: Operation::Update, ..Ask::create(known) };
        change(&mut ask);
        let (group, role) = (ask.group.clone(), ask.role.clone());
        let answer = self.review_one(now, ask)?;
        if let Some(known) = self.works.get_mut(&work).filter(|_| answer.is_yes()) {
            known.lowered |= known.group != group || role.count < known.role.count;
            known.generation = known.generation.saturating_add(1);
            (known.group, known.role) = (group, role);
            self.seen(now, work);
        }
        Ok(answer)
    }

    /// Reviews a pod's resize.
    pub(super) fn review_resize(
        &mut self,
        now: Timestamp,
        work: u64,
        resize: PodResize<'static>,
    ) -> Result<Answer, Error> {
        let Some(known) = self.works.get(&work) else {
            return Err(Error::Plot { time: now, what: "a workload is missing".into() });
        };
        let ask = Ask::create(known);
        let operation = Operation::Update;
        self.review_one(now, Ask { work, operation, resize: Some(resize), ..ask })
    }

    /// The observer sees a change a moment after the API server made it.
    pub(super) fn seen(&mut self, now: Timestamp, work: u64) {
        self.queue.at(now.shifted(SECOND), Happening::Observe(work));
    }

    /// The version that a review says is changed; of a resize the pod's, which is as new as anything.
    fn old_version(&mut self, ask: &Ask) -> String {
        let known = self.works.get(&ask.work).map(|w| (w.cluster, w.version));
        let (cluster, version) = known.unwrap_or_default();
        if ask.resize.is_some() { self.version(cluster) } else { version }.to_string()
    }

    fn note_refusals(
        &mut self,
        now: Timestamp,
        cluster: usize,
        asks: &[Ask],
        answers: &[Answer],
    ) -> Result<(), Error> {
        let (name, source) = (self.cluster(cluster).name, self.cluster(cluster).source);
        let mut refusals = Vec::new();
        for (ask, answer) in asks.iter().zip(answers) {
            let (Answer::Refused(refusal), Some(work)) = (answer, self.works.get(&ask.work)) else {
                continue;
            };
            self.refusals.push(Refused {
                time: now,
                cluster: name,
                workload: work.title(),
                group: ask.group.clone(),
                reason: refusal.reason.clone(),
                message: refusal.message.clone(),
            });
            refusals.push(event::Refused {
                cluster: name.into(),
                workload: work.object.clone(),
                group: ask.group.clone().into(),
                reason: refusal.reason.clone().into(),
                message: refusal.message.clone().into(),
                count: 1,
                first: now,
                last: now,
            });
        }
        if !refusals.is_empty() {
            let data = Data::WorkloadsRefused(WorkloadsRefused { refusals });
            self.record.tell(Said { source, subject: "refusals", time: now, now, data })?;
        }
        Ok(())
    }

    /// The review of a quota object; let through, it is declared two seconds later.
    pub(super) fn propose(&mut self, now: Timestamp, at: usize) -> Result<(), Error> {
        match self.door.take() {
            None => self.decide_quota(now, at)?,
            Some(mut door) => {
                let asked = self.ask_about_quota(&mut *door, now, at);
                self.door = Some(door);
                asked?;
            }
        }
        self.queue.at(now.shifted(2 * SECOND), Happening::Declare(at));
        Ok(())
    }

    fn ask_about_quota(
        &mut self,
        door: &mut dyn Door,
        now: Timestamp,
        at: usize,
    ) -> Result<(), Error> {
        let uid = self.random.uuid();
        let Some(group) = self.groups.get(at) else { return Ok(()) };
        let version = group.version.as_deref();
        let object = manifests::quota(&group.name, &group.uid, &group.spec, version)?;
        let operation = if version.is_some() { Operation::Update } else { Operation::Create };
        // Of what it was, nobody asks more than its version.
        let old = version.is_some().then(|| object.clone());
        let resource = "bizgroupresourcequotas".to_owned();
        let review = manifests::Review { uid: &uid, operation, resource, object, old };
        let path = format!("/validate/quotas/{}", CLUSTERS[cast::EAST]);
        let published = self.record.published(now);
        let told = door.ask(&mut self.record, &path, review.to_json(), published)?;
        if told.allowed {
            return Ok(());
        }
        let what = format!("the quota of {} is refused: {}", group.name, told.message);
        Err(Error::Plot { time: now, what })
    }

    fn decide_quota(&mut self, now: Timestamp, at: usize) -> Result<(), Error> {
        let Some(group) = self.groups.get(at) else { return Ok(()) };
        let review = QuotaReview {
            seen: self.record.ledger.position(),
            request: None,
            operation: match group.version {
                None => Operation::Create,
                Some(_) => Operation::Update,
            },
            name: &group.name,
            uid: &group.uid,
            old_resource_version: group.version.as_deref(),
            spec: Some(&group.spec),
            allow_orphans: false,
        };
        let ledger = &mut self.record.ledger;
        let verdict = ledger
            .decide(|trial, names, meter| decide_quota(trial, names, meter, &review, now).decision);
        match verdict {
            Some(Decision::Record(proposed)) => {
                let [east, _] = &self.clusters;
                let (source, subject) = (east.source, group.subject());
                let data = Data::QuotaProposed(proposed);
                self.record.decide(Said { source, subject: &subject, time: now, now, data })?;
            }
            Some(Decision::Refused(refusal)) => {
                let what = format!("the quota of {} is refused: {refusal}", group.name);
                return Err(Error::Plot { time: now, what });
            }
            _ => {}
        }
        Ok(())
    }

    /// A quota object as it really is.
    pub(super) fn declare(&mut self, now: Timestamp, at: usize) -> Result<(), Error> {
        let version = self.version(cast::EAST).to_string();
        let Some(group) = self.groups.get_mut(at) else { return Ok(()) };
        group.generation = group.generation.saturating_add(1);
        group.version = Some(version.clone());
        let data = Data::QuotaDeclared(QuotaDeclared {
            uid: group.uid.as_str().into(),
            resource_version: version.into(),
            generation: group.generation,
            spec: group.spec.clone(),
        });
        let [east, _] = &self.clusters;
        let (source, subject) = (east.source, group.subject());
        self.record.tell(Said { source, subject: &subject, time: now, now, data })?;
        Ok(())
    }
}

impl Ask {
    /// A new workload, as it is.
    pub(super) fn create(work: &super::life::Workload) -> Self {
        let (group, role) = (work.group.clone(), work.role.clone());
        Self { work: 0, operation: Operation::Create, group, role, resize: None }
    }

    /// As an API server asks it.
    fn review<'r>(&self, work: &Workload, uid: &'r str, version: &str) -> manifests::Review<'r> {
        let Self { operation, group, role, resize, .. } = self;
        let (operation, object) = (*operation, &work.object);
        if let Some(resize) = resize {
            let name = format!("{}-0", object.name);
            let pod = |holds| manifests::pod(object, group, &name, resize, holds, version);
            let (old, object) = (Some(pod(&resize.from)), pod(&resize.to));
            return manifests::Review {
                uid,
                operation,
                resource: "pods/resize".into(),
                object,
                old,
            };
        }
        let old = (operation == Operation::Update)
            .then(|| manifests::workload(object, &work.group, &work.role, Some(version)));
        let version = old.is_some().then_some(version);
        let resource = manifests::resource(&object.kind);
        let object = manifests::workload(object, group, role, version);
        manifests::Review { uid, operation, resource, object, old }
    }
}

impl Group {
    fn subject(&self) -> String {
        format!("quotas/{}", self.name)
    }
}

/// How long people think before they try again.
pub(super) const THINK: i64 = 4 * MINUTE;
