//! A cluster of nothing but documents: what is known of it, the ledger, and each review's answer, which is taken as done.

use super::{explain, input::Document};
use crate::{
    cli::{
        Error,
        opened_log::OpenedLog,
        quota::{check, file::QuotaObject},
    },
    decider::{self, What},
    domain::{
        admission::{self, Decision},
        book::OpenKind,
        event::{
            Admission, Data, Event, EventId, ObjectRef, Operation, PodCreated, QuotaDeclared,
            QuotaProposed, QuotaRemoved, ReservationExpired, Role, WorkloadGone, WorkloadObserved,
            WorkloadsAdmitted,
        },
        label_keys::LabelKeys,
        ledger::{self, Ledger},
        merkle::Hash,
        names::{ObjectId, Uid},
        text::Text,
        time::Timestamp,
    },
    k8s::{
        context::Context,
        crd::QuotaObject as Quota,
        kinds::{Kinds, TableError},
    },
    webhook::{
        Next, Options, Question, Request, Response, Surroundings,
        review::{Body, Verb},
    },
};
use std::sync::Arc;

/// See the head of this file.
pub(super) struct World {
    kinds: Kinds,
    context: Context,
    options: Options,
    ledger: Ledger,
    at: Timestamp,
    /// Versions of objects, as an API server would count them.
    version: u64,
}

/// What became of a document.
pub(super) struct Reviewed {
    /// `Deployment web/shop`.
    pub(super) what: String,
    /// What an API server would be told.
    pub(super) response: Response,
    /// What it asks for and what its groups have, a line each.
    pub(super) explain: Vec<String>,
}

impl World {
    /// Nothing but the kinds that ship, in a cluster of this name.
    pub(super) fn new(cluster: &str, at: Timestamp, labels: LabelKeys) -> Result<Self, Error> {
        let kinds = Kinds::builtin().map_err(|e| Error::input("the table of kinds", e))?;
        Ok(Self {
            kinds,
            context: Context::new(Arc::new(labels)),
            options: Options::new(cluster),
            ledger: Ledger::new(ledger::Options::default()),
            at,
            version: 1 << 40,
        })
    }

    pub(super) fn declare_kinds(&mut self, table: &str) -> Result<(), TableError> {
        self.kinds.declare(table)
    }

    /// Declares quotas before anything else happens; whether there were any.
    pub(super) fn declare(&mut self, quotas: Vec<QuotaObject>) -> Result<bool, Error> {
        let quotas = check::parents_first(quotas);
        let event = |quota| check::event(quota, 1, "/operators/review", Timestamp::MIN);
        let events: Vec<_> = quotas.iter().map(event).collect();
        let faults = check::declare(&mut self.ledger, &quotas, &events)
            .map_err(|e| Error::input("quotas", e))?;
        match faults.into_iter().next() {
            Some(fault) => {
                Err(Error::input(fault.place, format!("{}: {}", fault.reason, fault.why)))
            }
            None => Ok(!quotas.is_empty()),
        }
    }

