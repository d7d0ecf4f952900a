//! Answers of the recent past: whoever asks again is told the same.

use super::{Answer, Ask};
use crate::domain::names::{Map, Uid};
use std::collections::VecDeque;

/// So many answers are remembered: a minute at 500 reviews a second, which is twice as long as an API server
/// waits for a webhook. What was recorded is found in the ledger for longer.
const REMEMBERED: usize = 32_768;

/// A request of one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RequestId(Uid);

/// Answers by request, the newest of them.
#[derive(Debug, Default)]
pub(super) struct Recent {
    answers: Map<RequestId, Answer>,
    order: VecDeque<RequestId>,
}

impl RequestId {
    pub(super) fn of(ask: &Ask) -> Self {
        // No name of a cluster has a line break.
        Self(Uid::of(&format!("{}\n{}", ask.cluster, ask.request)))
    }
}

impl Recent {
    pub(super) fn get(&self, request: RequestId) -> Option<&Answer> {
        self.answers.get(&request)
    }

    /// Remembers what was decided; that nothing could be decided is worth another try.
    pub(super) fn remember(&mut self, request: RequestId, answer: &Answer) {
        if matches!(answer, Answer::Unavailable(_)) {
            return;
        }
        if self.answers.insert(request, answer.clone()).is_none() {
            self.order.push_back(request);
        }
        let full = self.order.len() > REMEMBERED;
        if let Some(oldest) = full.then(|| self.order.pop_front()).flatten() {
            self.answers.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{What, ask::Quota};
    use super::*;
    use crate::domain::event::Operation;

    fn request(cluster: &str, request: usize) -> RequestId {
        let quota = Quota {
            operation: Operation::Delete,
            name: "team-a".into(),
            uid: "u".into(),
            old_resource_version: None,
            spec: None,
            allow_orphans: false,
        };
        RequestId::of(&Ask {
            request: request.to_string(),
            cluster: cluster.into(),
            dry_run: false,
            what: What::Quota(Box::new(quota)),
        })
    }

    #[test]
    fn the_newest_answers_are_remembered_and_no_more() {
        let mut recent = Recent::default();
        for i in 0..=REMEMBERED {
            recent.remember(request("east", i), &Answer::recorded(i as u64, Vec::new()));
        }
        assert_eq!(recent.get(request("east", 0)), None);
        assert_eq!(recent.get(request("east", 1)), Some(&Answer::recorded(1, Vec::new())));
        assert_eq!(recent.get(request("west", 1)), None, "another cluster's request");
        assert_eq!(recent.answers.len(), REMEMBERED);
    }

    #[test]
    fn that_nothing_was_decided_is_not_remembered() {
        let mut recent = Recent::default();
        recent.remember(request("east", 0), &super::super::Unavailable::Late.into());
        assert_eq!(recent.get(request("east", 0)), None);
    }
}
