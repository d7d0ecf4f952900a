//! What the texts of a table mean, or why they mean nothing: paths, amounts, conditions, and what must be kept of an
//! object to answer them.

use super::{
    Kind,
    declare::{AddedText, ConditionText, KindText, Many, RoleText, Scalar, TermFields, TermText},
    path::{Keep, Path},
    roles::{Added, Named, Rule},
    terms::{Amount, Bound, Condition, Term},
};
use crate::k8s::pod::ResourceRequirements;

impl KindText {
    pub(super) fn meant(self) -> Result<Kind, String> {
        let word = |what: &str, text: &str, upper: bool| {
            let inner = |b: u8| {
                b.is_ascii_lowercase() || b.is_ascii_digit() || (upper && b.is_ascii_uppercase())
            };
            let fine = !text.is_empty() && text.len() <= 63 && text.bytes().all(inner);
            if fine {
                Ok(())
            } else {
                Err(format!("{what}: `{text}` is none; write it as the API does"))
            }
        };
        word("kind", &self.kind, true)?;
        word("resource", &self.resource, false)?;
        let versions = self.api_versions.0;
        if versions.is_empty() || versions.iter().any(String::is_empty) {
            return Err("apiVersions: name at least one, as in [apps/v1]".into());
        }
        let in_roles = |(at, role): (usize, RoleText)| {
            role.meant().map_err(|why| format!("roles[{at}].{why}"))
        };
        let mut kind = Kind {
            api_versions: versions.into_iter().map(Into::into).collect(),
            kind: self.kind.into(),
            resource: self.resource.into(),
            roles: self.roles.into_iter().enumerate().map(in_roles).collect::<Result<_, _>>()?,
            suspended: conditions("suspended", self.suspended)?,
            finished: conditions("finished", self.finished)?,
            scale: self.scale.map(|text| path("scale", &text)).transpose()?,
            makes: self.makes,
            controllers: self.controllers.0.into_iter().flat_map(|c| accounts(&c)).collect(),
            keep: Keep::Inside(Vec::new()),
        };
        kind.keep = keep(&kind)?;
        Ok(kind)
    }
}

/// The users that a controller writes as: its own account, or, without accounts a controller, that of all of them.
fn accounts(name: &str) -> Vec<Box<str>> {
    if name.contains(':') {
        return vec![name.into()];
    }
    vec![
        format!("system:serviceaccount:kube-system:{name}").into(),
        "system:kube-controller-manager".into(),
    ]
}

impl RoleText {
    fn meant(self) -> Result<Rule, String> {
        let each = self.each.map(|text| path("each", &text)).transpose()?;
        let name = match (self.name, &each) {
            (Some(name), Some(_)) if name.starts_with('.') => Named::At(path("name", &name)?),
            (Some(name), Some(_)) => {
                return Err(format!(
                    "name: `{name}` would name every entry; write a path that begins with `.`"
                ));
            }
            (None, Some(_)) => Named::Key,
            (name, None) => Named::Fixed(name.unwrap_or_default().into()),
        };
        let templates: Vec<_> =
            self.template.0.iter().map(|t| path("template", t)).collect::<Result<_, _>>()?;
        if templates.is_empty() {
            return Err(
                "template: missing; write where the pod template is, as in spec.template".into()
            );
        }
        if self.count.0.is_empty() {
            return Err(
                "count: missing; write a number, or a term like {path: spec.replicas, default: 1}"
                    .into(),
            );
        }
        let rule = Rule {
            name,
            templates,
            reference: self.reference.map(|text| path("reference", &text)).transpose()?,
            nodes: self.nodes.map(|text| path("nodes", &text)).transpose()?,
            count: terms("count", self.count, false)?,
            times: terms("times", self.times, false)?,
            surge: terms("surge", self.surge, true)?,
            peak: terms("peak", self.peak, true)?,
            unless: conditions("unless", self.unless)?,
            adds: self.adds.into_iter().map(AddedText::meant).collect::<Result<_, _>>()?,
            each,
        };
        let from = rule.adds.iter().filter_map(|added| added.from.as_ref());
        let all = rule.paths().chain(&rule.templates).chain(&rule.reference).chain(from);
        let lost = all.into_iter().find(|p| p.of_entry && rule.each.is_none());
        match lost {
            Some(lost) => Err(format!(
                "`{lost}` begins at an entry, and there is no `each`; write the path from the object's root"
            )),
            None => Ok(rule),
        }
    }
}

impl AddedText {
    fn meant(self) -> Result<Added, String> {
        let ResourceRequirements { requests, limits } = &self.resources;
        for (resource, amount) in requests.0.iter().chain(&limits.0) {
            if let Err(why) = amount {
                return Err(format!("adds.resources, `{resource}`: {why}"));
            }
        }
        Ok(Added {
            when: self.r#if.map(|c| condition("adds.if", c)).transpose()?,
            init: self.init,
            from: self.from.map(|text| path("adds.from", &text)).transpose()?,
            resources: self.resources,
        })
    }
}

fn path(what: &str, text: &str) -> Result<Path, String> {
    Path::parse(text).ok_or_else(|| {
        format!(
            "{what}: `{text}` is no path; write keys with dots between them, as in spec.template"
        )
    })
}

fn terms(what: &str, texts: Many<TermText>, shares: bool) -> Result<Vec<Term>, String> {
    texts.0.into_iter().map(|term| term.0.meant(what, shares)).collect()
}

