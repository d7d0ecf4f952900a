//! Manifests, as somebody would apply them: made the review that an API server would send, and judged on the running
//! ledger without a record.

use super::{
    Next, Options, Question, Request, Response, Surroundings,
    review::{Body, Verb},
};
use crate::{
    decider::{Answer, What},
    domain::{
        admission::{self, Decision, Verdict},
        amounts::Amounts,
        book::Exhaustion,
        event::{Admission, Charge},
        names::Names,
        quota::{Unit, demand},
        time::Timestamp,
    },
    k8s::{
        context::{self, Context},
        kinds::{Kind, Kinds},
    },
    projection::Projection,
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

/// A version that is newer than any that was seen.
const NEWEST: u64 = 1 << 62;

impl Request {
    /// The review that an API server would send if `json`, a manifest of this kind, were applied in a cluster of which
    /// `context` is known: an update where an object of its name is there, else a create. `version` is the object's.
    ///
    /// # Errors
    /// What in it cannot be understood.
    pub fn of_manifest(
        kind: &Arc<Kind>,
        json: &str,
        version: u64,
        context: &Context,
    ) -> Result<Self, String> {
        let mut object = context::read(kind, json).map_err(|why| why.to_string())?;
        let meta = &mut object.metadata;
        if meta.namespace.is_empty() {
            meta.namespace = "default".to_owned();
        }
        if meta.uid.is_empty() {
            meta.uid = format!("{}/{}/{}", kind.kind, meta.namespace, meta.name);
        }
        meta.resource_version = version.to_string();
        let mut request = Self {
            uid: version.to_string(),
            api_version: object.api_version.to_string(),
            kind: kind.kind.to_string(),
            user: "kubectl".to_owned(),
            name: meta.name.clone(),
            namespace: meta.namespace.clone(),
            ..Self::default()
        };
        let known = context.named(&object.api_version, &kind.kind, &meta.namespace, &meta.name);
        if let Some(known) = known {
            meta.uid.clone_from(&known.object.metadata.uid);
            request.operation = Verb::Update;
            request.old = Body::Object(Arc::clone(kind), Box::new(known.object.clone()));
        }
        request.object = Body::Object(Arc::clone(kind), Box::new(object));
        Ok(request)
    }
}

/// Judges manifests of one cluster.
#[derive(Clone, Debug)]
pub struct Manifests {
    /// Which kinds ask for what.
    pub kinds: Arc<Kinds>,
    /// What is known of the cluster.
    pub context: Arc<RwLock<Context>>,
    /// What the operator chose for it.
    pub options: Options,
    /// The ledger.
    pub projection: Projection,
}

/// What a manifest asks.
#[derive(Debug)]
pub struct Asked {
    next: Next,
    projection: Projection,
}

/// What it would be told.
#[derive(Clone, Debug, Default)]
pub struct Fitted {
    /// The answer, as an API server would get it.
    pub response: Option<Response>,
    /// How many replicas would be admitted, of so many.
    pub replicas: Option<(u64, u64)>,
    /// What it asks for.
    pub asks: BTreeMap<String, String>,
    /// Of each budget that it would be spent from: whose, of which key, and when it ends if this runs from now on.
    pub cash: Vec<(String, String, Exhaustion)>,
}

impl Manifests {
    /// What the manifest `body`, JSON or YAML, asks for.
    ///
    /// # Errors
    /// What is wrong with it: field, value, remedy.
    pub fn read(&self, body: &[u8]) -> Result<Asked, String> {
        let value = parse(body)?;
        let text = |field: &str| value[field].as_str().unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let declared = self.kinds.find(api_version, kind).ok_or_else(|| {
            format!(
                "kind: `{kind}` of apiVersion `{api_version}` is no workload that is known here"
            )
        })?;
        let context = self.context.read().unwrap_or_else(PoisonError::into_inner);
        let request = Request::of_manifest(declared, &value.to_string(), NEWEST, &context)?;
        let options = Options { offline: true, ..self.options.clone() };
        let around = Surroundings { kinds: &self.kinds, context: &context, options: &options };
        Ok(Asked { next: request.next(&around), projection: self.projection.clone() })
    }
}

/// One document, and nothing that costs more than its bytes.
fn parse(body: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(body).map_err(|why| format!("the manifest: {why}"))?;
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: 64, max_aliases: 100, max_anchors: 100 },
        // `010` is 8, as kubectl reads it.
        legacy_octal_numbers: true,
    };
    let value: Value = match text.trim_start().starts_with('{') {
        true => serde_json::from_str(text).map_err(|why| format!("the manifest: {why}"))?,
        false => serde_saphyr::from_str_with_options(text, options).map_err(|why| {
            let off = serde_saphyr::render_options! { snippets: serde_saphyr::SnippetMode::Off };
            let why = why.render_with_options(off);
            format!("the manifest: {why}; give one object, in JSON or YAML")
        })?,
    };
    match value {
        Value::Object(mut fields) => {
            fields.retain(|_, field| !field.is_null());
            Ok(Value::Object(fields))
        }
        _ => Err("the manifest: is no object; give one, with apiVersion and kind".to_owned()),
    }
}

