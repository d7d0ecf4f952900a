//! From Kubernetes' types to the domain's: names the place of what cannot be converted.

use super::{meta::ObjectMeta, pod};
use crate::domain::{
    label_keys::LabelKeys,
    pod_resources::{Container, ContainerKind, Demand, Pod, TooLarge},
    quantity::InvalidQuantity,
    resources::{Models, ResourceList, Resources},
    text::Text,
};

/// Why a pod's resources cannot be counted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResourcesError {
    /// An amount is none.
    #[error("{field}, `{resource}`: {why}")]
    Invalid {
        /// `requests of container a`.
        field: String,
        /// `cpu`.
        resource: String,
        /// Why.
        why: InvalidQuantity,
    },
    /// An amount is below zero.
    #[error("{field}, `{resource}`: `{amount}` is negative; amounts are zero or more")]
    Negative {
        /// `requests of container a`.
        field: String,
        /// `cpu`.
        resource: String,
        /// The amount.
        amount: String,
    },
    /// A sum is too large.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}

/// What counts of a pod's specification and status, after defaulting.
///
/// # Errors
/// [`ResourcesError`] naming the container and field.
pub fn pod_resources(pod: &pod::Pod) -> Result<Pod, ResourcesError> {
    reported_resources(&pod.spec, &pod.status)
}

/// What counts of a pod's specification and status, which are here apart from each other.
///
/// # Errors
/// As [`pod_resources`].
pub fn reported_resources(
    spec: &pod::PodSpec,
    status: &pod::PodStatus,
) -> Result<Pod, ResourcesError> {
    let mut resources = spec_resources(spec)?;
    let init = status.init_container_statuses.iter();
    for (container, named) in resources.containers.iter_mut().zip(containers(spec)) {
        let mut statuses = init.clone().chain(&status.container_statuses);
        if let Some(status) = statuses.find(|s| s.name == named.1.name) {
            let place = || format!("container {} in status", status.name);
            report(&mut container.demand, &status.allocated_resources, &status.resources, place)?;
        }
    }
    let place = || "the pod in status".to_owned();
    report(&mut resources.pod_level, &status.allocated_resources, &status.resources, place)?;
    resources.infeasible = status
        .condition("PodResizePending")
        .is_some_and(|c| c.status == "True" && c.reason == "Infeasible");
    Ok(resources)
}

/// What counts of the specification of a pod or of a template, after defaulting.
///
/// # Errors
/// [`ResourcesError`] naming the container and field.
pub fn spec_resources(spec: &pod::PodSpec) -> Result<Pod, ResourcesError> {
    let containers = containers(spec)
        .map(|(kind, c)| {
            let asked = both(&c.resources, || format!("container {}", c.name))?;
            Ok(Container { kind, demand: Demand { asked, ..Demand::default() } })
        })
        .collect::<Result<_, ResourcesError>>()?;
    let asked = both(&spec.resources, || "the pod".to_owned())?;
    let overhead = amounts(&spec.overhead, || "overhead of the pod".to_owned())?;
    let pod_level = Demand { asked, ..Demand::default() };
    Ok(Pod { containers, pod_level, overhead, infeasible: false }.with_defaults()?)
}

/// A resource list as it was written, each entry rounded up to thousandths.
///
/// # Errors
/// [`ResourcesError`] naming `field` and the resource.
pub fn resource_list(amounts: &pod::Amounts, field: &str) -> Result<ResourceList, ResourcesError> {
    self::amounts(amounts, || field.to_owned())
}

/// The models that an object's labels (or annotations) declare.
#[must_use]
pub fn models<'m>(meta: &'m ObjectMeta, keys: &LabelKeys) -> Models<'m> {
    let model = |key| meta.label(key).map(Text::from);
    Models { cpu: model(&keys.cpu), memory: model(&keys.memory), gpu: model(&keys.gpu) }
}

/// Init containers in their order, then the others.
pub(super) fn containers(
    spec: &pod::PodSpec,
) -> impl Iterator<Item = (ContainerKind, &pod::Container)> {
    let init = spec.init_containers.iter().map(|c| match &*c.restart_policy {
        "Always" => (ContainerKind::Sidecar, c),
        _ => (ContainerKind::Init, c),
    });
    init.chain(spec.containers.iter().map(|c| (ContainerKind::App, c)))
}

/// Adds the node's report to what was asked for.
fn report(
    demand: &mut Demand,
    allocated: &Option<pod::Amounts>,
    actuated: &Option<pod::ResourceRequirements>,
    place: impl Fn() -> String + Copy,
) -> Result<(), ResourcesError> {
    let allocated =
        allocated.as_ref().map(|a| amounts(a, || format!("allocatedResources of {}", place())));
    demand.allocated = allocated.transpose()?;
    demand.actuated = actuated.as_ref().map(|a| both(a, place)).transpose()?;
    Ok(())
}

