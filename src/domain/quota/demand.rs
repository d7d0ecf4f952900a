//! What a workload demands: so many pods like this one, and the object itself, under every key.
//!
//! Kept for every key, limited or not: a limit that comes later must find what is there.

use crate::domain::{
    amounts::{Amounts, Overflow},
    event::{Charge, ObjectRef, Role},
    names::Names,
    resources::{Models, Resources, is_model, usage_keys},
};
use std::sync::Arc;

/// One pod in milli-units: amounts are thousandths, so one of anything is 1000.
const ONE: i128 = 1000;

/// Kinds whose plural the rule does not make.
const PLURALS: [(&str, &str); 2] = [("Endpoints", "endpoints"), ("Redis", "redis")];

/// What `object` asks for: Σ over roles of count (with [`Charge::Peak`]: peak) × one pod, and 1 under the
/// object's own count key.
///
/// `pods` and `count/pods` are one a pod: a Deployment of 4 asks for 4 of each and for 1 of
/// `count/deployments.apps`.
///
/// # Errors
/// [`Overflow`] where counts × amounts leave 128 bits.
pub fn demand(
    object: &ObjectRef<'_>,
    roles: &[Role<'_>],
    charge: Charge,
    names: &mut Names,
) -> Result<Amounts, Overflow> {
    let mut sum = Amounts::default();
    for role in roles {
        let pods = match charge {
            Charge::Steady => role.count,
            // A peak below the count is a mistake of its writer, never a discount.
            Charge::Peak => role.peak.max(role.count),
        };
        let pod = match names.known_demand(&role.pod, &role.models) {
            Some(pod) => pod,
            None => {
                let pod = Arc::new(pod_demand(&role.pod, &role.models, names)?);
                names.remember_demand(&role.pod, &role.models, &pod);
                pod
            }
        };
        sum.add_times(&pod, i128::from(pods))?;
    }
    let key = count_key(object);
    if key != "count/pods" {
        sum.add(names.key(&key), ONE)?;
    }
    Ok(sum)
}

/// What one pod asks for: its usage keys, `pods` and `count/pods`.
///
/// # Errors
/// [`Overflow`] is not reachable with amounts that a quantity can hold, and still no wrap.
pub fn pod_demand(
    reserved: &Resources,
    models: &Models<'_>,
    names: &mut Names,
) -> Result<Amounts, Overflow> {
    let mut sum = Amounts::default();
    let mut overflow = Ok(());
    usage_keys(reserved, models, |key, amount| {
        overflow = overflow.and_then(|()| sum.add(names.key(key), amount));
    });
    overflow?;
    sum.add(names.key("pods"), ONE)?;
    sum.add(names.key("count/pods"), ONE)?;
    Ok(sum)
}

/// The key that counts objects of this kind: `count/deployments.apps`, `count/pods`.
#[must_use]
pub fn count_key(object: &ObjectRef<'_>) -> String {
    // Asked for with every review: one allocation, no formatting.
    let mut key = String::with_capacity(64);
    key.push_str("count/");
    push_plural(&object.kind, &mut key);
    if let Some((group, _)) = object.api_version.split_once('/') {
        key.push('.');
        key.push_str(group);
    }
    key
}

/// Declared texts that are no model (`V100|T4`), with what they would type (`cpu`, `memory`, `gpu`): they count
/// under the generic key only, and are reported as `modelAmbiguous`.
pub fn ambiguous_models<'m>(
    models: &'m Models<'_>,
) -> impl Iterator<Item = (&'static str, &'m str)> {
    let declared = [("cpu", &models.cpu), ("memory", &models.memory), ("gpu", &models.gpu)];
    declared
        .into_iter()
        .filter_map(|(what, text)| Some((what, text.as_deref()?)))
        .filter(|(_, text)| !text.is_empty() && !is_model(text))
}

