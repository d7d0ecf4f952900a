//! What a pod asks for, reserves and holds: from its containers to one pair of resource lists. Pure arithmetic.
//!
//! Three answers, all of Kubernetes 1.36 (facts 2.1 to 2.3):
//! * [`Pod::spec`]: what the specification alone asks for;
//! * [`Pod::reserved`]: what scheduler and quota count, the larger of asked for, allocated and actuated;
//! * [`Pod::held`]: what the node has really given, which is what is metered.
//!
//! Older dialects need no code of their own: their objects lack the fields that make the difference.

use super::{
    quantity::Quantity,
    resources::{ResourceList, Resources},
};
use std::borrow::Cow;

/// The parts of a pod that resources come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Containers; init containers and sidecars among them in the order of the specification.
    pub containers: Vec<Container>,
    /// Pod-level resources: they overrule the containers' sum for cpu, memory and huge pages.
    pub pod_level: Demand,
    /// What the runtime class adds.
    pub overhead: ResourceList,
    /// The node has said that it will never grant the resize that the specification asks for.
    pub infeasible: bool,
}

/// A container: when it runs and what it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// When it runs.
    pub kind: ContainerKind,
    /// What it asks for, and was given.
    pub demand: Demand,
}

/// When a container runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContainerKind {
    /// All the pod's life, beside the other app containers.
    App,
    /// Alone, before the app containers.
    Init,
    /// From its place among the init containers on, to the end.
    Sidecar,
}

/// What was asked for, and what the node reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// The specification.
    pub asked: Resources,
    /// Requests that the node has admitted; `None` until it says so.
    pub allocated: Option<ResourceList>,
    /// What is configured on the running container; `None` until the node says so.
    pub actuated: Option<Resources>,
}

/// A sum that no quantity can express.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{resource}` of all containers together is beyond 9223372036854775807; lower the amounts")]
pub struct TooLarge {
    /// The resource.
    pub resource: String,
}

impl Pod {
    /// The pod after the API server's defaulting: requests default from limits, never the reverse.
    ///
    /// The server defaults pods and not templates, so templates come here first. Idempotent.
    ///
    /// # Errors
    /// [`TooLarge`], since pod-level defaults come from sums.
    pub fn with_defaults(mut self) -> Result<Self, TooLarge> {
        for container in &mut self.containers {
            let Resources { requests, limits } = &mut container.demand.asked;
            fill(requests, limits.iter());
        }
        if self.pod_level.asked == Resources::default() {
            return Ok(self);
        }
        let total = self.containers_total(|c| Cow::Borrowed(&c.demand.asked))?;
        let Resources { requests, limits } = &mut self.pod_level.asked;
        let huge = total.limits.iter().filter(|(n, _)| is_huge_pages(n));
        let missing: Vec<_> = huge.filter(|(n, _)| requests.get(n).is_none()).collect();
        fill(limits, missing.into_iter());
        if !limits.is_empty() {
            fill(requests, total.requests.iter().filter(|(n, _)| matches!(*n, "cpu" | "memory")));
            fill(requests, limits.iter());
        }
        Ok(self)
    }

    /// What the specification asks for. Call [`Self::with_defaults`] first unless the API server did.
    ///
    /// # Errors
    /// [`TooLarge`].
    pub fn spec(&self) -> Result<Resources, TooLarge> {
        self.effective(|c| Cow::Borrowed(&c.demand.asked), &self.pod_level.asked)
    }

    /// What is reserved for the pod: what the scheduler and the quota of Kubernetes count.
    ///
    /// Pod-level reports are not looked at, as Kubernetes does not.
    ///
    /// # Errors
    /// [`TooLarge`].
    pub fn reserved(&self) -> Result<Resources, TooLarge> {
        let infeasible = self.infeasible;
        self.effective(|c| c.reserved(infeasible), &self.pod_level.asked)
    }

    /// What the node has given the pod; the specification until the node reports.
    ///
    /// # Errors
    /// [`TooLarge`].
    pub fn held(&self) -> Result<Resources, TooLarge> {
        self.effective(Container::held, &self.pod_level.held())
    }

    /// The formula: containers, then pod-level values, then overhead.
    fn effective(
        &self,
        amounts: impl Fn(&Container) -> Cow<'_, Resources>,
        pod_level: &Resources,
    ) -> Result<Resources, TooLarge> {
        let mut total = self.containers_total(amounts)?;
        overrule(&mut total.requests, &pod_level.requests);
        overrule(&mut total.limits, &pod_level.limits);
        add(&mut total.requests, &self.overhead)?;
        // A limit that is absent or zero means "no limit": overhead does not make one.
        let limited = |name: &str| total.limits.get(name).is_some_and(|q| !q.is_zero());
        let limited: ResourceList = self.overhead.iter().filter(|(n, _)| limited(n)).collect();
        add(&mut total.limits, &limited)?;
        Ok(total)
    }