fn both(
    resources: &pod::ResourceRequirements,
    place: impl Fn() -> String + Copy,
) -> Result<Resources, ResourcesError> {
    Ok(Resources {
        requests: amounts(&resources.requests, || format!("requests of {}", place()))?,
        limits: amounts(&resources.limits, || format!("limits of {}", place()))?,
    })
}

/// Each entry rounded up to thousandths, as the API server does.
fn amounts(
    amounts: &pod::Amounts,
    field: impl Fn() -> String,
) -> Result<ResourceList, ResourcesError> {
    let mut list = ResourceList::default();
    for (resource, quantity) in &amounts.0 {
        let resource = &**resource;
        match quantity {
            Ok(q) if q.is_negative() => {
                let (field, resource) = (field(), resource.to_owned());
                return Err(ResourcesError::Negative { field, resource, amount: q.to_string() });
            }
            Ok(q) => list.set(resource, q.rounded_up()),
            Err(why) => {
                let (field, resource) = (field(), resource.to_owned());
                return Err(ResourcesError::Invalid { field, resource, why: why.clone() });
            }
        }
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(pod: &str) -> String {
        pod_resources(&serde_json::from_str(pod).unwrap()).unwrap_err().to_string()
    }

    #[test]
    fn a_bad_amount_is_reported_with_its_container_and_field() {
        let spec =
            r#"{"spec":{"initContainers":[{"name":"i","resources":{"limits":{"cpu":"1K"}}}]}}"#;
        assert!(
            error(spec)
                .starts_with("limits of container i, `cpu`: `1K` is no quantity: the suffix")
        );
        let wrong_type = r#"{"spec":{"overhead":{"memory":[1]}}}"#;
        assert!(
            error(wrong_type).starts_with("overhead of the pod, `memory`: `[…]` is no quantity")
        );
        let status = r#"{"spec":{"containers":[{"name":"a"}]},
            "status":{"containerStatuses":[{"name":"a","allocatedResources":{"cpu":true}}]}}"#;
        assert!(
            error(status).starts_with("allocatedResources of container a in status, `cpu`: `true`")
        );
    }

    #[test]
    fn an_amount_below_zero_is_no_credit_however_small() {
        for amount in ["\"-1\"", "-0.0000000001", "\"-0.1n\""] {
            let pod = format!(
                r#"{{"spec":{{"containers":[{{"name":"a","resources":{{"requests":{{"cpu":{amount}}}}}}}]}}}}"#
            );
            assert!(error(&pod).contains("is negative"), "{amount}");
        }
    }

    #[test]
    fn a_sum_that_no_quantity_can_express_is_refused() {
        let pod = r#"{"spec":{"containers":[
            {"name":"a","resources":{"requests":{"memory":"8Ei"}}},
            {"name":"b","resources":{"requests":{"memory":"1"}}}]}}"#;
        let pod = pod_resources(&serde_json::from_str(pod).unwrap()).unwrap();
        assert!(pod.spec().unwrap_err().to_string().starts_with("`memory` of all containers"));
    }

    #[test]
    fn nulls_and_unknown_fields_are_read_over() {
        let pod = r#"{"metadata":null,"spec":{"containers":[{"name":null,"resources":{"requests":{"cpu":null},
            "limits":null,"claims":[]},"ports":null}],"initContainers":null,"overhead":null,"nodeName":null},
            "status":{"conditions":null,"containerStatuses":[{"state":null,"allocatedResources":null}]},"x":1}"#;
        let pod = pod_resources(&serde_json::from_str(pod).unwrap()).unwrap();
        assert_eq!(pod.held().unwrap().requests.get("cpu").unwrap().milli(), 0);
    }

    #[test]
    fn a_deferred_resize_reserves_the_wish_and_holds_what_was_given() {
        let pod = r#"{"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"8","x/gpu":1},
            "limits":{"cpu":"8","x/gpu":1}}}]},"status":{"containerStatuses":[{"name":"a",
            "allocatedResources":{"cpu":"2"},"resources":{"requests":{"cpu":"2"},"limits":{"cpu":"3"}}}]}}"#;
        let pod = pod_resources(&serde_json::from_str(pod).unwrap()).unwrap();
        let amount = |list: &ResourceList, name| list.get(name).unwrap().milli();
        let (held, reserved) = (pod.held().unwrap(), pod.reserved().unwrap());
        assert_eq!((amount(&held.requests, "cpu"), amount(&held.limits, "cpu")), (2000, 3000));
        assert_eq!(amount(&held.limits, "x/gpu"), 1000, "no report of a card does not free it");
        assert_eq!(amount(&reserved.requests, "cpu"), 8000);
    }
}