/// Writes the resource name of a kind, as Kubernetes guesses it: lower case, with `s`, `es` or `ies`.
fn push_plural(kind: &str, out: &mut String) {
    if let Some((_, plural)) = PLURALS.iter().find(|(k, _)| *k == kind) {
        out.push_str(plural);
        return;
    }
    out.extend(kind.chars().map(|c| c.to_ascii_lowercase()));
    let vowels = ['a', 'e', 'i', 'o', 'u'];
    let hisses = ["s", "x", "z", "ch", "sh"].iter().any(|end| out.ends_with(end));
    let stem = out.strip_suffix('y').filter(|stem| !stem.ends_with(vowels));
    let stem = stem.map(str::len);
    match stem {
        _ if hisses => out.push_str("es"),
        Some(stem) => {
            out.truncate(stem);
            out.push_str("ies");
        }
        None => out.push('s'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        quantity::{Format, Quantity},
        resources::ResourceList,
        text::Text,
    };
    use std::sync::Arc;

    fn object(api_version: &'static str, kind: &'static str) -> ObjectRef<'static> {
        ObjectRef { api_version: api_version.into(), kind: kind.into(), ..ObjectRef::default() }
    }

    fn role(
        count: u64,
        peak: u64,
        cpu: i128,
        gpu: i128,
        model: Option<&'static str>,
    ) -> Role<'static> {
        let q = |milli| Quantity::from_milli(milli, Format::DecimalSI);
        let pod = Resources {
            requests: ResourceList::from_iter([("cpu", q(cpu))]),
            limits: ResourceList::from_iter([("nvidia.com/gpu", q(gpu))]),
        };
        let models = Models { gpu: model.map(Text::from), ..Models::default() };
        Role { name: Text::EMPTY, count, peak, models, pod: Arc::new(pod) }
    }

    fn shown(amounts: &Amounts, names: &Names) -> Vec<(String, i128)> {
        let mut all: Vec<_> =
            amounts.iter().map(|(k, a)| (names.key_name(k).to_owned(), a)).collect();
        all.sort();
        all
    }

    #[test]
    fn roles_add_up_and_the_object_counts_once() {
        let mut names = Names::default();
        let roles = [role(1, 1, 500, 1000, None), role(4, 5, 2000, 2000, Some("A30"))];
        let job = object("kubeflow.org/v1", "PyTorchJob");
        let steady = demand(&job, &roles, Charge::Steady, &mut names).unwrap();
        assert_eq!(
            shown(&steady, &names),
            [
                ("count/pods".to_owned(), 5000),
                ("count/pytorchjobs.kubeflow.org".to_owned(), 1000),
                ("limits.nvidia.com/gpu".to_owned(), 9000),
                ("limits.nvidia.com/gpu.A30".to_owned(), 8000),
                ("pods".to_owned(), 5000),
                ("requests.cpu".to_owned(), 8500),
            ]
        );
        let peak = demand(&job, &roles, Charge::Peak, &mut names).unwrap();
        assert_eq!(peak.get(names.key("requests.cpu")), 10_500);
        assert_eq!(peak.get(names.key("pods")), 6000);
    }

    #[test]
    fn a_pod_of_its_own_is_one_object() {
        let mut names = Names::default();
        let pod =
            demand(&object("v1", "Pod"), &[role(1, 1, 1, 1, None)], Charge::Steady, &mut names)
                .unwrap();
        assert_eq!(pod.get(names.key("count/pods")), 1000);
        let idle =
            demand(&object("apps/v1", "Deployment"), &[], Charge::Steady, &mut names).unwrap();
        assert_eq!(shown(&idle, &names), [("count/deployments.apps".to_owned(), 1000)]);
    }

    #[test]
    fn a_count_beyond_all_reason_is_an_overflow() {
        let mut names = Names::default();
        let roles = [role(u64::MAX, u64::MAX, i128::from(i64::MAX) * 1000, 0, None)];
        let error = demand(&object("apps/v1", "Deployment"), &roles, Charge::Steady, &mut names);
        assert_eq!(error, Err(Overflow));
    }

    #[test]
    fn a_choice_of_models_is_no_model() {
        let mut names = Names::default();
        let roles = [role(1, 1, 0, 2000, Some("V100|T4"))];
        let asked = demand(&object("v1", "Pod"), &roles, Charge::Steady, &mut names).unwrap();
        assert!(shown(&asked, &names).iter().all(|(k, _)| !k.contains('|')));
        assert_eq!(ambiguous_models(&roles[0].models).collect::<Vec<_>>(), [("gpu", "V100|T4")]);
        assert_eq!(ambiguous_models(&role(1, 1, 0, 0, Some("A30")).models).count(), 0);
    }

    #[test]
    fn kinds_have_the_plurals_that_kubernetes_gives_them() {
        for (api_version, kind, key) in [
            ("v1", "ReplicationController", "count/replicationcontrollers"),
            ("batch/v1", "CronJob", "count/cronjobs.batch"),
            ("networking.k8s.io/v1", "Ingress", "count/ingresses.networking.k8s.io"),
            ("networking.k8s.io/v1", "NetworkPolicy", "count/networkpolicies.networking.k8s.io"),
            ("gateway.networking.k8s.io/v1", "Gateway", "count/gateways.gateway.networking.k8s.io"),
            ("v1", "Endpoints", "count/endpoints"),
        ] {
            assert_eq!(count_key(&object(api_version, kind)), key);
        }
    }
}