    /// Sum of app containers and sidecars, or the peak while the init containers run, if that is more.
    fn containers_total(
        &self,
        amounts: impl Fn(&Container) -> Cow<'_, Resources>,
    ) -> Result<Resources, TooLarge> {
        let (mut total, mut sidecars, mut peak) =
            (Resources::default(), Resources::default(), Resources::default());
        for container in &self.containers {
            let amount = amounts(container);
            if container.kind != ContainerKind::Init {
                add_both(&mut total, &amount)?;
            }
            if container.kind == ContainerKind::Sidecar {
                add_both(&mut sidecars, &amount)?;
                raise(&mut peak.requests, &named_in(&amount.requests, &sidecars.requests));
                raise(&mut peak.limits, &named_in(&amount.limits, &sidecars.limits));
            }
            if container.kind == ContainerKind::Init {
                // What this one does not name was at its peak when the sidecars grew last.
                let mut phase = Resources {
                    requests: named_in(&amount.requests, &sidecars.requests),
                    limits: named_in(&amount.limits, &sidecars.limits),
                };
                add_both(&mut phase, &amount)?;
                raise(&mut peak.requests, &phase.requests);
                raise(&mut peak.limits, &phase.limits);
            }
        }
        raise(&mut total.requests, &peak.requests);
        raise(&mut total.limits, &peak.limits);
        Ok(total)
    }
}

impl Container {
    /// Reports count for what stays: an ordinary init container is gone before a resize.
    fn resizable(&self) -> bool {
        self.kind != ContainerKind::Init
    }

    fn reserved(&self, infeasible: bool) -> Cow<'_, Resources> {
        let Demand { asked, allocated, actuated } = &self.demand;
        let Some(actuated) = actuated.as_ref().filter(|_| self.resizable()) else {
            return Cow::Borrowed(asked);
        };
        let mut reserved = if infeasible { Resources::default() } else { asked.clone() };
        raise(&mut reserved.requests, &actuated.requests);
        raise(&mut reserved.limits, &actuated.limits);
        if let Some(allocated) = allocated {
            raise(&mut reserved.requests, allocated);
        }
        Cow::Owned(reserved)
    }

    fn held(&self) -> Cow<'_, Resources> {
        match self.resizable() {
            true => Cow::Owned(self.demand.held()),
            false => Cow::Borrowed(&self.demand.asked),
        }
    }
}

impl Demand {
    /// The larger of allocated and actuated, per name. A name that no report lists is held as asked for:
    /// a kubelet that reports cpu and memory only has given the cards all the same.
    fn held(&self) -> Resources {
        let mut held = Resources::default();
        if let Some(allocated) = &self.allocated {
            raise(&mut held.requests, allocated);
        }
        if let Some(actuated) = &self.actuated {
            raise(&mut held.requests, &actuated.requests);
            raise(&mut held.limits, &actuated.limits);
        }
        fill(&mut held.requests, self.asked.requests.iter());
        fill(&mut held.limits, self.asked.limits.iter());
        held
    }
}

fn is_huge_pages(resource: &str) -> bool {
    resource.starts_with("hugepages-")
}

/// Pod-level values replace the containers' for what pods can declare as a whole.
fn overrule(list: &mut ResourceList, pod_level: &ResourceList) {
    for (name, quantity) in pod_level.iter() {
        if matches!(name, "cpu" | "memory") || is_huge_pages(name) {
            list.set(name, quantity);
        }
    }
}

/// Sets what is not listed yet.
fn fill<'n>(list: &mut ResourceList, entries: impl Iterator<Item = (&'n str, Quantity)>) {
    for (name, quantity) in entries {
        if list.get(name).is_none() {
            list.set(name, quantity);
        }
    }
}

/// The entries of `list` that `names` has too.
fn named_in(names: &ResourceList, list: &ResourceList) -> ResourceList {
    names.iter().filter_map(|(name, _)| Some((name, list.get(name)?))).collect()
}

/// Per name the larger of both.
fn raise(list: &mut ResourceList, other: &ResourceList) {
    for (name, quantity) in other.iter() {
        if list.get(name).is_none_or(|q| q < quantity) {
            list.set(name, quantity);
        }
    }
}

fn add_both(sum: &mut Resources, other: &Resources) -> Result<(), TooLarge> {
    add(&mut sum.requests, &other.requests)?;
    add(&mut sum.limits, &other.limits)
}

fn add(sum: &mut ResourceList, other: &ResourceList) -> Result<(), TooLarge> {
    for (name, quantity) in other.iter() {
        let before = sum.get(name).unwrap_or_default();
        let after = before.checked_add(quantity).filter(|q| q.is_expressible());
        sum.set(name, after.ok_or_else(|| TooLarge { resource: name.to_owned() })?);
    }
    Ok(())
}