impl TermFields {
    fn meant(self, what: &str, shares: bool) -> Result<Term, String> {
        let default = match &self.default {
            Some(text) => amount(&format!("{what}.default"), &text.0, shares)?,
            None => {
                return Err(format!(
                    "{what}.default: missing; write what counts where nothing is written"
                ));
            }
        };
        let bound = |name: &str, text: Option<Scalar>| {
            text.map(|text| bound(&format!("{what}.{name}"), &text.0, shares)).transpose()
        };
        Ok(Term {
            when: self.r#if.map(|c| condition(&format!("{what}.if"), c)).transpose()?,
            path: self.path.map(|text| path(&format!("{what}.path"), &text)).transpose()?,
            default,
            at_least: bound("atLeast", self.at_least)?,
            at_most: bound("atMost", self.at_most)?,
            plus: self.plus.unwrap_or(0),
        })
    }
}

fn amount(what: &str, text: &str, shares: bool) -> Result<Amount, String> {
    let pods = text.parse().ok().filter(|n: &i64| *n >= 0).map(Amount::Pods);
    let share = || Amount::percent(text).filter(|_| shares && text.ends_with('%'));
    pods.or_else(share).ok_or_else(|| {
        let percent = if shares { " or a percentage" } else { "" };
        format!("{what}: `{text}` is no amount; write a whole number of 0 or more{percent}")
    })
}

fn bound(what: &str, text: &str, shares: bool) -> Result<Bound, String> {
    if text.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        return amount(what, text, shares).map(Bound::Fixed);
    }
    let paths = text.split(" - ").map(|text| path(what, text));
    paths.collect::<Result<_, _>>().map(Bound::Paths)
}

fn conditions(what: &str, texts: Many<ConditionText>) -> Result<Vec<Condition>, String> {
    texts.0.into_iter().map(|text| condition(what, text)).collect()
}

fn condition(what: &str, text: ConditionText) -> Result<Condition, String> {
    let boxed = |texts: Vec<String>| texts.into_iter().map(Into::into).collect();
    let at = |text: &str| path(what, text);
    match text {
        ConditionText {
            path: Some(p),
            is: Some(is),
            present: None,
            name: None,
            conditions: None,
            all: None,
        } => Ok(Condition::Is(at(&p)?, boxed(is.0.into_iter().map(|s| s.0).collect()))),
        ConditionText {
            path: Some(p),
            is: None,
            present: Some(yes),
            name: None,
            conditions: None,
            all: None,
        } => Ok(Condition::Present(at(&p)?, yes)),
        ConditionText {
            path: None,
            is: None,
            present: None,
            name: Some(name),
            conditions: None,
            all: None,
        } => Ok(Condition::Named(name.into())),
        ConditionText {
            path: p,
            is: None,
            present: None,
            name: None,
            conditions: Some(kinds),
            all: None,
        } => {
            let p = p.unwrap_or_else(|| "status.conditions".to_owned());
            Ok(Condition::Reported(at(&p)?, boxed(kinds.0)))
        }
        ConditionText {
            path: None,
            is: None,
            present: None,
            name: None,
            conditions: None,
            all: Some(all),
        } => conditions(what, Many(all)).map(Condition::All),
        _ => Err(format!(
            "{what}: is no condition; write one of {{path, is}}, {{path, present}}, {{name}}, {{conditions}}, {{all}}"
        )),
    }
}

/// What must be kept of an object to answer everything that its kind asks of it.
fn keep(kind: &Kind) -> Result<Keep, String> {
    let mut keep = Keep::Inside(Vec::new());
    let mut add = |path: &Path, each: Option<&Path>, what: Keep| {
        let clash = |_| {
            format!(
                "`{path}` is read in two ways; it is a pod's specification or a value, not both"
            )
        };
        match each.filter(|_| path.of_entry) {
            None => keep.add(&path.keys, what).map_err(clash),
            Some(each) => {
                let mut entry = Keep::Value;
                entry.add(&path.keys, what).map_err(clash)?;
                keep.add(&each.keys, Keep::Each(Box::new(entry))).map_err(clash)
            }
        }
    };
    let value = |condition: &Condition, path: &Path| match condition {
        Condition::Reported(at, _) if at == path => {
            let field = |name: &str| (name.into(), Keep::Value);
            Keep::Each(Box::new(Keep::Inside(vec![field("type"), field("status")])))
        }
        _ => Keep::Value,
    };
    for condition in kind.suspended.iter().chain(&kind.finished) {
        for path in condition.paths() {
            add(path, None, value(condition, path))?;
        }
    }
    for role in &kind.roles {
        let each = role.each.as_ref();
        if let Some(each) = each {
            add(each, None, Keep::Each(Box::new(Keep::Value)))?;
        }
        for template in &role.templates {
            if !template.keys.is_empty() {
                add(&template.inside("metadata"), each, Keep::Labels)?;
            }
            add(&template.inside("spec"), each, Keep::PodSpec)?;
            if template.keys.is_empty() && each.is_none() {
                add(&template.inside("status"), each, Keep::PodStatus)?;
            }
        }
        if let Some(reference) = &role.reference {
            for field in ["apiVersion", "kind", "name"] {
                add(&reference.inside(field), each, Keep::Value)?;
            }
        }
        for added in &role.adds {
            if let Some(from) = &added.from {
                add(from, each, Keep::Resources)?;
            }
        }
        for path in role.paths() {
            add(path, each, Keep::Value)?;
        }
    }
    if let Some(scale) = &kind.scale {
        add(scale, None, Keep::Value)?;
    }
    Ok(keep)
}
