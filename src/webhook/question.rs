//! What is to be done with a review: it is answered already, or the decider is asked, whose answer becomes the API server's.

use super::{Request, Response, quotas, workloads};
use crate::{
    decider::{Answer, Ask, Missing, What},
    domain::admission::{Reason, Refusal},
    k8s::{context::Context, kinds::Kinds},
};

/// What a review is judged by, beside the ledger.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'c> {
    /// Which kinds ask for what.
    pub kinds: &'c Kinds,
    /// What is known of the cluster.
    pub context: &'c Context,
    /// What the operator chose.
    pub options: &'c Options,
}

/// What the operator chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The cluster that asks, by name.
    pub cluster: String,
    /// The cluster whose quota objects count, if that is another one.
    pub quotas_elsewhere: Option<String>,
    /// Whether mirrors of that cluster's quota objects are kept in this one.
    pub mirrored: bool,
    /// What becomes of what names no group.
    pub missing: Missing,
    /// What becomes of growth while the log cannot be reached.
    pub unavailable: Unavailable,
    /// Objects come from a file, not from an API server: defaults that only pods get are filled in, and there is no
    /// name that is taken.
    pub offline: bool,
}

/// What becomes of growth while the log cannot be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unavailable {
    /// `LogUnavailable`.
    #[default]
    Refuse,
    /// Allowed, and charged as unreviewed when it comes.
    Admit,
}

/// What is to be done with a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is answered already.
    Said(Response),
    /// The decider is to be asked.
    Ask(Box<Question>),
}

/// What the decider is to be asked, and what is said beside its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The question.
    pub ask: Ask,
    /// Shown beside whatever is answered.
    pub warnings: Vec<String>,
    unavailable: Unavailable,
}

impl Options {
    /// What is usual, for a cluster of this name.
    #[must_use]
    pub fn new(cluster: &str) -> Self {
        Self {
            cluster: cluster.to_owned(),
            quotas_elsewhere: None,
            mirrored: false,
            missing: Missing::default(),
            unavailable: Unavailable::default(),
            offline: false,
        }
    }
}

impl Request {
    /// What is to be done with this review.
    #[must_use]
    pub fn next(&self, around: &Surroundings<'_>) -> Next {
        if self.is_quota() { quotas::next(self, around) } else { workloads::next(self, around) }
    }
}

impl Question {
    pub(super) fn new(ask: Ask, warnings: Vec<String>, around: &Surroundings<'_>) -> Self {
        Self { ask, warnings, unavailable: around.options.unavailable }
    }

    /// The group that is asked; of a quota object, the one that it is.
    #[must_use]
    pub fn group(&self) -> &str {
        match &self.ask.what {
            What::Workload(workload) => match (&workload.group, &workload.missing) {
                (Some(group), _) if !group.is_empty() => group,
                (_, Missing::Default(group)) => group,
                _ => "",
            },
            What::Quota(quota) => &quota.name,
        }
    }

    /// What the API server is told.
    #[must_use]
    pub fn response(&self, answer: &Answer) -> Response {
        let response = match answer {
            Answer::Allowed { recorded, warnings } => {
                let reason = if recorded.is_some() { "Recorded" } else { "NothingGrows" };
                let mut response = Response::allowed(&self.ask.request, reason);
                response.warn(warnings);
                if let Some(position) = recorded {
                    response.annotate("position", position.to_string());
                }
                response
            }
            Answer::Refused(refused) => {
                Response::refused(&self.ask.request, refused.reason, &refused.message)
            }
            Answer::Unavailable(why) if self.unavailable == Unavailable::Admit => {
                let mut response = Response::allowed(&self.ask.request, "Unreviewed");
                response.warn(&[format!("admitted without a review: {why}")]);
                response
            }
            Answer::Unavailable(why) => {
                Response::refused(&self.ask.request, Reason::LogUnavailable, &why.to_string())
            }
        };
        self.beside(response)
    }

    fn beside(&self, mut response: Response) -> Response {
        response.warn(&self.warnings);
        response.annotate("group", self.group().to_owned());
        response
    }
}

impl Next {
    /// Allowed: nothing grows.
    pub(super) fn nothing_grows(request: &Request) -> Self {
        Self::Said(Response::allowed(&request.uid, "NothingGrows"))
    }

    pub(super) fn refused(request: &Request, refusal: &Refusal) -> Self {
        Self::Said(Response::refused(&request.uid, refusal.reason, &refusal.message))
    }

    /// Refused for now: what the review is about has not been seen yet.
    pub(super) fn unknown(request: &Request, why: String) -> Self {
        Self::refused(request, &Refusal::new(Reason::LogUnavailable, why))
    }

    /// Allowed: quota objects of another cluster count.
    pub(super) fn counts_elsewhere(request: &Request, cluster: &str) -> Self {
        let mut response = Response::allowed(&request.uid, "CountsElsewhere");
        response.warn(&[format!(
            "quota objects of cluster {cluster} count; this one changes nothing: change the one there"
        )]);
        Self::Said(response)
    }

    /// Allowed: objects of this kind ask for nothing that anybody declared.
    pub(super) fn not_declared(request: &Request) -> Self {
        let mut response = Response::allowed(&request.uid, "NotDeclared");
        response.warn(&[format!(
            "kind {} of {} is not in bizrq's table of kinds: its pods are reviewed one by one",
            request.kind, request.api_version
        )]);
        Self::Said(response)
    }

    /// Refused: the object cannot be understood.
    pub(super) fn malformed(request: &Request, why: impl ToString) -> Self {
        Self::refused(request, &Refusal::new(Reason::MalformedObject, why.to_string()))
    }
}
