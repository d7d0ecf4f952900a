//! Who leads in a cluster: whoever holds a `Lease` (coordination.k8s.io/v1).
//!
//! ```text
//!  every 2 s:  read ─▶ ours, or free, or unchanged for 15 s by our own clock? ─▶ write over that version ─▶ leads
//!                                                                               10 s without such a write: leads no more
//! ```
//!
//! Nobody's clock is compared with another's: what stands in the Lease as a time is for people. The holder stops five
//! seconds before anybody may follow, as long as two clocks run equally fast. It is no fence: what two leaders append
//! at once is harmless by itself.

use crate::domain::time::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use std::{future::Future, pin::pin, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};

/// How long things take. Each is shorter than the one before it, with room for a slow answer between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Unchanged for so long, a Lease is free.
    pub lease: Duration,
    /// A holder that could not write for so long leads no more.
    pub renew: Duration,
    /// The Lease is looked at this often; an answer that takes longer is none.
    pub retry: Duration,
}

impl Default for Timing {
    /// As the components of Kubernetes' own control plane do it.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { lease: seconds(15), renew: seconds(10), retry: seconds(2) }
    }
}

/// A candidate for a Lease.
pub struct Candidate {
    api: Api<Lease>,
    name: String,
    /// Who we are; no two candidates have the same.
    identity: String,
    timing: Timing,
    now: fn() -> Timestamp,
    /// What was last seen, and since when it has not changed.
    seen: Option<(Seen, Instant)>,
}

/// What tells one writing of a Lease from the next.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    version: Option<String>,
    holder: String,
    changes: i32,
}

/// What can be done about a Lease.
#[derive(Debug, PartialEq)]
enum Step {
    /// Somebody else holds it.
    Wait,
    /// Write this over the version that was seen; of none, make it.
    Write(LeaseSpec),
}

impl Candidate {
    /// For the Lease `name` in `namespace`; `now` is what people read in it.
    #[must_use]
    pub fn new(
        client: Client,
        namespace: &str,
        name: &str,
        identity: &str,
        timing: Timing,
        now: fn() -> Timestamp,
    ) -> Self {
        let api = Api::namespaced(client, namespace);
        let (name, identity) = (name.to_owned(), identity.to_owned());
        Self { api, name, identity, timing, now, seen: None }
    }

    /// Says through `leads` whether we lead, until `end` comes true; then the Lease is given back. `failed` hears what
    /// the API server says no with, or that it says nothing.
    pub async fn run(
        mut self,
        leads: &watch::Sender<bool>,
        end: impl Future,
        failed: impl Fn(&str),
    ) {
        let mut end = pin!(end);
        let mut until = Instant::now();
        loop {
            let begun = Instant::now();
            let (retry, is_leading) = (self.timing.retry, *leads.borrow());
            let attempt = timeout(retry, self.attempt());
            let holds = tokio::select! {
                _ = &mut end => break,
                // The last moment comes also while an answer is waited for.
                () = sleep_until(until), if is_leading => {
                    leads.send_replace(false);
                    failed("it could not be renewed in time");
                    continue;
                }
                attempt = attempt => attempt.unwrap_or_else(|_| Err("no answer".to_owned())),
            };
            match holds {
                Ok(true) => {
                    // From before the write: so long nobody can have begun to wait for less.
                    until = begun + self.timing.renew;
                    leads.send_if_modified(|leads| !std::mem::replace(leads, true));
                }
                Ok(false) => drop(leads.send_if_modified(std::mem::take)),
                Err(why) => failed(&why),
            }
            let is_leading = *leads.borrow();
            tokio::select! {
                _ = &mut end => break,
                () = sleep_until(until), if is_leading => {
                    leads.send_replace(false);
                    failed("it could not be renewed in time");
                }
                () = sleep(retry) => {}
            }
        }
        if leads.send_replace(false) {
            // What is not given back is free after 15 s.
            let _ = timeout(self.timing.retry, self.give_back()).await;
        }
    }

    /// Looks at the Lease and writes it if it is ours to write; says whether we hold it now.
    async fn attempt(&mut self) -> Result<bool, String> {
        let told = |error: kube::Error| error.to_string();
        let found = self.api.get_opt(&self.name).await.map_err(told)?;
        let Step::Write(spec) = self.step(found.as_ref(), Instant::now()) else { return Ok(false) };
        let version = found.and_then(|lease| lease.metadata.resource_version);
        let written = self.write(version, spec).await.map_err(told)?;
        self.note(&written, Instant::now());
        Ok(true)
    }

    /// What is to be done about the Lease as it was found.
    fn step(&mut self, found: Option<&Lease>, now: Instant) -> Step {
        let Some(lease) = found else { return Step::Write(self.spec(None)) };
        let unchanged = now.saturating_duration_since(self.note(lease, now));
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        // Its holder may have been promised more time than we would take.
        let theirs = u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0);
        let free =
            holder.is_empty() || unchanged >= self.timing.lease.max(Duration::from_secs(theirs));
        if holder == self.identity || free {
            Step::Write(self.spec(Some(spec)))
        } else {
            Step::Wait
        }
    }

    /// Notes what is there, and gives since when it is.
    fn note(&mut self, lease: &Lease, now: Instant) -> Instant {
        let spec = lease.spec.clone().unwrap_or_default();
        let found = Seen {
            version: lease.metadata.resource_version.clone(),
            holder: spec.holder_identity.unwrap_or_default(),
            changes: spec.lease_transitions.unwrap_or_default(),
        };
        match &self.seen {
            Some((seen, since)) if *seen == found => *since,
            _ => {
                self.seen = Some((found, now));
                now
            }
        }
    }

    /// The Lease as ours, after it was `former`.
    fn spec(&self, former: Option<LeaseSpec>) -> LeaseSpec {
        let now = self.time();
        let former = former.unwrap_or_default();
        let was_ours = former.holder_identity.as_deref() == Some(&*self.identity);
        let changes = former.lease_transitions.unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.timing.lease.as_secs()).ok(),
            acquire_time: if was_ours { former.acquire_time } else { now.clone() },
            renew_time: now,
            lease_transitions: Some(if was_ours { changes } else { changes.saturating_add(1) }),
            ..LeaseSpec::default()
        }
    }

    async fn write(&self, version: Option<String>, spec: LeaseSpec) -> Result<Lease, kube::Error> {
        let exists = version.is_some();
        let metadata = ObjectMeta {
            name: Some(self.name.clone()),
            resource_version: version,
            ..ObjectMeta::default()
        };
        let (lease, how) = (Lease { metadata, spec: Some(spec) }, PostParams::default());
        match exists {
            true => self.api.replace(&self.name, &how, &lease).await,
            false => self.api.create(&how, &lease).await,
        }
    }

    /// Leaves the Lease without a holder, if it still is as we wrote it.
    async fn give_back(&self) -> Result<(), kube::Error> {
        let Some((seen, _)) = &self.seen else { return Ok(()) };
        let spec = LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            lease_transitions: Some(seen.changes),
            renew_time: self.time(),
            ..LeaseSpec::default()
        };
        self.write(seen.version.clone(), spec).await.map(drop)
    }

    fn time(&self) -> Option<MicroTime> {
        jiff::Timestamp::from_millisecond((self.now)().millis()).ok().map(MicroTime)
    }
}

#[cfg(test)]
mod tests;