    /// Takes in what a log says; where quotas were given, all but its own.
    pub(super) fn read(&mut self, log: &OpenedLog, declared: bool) -> Result<(), Error> {
        self.ledger.begin_log();
        let is_quota = |data: &Data<'_>| {
            matches!(data, Data::QuotaDeclared(_) | Data::QuotaRemoved(_) | Data::QuotaProposed(_))
        };
        log.fold(&mut self.ledger, |event| !declared || !is_quota(&event.data), |_| {})
    }

    /// Takes in what other documents are judged by.
    pub(super) fn learn(&mut self, document: &Document) -> Result<(), Error> {
        if !is_surrounding(document) {
            return Ok(());
        }
        let seen = self.context.see(&self.kinds, &document.json);
        seen.map(drop).map_err(|e| Error::input(&document.place, e))
    }

    /// Answers a document; `None` if there is nothing to answer.
    pub(super) fn review(&mut self, document: &Document) -> Result<Option<Reviewed>, Error> {
        if is_surrounding(document) {
            return Ok(None);
        }
        let failed = |why: String| Error::input(&document.place, why);
        let request = if document.kind == "AdmissionReview" {
            self.options.offline = false;
            let decoded = Request::decode(document.json.as_bytes(), &self.kinds);
            decoded.map_err(|e| failed(e.to_string()))?
        } else {
            self.options.offline = true;
            self.manifest(document).map_err(failed)?
        };
        let what = named(&request);
        let around =
            Surroundings { kinds: &self.kinds, context: &self.context, options: &self.options };
        let (response, explain) = match request.next(&around) {
            Next::Said(response) => (response, Vec::new()),
            Next::Ask(mut question) => {
                self.rename_version(&mut question);
                let explain = explain::lines(&question, &mut self.ledger);
                let response = self.decide(&question)?;
                if response.allowed && !request.dry_run {
                    self.create_pod(&question)?;
                }
                (response, explain)
            }
        };
        if response.allowed && !request.dry_run {
            self.know(request)?;
        }
        Ok(Some(Reviewed { what, response, explain }))
    }

    /// The review that an API server would send if this were applied.
    fn manifest(&mut self, document: &Document) -> Result<Request, String> {
        let Document { api_version, kind, json, .. } = document;
        self.version = self.version.saturating_add(1);
        let mut request = Request {
            uid: format!("{}", self.version),
            api_version: api_version.clone(),
            kind: kind.clone(),
            user: "kubectl".to_owned(),
            ..Request::default()
        };
        if request.is_quota() {
            let mut quota: Quota = serde_json::from_str(json).map_err(|e| e.to_string())?;
            quota.metadata.uid = crate::domain::quota::uid_of(&quota.metadata.name);
            let names = self.ledger.names();
            let group = names.known_group(&quota.metadata.name);
            let book = self.ledger.book();
            let declared = group.and_then(|g| book.and_then(|b| b.declaration(g)));
            request.operation = if declared.is_some() { Verb::Update } else { Verb::Create };
            request.name = quota.metadata.name.clone();
            request.object = Body::Quota(Box::new(quota));
            return Ok(request);
        }
        let Some(declared) = self.kinds.find(api_version, kind) else { return Ok(request) };
        Request::of_manifest(declared, json, self.version, &self.context)
    }

    /// Whatever version a review changes, here it is the newest: documents follow one another.
    fn rename_version(&self, question: &mut Question) {
        let newest = || self.version.to_string();
        match &mut question.ask.what {
            What::Workload(workload) => {
                workload.old_resource_version =
                    workload.old_resource_version.take().map(|_| newest());
            }
            What::Quota(quota) => {
                quota.old_resource_version = quota.old_resource_version.take().map(|_| newest());
            }
        }
    }

    /// Asks the ledger, and takes what is recorded as done.
    fn decide(&mut self, question: &Question) -> Result<Response, Error> {
        let (ask, at) = (&question.ask, self.at);
        let seen = self.ledger.position();
        let nothing = || Error::input("the ledger", "it keeps no quotas");
        let answer = match &ask.what {
            What::Workload(workload) => {
                let open = workload.open();
                let review = workload.review(ask, &open);
                let verdict = self.ledger.decide(|trial, names, meter| {
                    admission::decide(trial, names, meter, &review, at)
                });
                let verdict = verdict.ok_or_else(nothing)?;
                let shrinks = matches!(verdict.decision, Decision::Allowed);
                let answer = self.settle(verdict, ask.dry_run, Self::admit)?;
                if shrinks && !ask.dry_run {
                    self.shrink(workload, question.group())?;
                }
                answer
            }
            What::Quota(quota) => {
                let review = quota.review(ask, seen);
                let verdict = self.ledger.decide(|trial, names, meter| {
                    admission::decide_quota(trial, names, meter, &review, at)
                });
                let verdict = verdict.ok_or_else(nothing)?;
                self.settle(verdict, ask.dry_run, |world, proposed| {
                    world.declare_as(&quota.name, proposed)
                })?
            }
        };
        Ok(question.response(&answer))
    }

    fn settle<R>(
        &mut self,
        verdict: admission::Verdict<R>,
        dry_run: bool,
        record: impl FnOnce(&mut Self, R) -> Result<(), Error>,
    ) -> Result<decider::Answer, Error> {
        let warnings = verdict.warnings;
        Ok(match verdict.decision {
            Decision::Allowed => decider::Answer::Allowed { recorded: None, warnings },
            Decision::Refused(refusal) => (*refusal).into(),
            Decision::Record(_) if dry_run => decider::Answer::Allowed { recorded: None, warnings },
            Decision::Record(recorded) => {
                record(self, recorded)?;
                let recorded = Some(self.ledger.position());
                decider::Answer::Allowed { recorded, warnings }
            }
        })
    }

    /// What was admitted is on the log, and real at once.
    fn admit(&mut self, admission: Admission<'_>) -> Result<(), Error> {
        let (workload, roles) = (admission.workload.clone(), admission.roles.clone());
        let (group, resized) = (admission.group.clone(), admission.resize.is_some());
        let seen = self.ledger.position();
        let data = WorkloadsAdmitted { seen, admissions: vec![admission] };
        self.apply("decisions", Data::WorkloadsAdmitted(data))?;
        if resized { Ok(()) } else { self.observe(workload, roles, group) }
    }

    /// A pod of a workload that may come is there.
    fn create_pod(&mut self, question: &Question) -> Result<(), Error> {
        let What::Workload(workload) = &question.ask.what else { return Ok(()) };
        let (Operation::Create, Some(pod)) = (workload.operation, &workload.resize) else {
            return Ok(());
        };
        let created = PodCreated {
            uid: pod.uid.clone(),
            owner: Some(workload.workload.clone()),
            group: question.group().into(),
            models: pod.models.clone(),
            reserved: Arc::clone(&pod.to),
        };
        self.apply("pods", Data::PodCreated(created))
    }

    /// A workload that asks for less needed no record, and is less from now on.
    fn shrink(&mut self, workload: &decider::Workload, group: &str) -> Result<(), Error> {
        let updates = workload.operation == Operation::Update;
        if !updates || workload.resize.is_some() || workload.draws_on.is_some() {
            return Ok(());
        }
        self.observe(workload.workload.clone(), workload.roles.clone(), group.into())
    }

    fn observe(
        &mut self,
        workload: ObjectRef<'_>,
        roles: Vec<Role<'_>>,
        group: Text<'_>,
    ) -> Result<(), Error> {
        self.version = self.version.saturating_add(1);
        let uid = Uid::of(&workload.uid);
        let observed = WorkloadObserved {
            workload: workload.clone(),
            resource_version: self.version.to_string().into(),
            generation: 1,
            group,
            roles,
        };
        self.apply("workloads", Data::WorkloadObserved(observed))?;
        // Nothing is under way here, so nothing waits for its end either.
        let cluster = self.ledger.names().known_cluster(&self.source());
        let object = cluster.map(|cluster| ObjectId { cluster, uid });
        let open = self.ledger.book().into_iter().flat_map(|book| book.reservations());
        let open: Vec<_> = open
            .filter(|item| {
                Some(item.workload) == object && !matches!(item.what, OpenKind::Resize(_))
            })
            .map(|item| item.ticket.position)
            .collect();
        for position in open {
            let cluster = self.options.cluster.clone().into();
            let expired =
                ReservationExpired { position, workload: Some(workload.clone()), cluster };
            self.apply("decisions", Data::ReservationExpired(expired))?;
        }
        Ok(())
    }

    fn declare_as(&mut self, name: &str, proposed: QuotaProposed<'_>) -> Result<(), Error> {
        let subject = format!("quotas/{name}");
        let (uid, spec, operation) =
            (proposed.uid.clone(), proposed.spec.clone(), proposed.operation);
        self.apply(&subject, Data::QuotaProposed(proposed))?;
        let data = match (operation, spec) {
            (Operation::Delete, _) | (_, None) => Data::QuotaRemoved(QuotaRemoved { uid }),
            (_, Some(spec)) => {
                self.version = self.version.saturating_add(1);
                let resource_version = self.version.to_string().into();
                Data::QuotaDeclared(QuotaDeclared { uid, resource_version, generation: 1, spec })
            }
        };
        self.apply(&subject, data)
    }

    fn apply(&mut self, subject: &str, data: Data<'_>) -> Result<(), Error> {
        let position = self.ledger.position().saturating_add(1);
        let event = Event {
            id: EventId(u128::from(position)),
            source: self.source().into(),
            subject: subject.into(),
            time: self.at,
            recorded_at: self.at,
            data,
        };
        let applied = self.ledger.apply(position, Hash::default(), &event);
        applied.map(drop).map_err(|e| Error::input("the ledger", e))
    }

    /// An object that is allowed is there from now on.
    fn know(&mut self, request: Request) -> Result<(), Error> {
        match (request.operation, request.object, request.old) {
            (Verb::Create | Verb::Update, Body::Object(kind, object), _) => {
                self.context.know(*object, &kind);
            }
            (Verb::Delete, _, Body::Object(_, old)) => {
                self.context.forget(&old.metadata.uid);
                let uid = old.metadata.uid.into();
                let workload = ObjectRef { uid, ..ObjectRef::default() };
                let gone = WorkloadGone { workload, cause: "Deleted".into() };
                self.apply("workloads", Data::WorkloadGone(gone))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn source(&self) -> String {
        format!("/clusters/{}", self.options.cluster)
    }
}

/// What is no workload, and says how workloads are judged.
fn is_surrounding(document: &Document) -> bool {
    matches!(&*document.kind, "Namespace" | "LimitRange" | "Node" | "RuntimeClass")
}

/// `Deployment web/shop`.
fn named(request: &Request) -> String {
    let kind = match &*request.sub_resource {
        "scale" => format!("scale of {}", request.resource),
        "" => request.kind.clone(),
        sub => format!("{sub} of {}", request.kind),
    };
    match &*request.namespace {
        "" => format!("{kind} {}", request.name),
        namespace => format!("{kind} {namespace}/{}", request.name),
    }
}
