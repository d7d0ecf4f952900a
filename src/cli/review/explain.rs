//! What a review asks for, and what its groups have: the numbers behind the answer.

use crate::{
    decider::What,
    domain::{
        admission::amount,
        event::{Charge, Role},
        ledger::Ledger,
        quota::demand,
        resources::ResourceList,
    },
    webhook::Question,
};

/// A line a role, then a line a key and group that limits it.
pub(super) fn lines(question: &Question, ledger: &mut Ledger) -> Vec<String> {
    let What::Workload(workload) = &question.ask.what else { return Vec::new() };
    let roles = workload.roles.iter().chain(&workload.makes);
    let mut lines: Vec<_> = roles.clone().map(role).collect();
    let group = question.group().to_owned();
    let all: Vec<_> = roles.cloned().collect();
    let limits = ledger.decide(|trial, names, _| {
        let Some(id) = names.known_group(&group) else { return Vec::new() };
        let Ok(asked) = demand(&workload.workload, &all, Charge::Steady, names) else {
            return Vec::new();
        };
        let mut lines = Vec::new();
        for above in trial.above(id) {
            for (key, asks) in asked.iter() {
                let line = trial.line(above, key);
                let Some(limit) = line.limit else { continue };
                lines.push(format!(
                    "  {}: {} asks {}, used {}, hard {}",
                    names.group_name(above),
                    names.key_name(key),
                    amount(names, key, asks),
                    amount(names, key, line.used),
                    amount(names, key, limit)
                ));
            }
        }
        lines.sort();
        lines
    });
    lines.extend(limits.unwrap_or_default());
    lines
}

/// `worker: 4 pods, at most 5; each requests cpu=1, limits cpu=2`.
fn role(role: &Role<'_>) -> String {
    let list = |list: &ResourceList| {
        let amounts: Vec<_> = list.iter().map(|(r, q)| format!("{r}={q}")).collect();
        if amounts.is_empty() { "nothing".to_owned() } else { amounts.join(",") }
    };
    let name = if role.name.is_empty() { String::new() } else { format!("{}: ", role.name) };
    let models =
        [("cpu", &role.models.cpu), ("memory", &role.models.memory), ("gpu", &role.models.gpu)];
    let models: String = models
        .into_iter()
        .filter_map(|(what, model)| Some(format!(", {what} model {}", model.as_deref()?)))
        .collect();
    let pods = if role.count == 1 { "pod" } else { "pods" };
    let most =
        if role.peak > role.count { format!(", at most {}", role.peak) } else { String::new() };
    format!(
        "  {name}{} {pods}{most}; each requests {}, limits {}{models}",
        role.count,
        list(&role.pod.requests),
        list(&role.pod.limits)
    )
}
