//! One replica: a projection and a decider over a log, and short ways to ask it.

use bizrq::{
    decider::{
        self, Answer, Ask, Decider, Former, Missing, Options, Quota, What, Workload,
        transport::{Alone, Transport},
    },
    domain::{
        event::{
            Data, Event, EventId, ObjectRef, Operation, QuotaDeclared, QuotaSpec, Role,
            WorkloadObserved,
        },
        ident,
        quantity::{Format, Quantity},
        resources::{Models, ResourceList, Resources},
        time::ORIGIN,
    },
    event_log::{EventLog, NewEvent},
    projection::{MemoryStore, Projection, Runner, runner},
};
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, task::JoinHandle, time::Instant};

pub(crate) const CPU: &str = "limits.cpu";

/// A replica that works until it is dropped or stopped.
pub(crate) struct Replica {
    pub(crate) decider: Decider,
    pub(crate) projection: Projection,
    end: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Replica {
    /// The only one of its log.
    pub(crate) fn start<L: EventLog + 'static>(log: Arc<L>, options: Options) -> Self {
        Self::with(log, Alone, options)
    }

    pub(crate) fn with<L: EventLog + 'static>(
        log: Arc<L>,
        transport: impl Transport,
        options: Options,
    ) -> Self {
        let end = watch::Sender::new(false);
        // No rows are wanted: whoever writes them is a thread, whose pace nobody could repeat.
        let (commit_every, commit_records) = (Duration::from_secs(1 << 30), u64::MAX);
        let options_of_rows =
            runner::Options { commit_every, commit_records, ..runner::Options::default() };
        let (runner, projection) = Runner::new(MemoryStore::default(), options_of_rows);
        let (decider, worker) =
            decider::new(Arc::clone(&log), projection.clone(), transport, options);
        let (ended, ended_too) = (ended(&end), ended(&end));
        let tasks = vec![
            tokio::spawn(async move { runner.run(&*log, ended).await.map(drop).unwrap() }),
            tokio::spawn(worker.run(ended_too)),
        ];
        Self { decider, projection, end, tasks }
    }

    pub(crate) async fn stop(self) {
        self.end.send_replace(true);
        for task in self.tasks {
            task.await.unwrap();
        }
    }

    /// Asks, with all the time in the world.
    pub(crate) async fn ask(&self, ask: Ask) -> Answer {
        self.decider.decide(ask, Instant::now() + Duration::from_secs(60)).await
    }
}

fn ended(end: &watch::Sender<bool>) -> impl Future<Output = ()> + use<> {
    let mut end = end.subscribe();
    async move {
        let _ = end.wait_for(|end| *end).await;
    }
}

pub(crate) fn options() -> Options {
    Options { now: Arc::new(|| ORIGIN), ..Options::default() }
}

pub(crate) fn cores(n: i64) -> Quantity {
    Quantity::from_milli(i128::from(n) * 1000, Format::DecimalSI)
}

pub(crate) fn object(uid: &str) -> ObjectRef<'static> {
    ObjectRef {
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        namespace: Some("web".into()),
        name: format!("name-{uid}").into(),
        uid: uid.to_owned().into(),
    }
}

/// So many pods of one core each.
pub(crate) fn roles(count: u64) -> Vec<Role<'static>> {
    let limits = ResourceList::from_iter([("cpu", cores(1))]);
    let pod = Arc::new(Resources { requests: ResourceList::default(), limits });
    vec![Role { name: "".into(), count, peak: count, models: Models::default(), pod }]
}

/// Asks for a new workload of so many cores.
pub(crate) fn create(request: &str, uid: &str, group: &str, count: u64) -> Ask {
    let workload = Workload {
        operation: Operation::Create,
        workload: object(uid),
        old_resource_version: None,
        group: Some(group.to_owned()),
        missing: Missing::Allow,
        labels: Arc::default(),
        roles: roles(count),
        old: None,
        resize: None,
        undeclared: Vec::new(),
        name_is_taken: false,
        draws_on: None,
        makes: Vec::new(),
        invalid: None,
    };
    Ask {
        request: request.to_owned(),
        cluster: "east".to_owned(),
        dry_run: false,
        what: What::Workload(Box::new(workload)),
    }
}

/// Asks to scale a workload of version 7.
pub(crate) fn scale(request: &str, uid: &str, group: &str, from: u64, to: u64) -> Ask {
    let mut ask = create(request, uid, group, to);
    if let What::Workload(workload) = &mut ask.what {
        workload.operation = Operation::Update;
        workload.old_resource_version = Some("7".to_owned());
        workload.old = Some(Former { group: group.to_owned(), roles: roles(from) });
    }
    ask
}

pub(crate) fn dry(mut ask: Ask) -> Ask {
    ask.dry_run = true;
    ask
}

pub(crate) fn spec(parent: &str, cpu: i64) -> QuotaSpec<'static> {
    let hard = [(CPU.into(), cores(cpu))].into_iter().collect();
    QuotaSpec { parent: parent.to_owned().into(), hard, ..QuotaSpec::default() }
}

/// Asks to change a quota object of version 7.
pub(crate) fn propose(request: &str, name: &str, parent: &str, cpu: i64) -> Ask {
    let quota = Quota {
        operation: Operation::Update,
        name: name.to_owned(),
        uid: format!("quota-{name}"),
        old_resource_version: Some("7".to_owned()),
        spec: Some(spec(parent, cpu)),
        allow_orphans: false,
    };
    Ask {
        request: request.to_owned(),
        cluster: "east".to_owned(),
        dry_run: false,
        what: What::Quota(Box::new(quota)),
    }
}

pub(crate) fn fact(subject: &str, data: Data<'static>) -> NewEvent {
    let source = "/clusters/east";
    let id = ident::fact(source, ORIGIN, &data).unwrap_or(EventId(1));
    let event = Event {
        id,
        source: source.into(),
        subject: subject.to_owned().into(),
        time: ORIGIN,
        recorded_at: ORIGIN,
        data,
    };
    NewEvent::new(&event).unwrap()
}

/// A quota object as it is, of version 7.
pub(crate) fn declared(name: &str, parent: &str, cpu: i64) -> NewEvent {
    let data = QuotaDeclared {
        uid: format!("quota-{name}").into(),
        resource_version: "7".into(),
        generation: 1,
        spec: spec(parent, cpu),
    };
    fact(&format!("quotas/{name}"), Data::QuotaDeclared(data))
}

/// A workload as it is, of version 7.
pub(crate) fn observed(uid: &str, group: &str, count: u64) -> NewEvent {
    let data = WorkloadObserved {
        workload: object(uid),
        resource_version: "7".into(),
        generation: 1,
        group: group.to_owned().into(),
        roles: roles(count),
    };
    fact(&format!("workloads/{uid}"), Data::WorkloadObserved(data))
}