impl Asked {
    /// The group that is asked; empty for none.
    #[must_use]
    pub fn group(&self) -> &str {
        match &self.next {
            Next::Ask(question) => question.group(),
            Next::Said(_) => "",
        }
    }

    /// What it would be told by the ledger as it is now. Nothing is recorded.
    #[must_use]
    pub fn decide(&self, now: Timestamp) -> Fitted {
        let question = match &self.next {
            Next::Said(response) => {
                return Fitted { response: Some(response.clone()), ..Fitted::default() };
            }
            Next::Ask(question) => question,
        };
        judge(question, &self.projection, now).unwrap_or_default()
    }
}

fn judge(question: &Question, projection: &Projection, now: Timestamp) -> Option<Fitted> {
    let What::Workload(workload) = &question.ask.what else { return None };
    let open = workload.open();
    let review = workload.review(&question.ask, &open);
    let roles: Vec<_> = workload.roles.iter().chain(&workload.makes).cloned().collect();
    projection.desk().decide(|trial, names, meter| {
        let asks = demand(&workload.workload, &roles, Charge::Steady, names).unwrap_or_default();
        let mut cash = Vec::new();
        if let Some(group) = names.known_group(question.group()) {
            for (key, amount) in asks.iter() {
                let end = trial.exhaustion_with(group, key, amount, meter, now);
                cash.extend(end.map(|(of, end)| {
                    (names.group_name(of).to_owned(), names.key_name(key).to_owned(), end)
                }));
            }
        }
        let verdict = admission::decide(trial, names, meter, &review, now);
        let (answer, replicas) = answered(verdict);
        Fitted {
            response: Some(question.response(&answer)),
            replicas,
            asks: written(names, &asks),
            cash,
        }
    })
}

/// What the API server would be told, and how many replicas would be admitted.
fn answered(verdict: Verdict<Admission<'_>>) -> (Answer, Option<(u64, u64)>) {
    let Verdict { decision, warnings } = verdict;
    match decision {
        Decision::Refused(refusal) => {
            let fit = refusal.fit.map(|fit| (fit.replicas, fit.of));
            ((*refusal).into(), fit)
        }
        Decision::Allowed | Decision::Record(_) => {
            (Answer::Allowed { recorded: None, warnings }, None)
        }
    }
}

/// Amounts by key, as Kubernetes writes them.
fn written(names: &Names, amounts: &Amounts) -> BTreeMap<String, String> {
    let amounts = amounts.iter().filter(|(_, amount)| *amount != 0);
    let written = amounts.map(|(key, amount)| {
        let name = names.key_name(key);
        (name.to_owned(), Unit::of(name).written(amount))
    });
    written.collect()
}
