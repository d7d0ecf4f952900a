//! Reviews of quota objects.

use super::{Decision, Reason, Refusal, Verdict, refusal};
use crate::domain::{
    book::{Error, Proposal, Spec, Spend, Trial},
    event::{Operation, Position, QuotaProposed, QuotaSpec},
    names::{GroupId, Names},
    time::Timestamp,
};

/// What a webhook was asked about a quota object.
#[derive(Clone, Copy, Debug)]
pub struct QuotaReview<'r> {
    /// Position of the last record that the decider has applied.
    pub seen: Position,
    /// Uid of the review, if a webhook was asked.
    pub request: Option<&'r str>,
    /// What is asked.
    pub operation: Operation,
    /// The object's name: the group.
    pub name: &'r str,
    /// The object.
    pub uid: &'r str,
    /// Version of the object that is changed.
    pub old_resource_version: Option<&'r str>,
    /// What it is to say, as `quota::TypedSpec::accept` gives it; `None` for a removal.
    pub spec: Option<&'r QuotaSpec<'r>>,
    /// The annotation `bizrq.io/allow-orphans: "true"`.
    pub allow_orphans: bool,
}

/// Decides a review of a quota object; what is let through stays proposed in the trial.
pub fn decide_quota<'r>(
    trial: &mut Trial<'_>,
    names: &mut Names,
    spend: &impl Spend,
    review: &QuotaReview<'r>,
    now: Timestamp,
) -> Verdict<QuotaProposed<'r>> {
    trial.whole();
    let group = names.group(review.name);
    let proposal = match trial.proposal(names, review) {
        Ok(proposal) => proposal,
        Err(error @ Error::Overflow(_)) => {
            return Refusal::new(Reason::InvalidQuantity, error.to_string()).into();
        }
        Err(error) => return Refusal::new(Reason::MalformedObject, error.to_string()).into(),
    };
    let warnings = match &proposal.spec {
        Some(spec) => warnings(trial, names, spend, group, spec, now),
        None => Vec::new(),
    };
    let mark = trial.mark();
    let judged = if proposal.spec.is_some() {
        trial.propose_spec(mark, group, proposal, spend, now)
    } else {
        let judged = trial.judge_removal(group, review.allow_orphans, spend, now);
        if judged.is_ok() {
            trial.propose(group, proposal);
        }
        judged
    };
    if let Err(fault) = judged {
        trial.back(mark);
        return Refusal::fault(names, group, &fault).into();
    }
    let record = QuotaProposed {
        seen: review.seen,
        operation: review.operation,
        uid: review.uid.into(),
        old_resource_version: review.old_resource_version.map(Into::into),
        spec: review.spec.filter(|_| review.operation != Operation::Delete).cloned(),
        request: review.request.map(Into::into),
    };
    Verdict { decision: Decision::Record(record), warnings }
}

impl Trial<'_> {
    /// What a review proposes, in numbers.
    fn proposal(&mut self, names: &mut Names, review: &QuotaReview<'_>) -> Result<Proposal, Error> {
        let ticket = self.ticket();
        let spec = match review.spec.filter(|_| review.operation != Operation::Delete) {
            Some(spec) => Some(self.spec(names, spec)?),
            None => None,
        };
        let old = review.old_resource_version.unwrap_or_default();
        Proposal::new(ticket, review.operation, review.uid, old, spec)
    }
}

/// What is allowed and still worth a word: below use, cash below use, model above generic.
fn warnings(
    trial: &Trial<'_>,
    names: &Names,
    spend: &impl Spend,
    group: GroupId,
    spec: &Spec,
    now: Timestamp,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for (key, hard) in spec.hard.iter() {
        let name = names.key_name(*key);
        let shown = |milli| refusal::amount(names, *key, milli);
        let used = match names.budgeted(*key) {
            Some(budgeted) => {
                let carried = trial.carried(group, budgeted, spend, now);
                trial.budget_used(group, budgeted, spend, now).saturating_sub(carried)
            }
            None => trial.line(group, *key).used,
        };
        if used > *hard {
            warnings.push(format!(
                "spec.hard[{name}]={} is below use: {}",
                shown(*hard),
                shown(used)
            ));
        }
        let generic = spec.hard.iter().find(|(other, limit)| {
            let rest = name.strip_prefix(names.key_name(*other)).and_then(|r| r.strip_prefix('.'));
            rest.is_some() && hard > limit
        });
        if let Some((generic, limit)) = generic {
            warnings.push(format!(
                "spec.hard[{name}]={} is above {}={}, which ends it earlier",
                shown(*hard),
                names.key_name(*generic),
                shown(*limit)
            ));
        }
    }
    warnings
}
