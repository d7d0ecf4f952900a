//! `bizrq cluster retire`: of a cluster that is no more nobody tells the end of anything, so an operator does.
//!
//! Each pod that still ran ends by `NodeLost`: billed up to the instant that was given, provisional, uncertain since it
//! was last known to live. Should the cluster come back after all, its observer withdraws what was wrong.

use crate::{
    cli::{Answer, Error, opened_log::OpenedLog, operator, out::Out},
    clock,
    domain::{
        book::Book,
        event::{
            ClusterRetired, Data, Event, EventId, ObjectRef, PodStopped, StopBasis, WorkloadGone,
        },
        ident,
        ledger::Ledger,
        pod::Pod,
        text::Text,
        time::Timestamp,
    },
    event_log::NewEvent,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq cluster retire east --at 2026-11-16T08:00:00Z --log nats://localhost:4222

For a cluster that was switched off or lost. Its pods that still ran end at that instant, its workloads are gone, and
what they were charged is free. No observer may be at work there: end its bizrq first. A bizrq that finds the cluster
afterwards tells nothing, until `bizrq cluster rebind` says that it is meant.")]
pub(super) struct Args {
    /// The cluster's name in the log
    #[arg(value_name = "NAME", value_parser = operator)]
    name: String,
    /// When it ended: not before it was last heard of
    #[arg(long, value_name = "T", value_parser = Timestamp::parse)]
    at: Timestamp,
    /// The log; a running bizrq that has one in a folder is asked to append
    #[arg(long, value_name = "LOG")]
    log: String,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let Args { name, at, log: place } = args;
    // A log that is not there is not made for that.
    drop(OpenedLog::open_read(place)?);
    let log = OpenedLog::open_beside(place)?;
    let mut ledger = Ledger::default();
    log.fold(&mut ledger, |_| true, |_| {})?;
    let now = clock::now();
    check(&ledger, name, *at, now)?;
    let End { pods, workloads } = End::of(&ledger, name, *at);
    let (ended, gone) = (pods.len(), workloads.len());
    let retired = (format!("clusters/{name}"), Data::ClusterRetired(ClusterRetired { at: *at }));
    let facts = pods.into_iter().chain(workloads).chain([retired]);
    let events = facts.map(|(subject, data)| {
        let source = format!("/clusters/{name}").into();
        let id = EventId::default();
        let event =
            Event { id, source, subject: subject.into(), time: *at, recorded_at: now, data };
        match ident::fact(&event.source, event.time, &event.data) {
            Some(id) => NewEvent::new(&Event { id, ..event }),
            None => NewEvent::note(&event),
        }
    });
    let events: Result<Vec<_>, _> = events.collect();
    let last = log.append(events.map_err(|error| Error::log(place, error))?)?.last;
    log.close()?;
    out.line(format_args!(
        "{name} ended at {at}, by record {last}: pods that still ran: {ended}, workloads: {gone}"
    ))?;
    Ok(Answer::Yes)
}

/// Whether the cluster can have ended then.
fn check(ledger: &Ledger, name: &str, at: Timestamp, now: Timestamp) -> Result<(), Error> {
    let known = ledger.cluster(name);
    let wrong = |why: String| Err(Error::Usage(why));
    let Some(cluster) = ledger.names().known_cluster_of(name) else {
        return wrong(format!("{name}: the log knows no cluster of this name"));
    };
    if let Some(retired) = known.retired {
        return wrong(format!("{name} ended at {retired} already"));
    }
    if at > now {
        return wrong(format!(
            "--at: {at} is still to come; a cluster can be retired once it ended"
        ));
    }
    // By the last heartbeat, or by a pod that began to run behind it.
    let heard = ledger.living(cluster).map(Pod::newest).chain(known.synced).max();
    if let Some(heard) = heard.filter(|heard| at < *heard) {
        return wrong(format!("--at: {name} was heard of at {heard}; it ended then or later"));
    }
    Ok(())
}

/// What ends with a cluster: subjects and facts.
struct End {
    pods: Vec<(String, Data<'static>)>,
    workloads: Vec<(String, Data<'static>)>,
}

impl End {
    fn of(ledger: &Ledger, name: &str, at: Timestamp) -> Self {
        let beat = ledger.cluster(name).synced;
        let cluster = ledger.names().known_cluster_of(name);
        let living = cluster.into_iter().flat_map(|cluster| ledger.living(cluster));
        let mut pods: Vec<_> = living
            .map(|pod| {
                let lived = Some(pod.newest()).max(beat).unwrap_or(at).min(at);
                let uid = pod.id.uid.to_string();
                (format!("pods/{uid}"), Data::PodStopped(stopped(uid, lived, at)))
            })
            .collect();
        let observed = cluster.into_iter().flat_map(|cluster| {
            ledger.book().into_iter().flat_map(move |book: &Book| book.observed(cluster))
        });
        let mut workloads: Vec<_> = observed
            .map(|object| {
                let uid = object.uid.to_string();
                let subject = format!("workloads/{uid}");
                let workload = ObjectRef { uid: uid.into(), ..ObjectRef::default() };
                let gone = WorkloadGone { workload, cause: "ClusterRetired".into() };
                (subject, Data::WorkloadGone(gone))
            })
            .collect();
        // Not in the order in which rows happen to lie.
        pods.sort_by(|a, b| a.0.cmp(&b.0));
        workloads.sort_by(|a, b| a.0.cmp(&b.0));
        Self { pods, workloads }
    }
}

fn stopped(uid: String, earliest: Timestamp, latest: Timestamp) -> PodStopped<'static> {
    PodStopped {
        uid: uid.into(),
        earliest,
        latest,
        basis: StopBasis::NodeLost,
        phase: Text::default(),
        reason: Text::default(),
        ran: None,
    }
}
