//! AdmissionReviews, and the table of kinds that they are read by.

use super::Target;
use crate::corpus;
use bizrq::{
    decider::{Answer, Unavailable},
    k8s::{context::Context, kinds::Kinds},
    webhook::{Next, Options, Request, Surroundings},
};
use serde_json::Value;

/// What an API server sends.
pub(super) const REVIEW: Target = Target {
    name: "review",
    corpus: || corpus::files("corpus/review"),
    tokens: &[
        "\"object\":",
        "\"oldObject\":",
        "\"spec\":",
        "\"replicas\":",
        "\"template\":",
        "\"containers\":[",
        "\"resources\":{\"limits\":{\"cpu\":",
        "\"metadata\":{",
        "\"ownerReferences\":[",
        "\"deletionTimestamp\":",
        "\"subResource\":\"scale\"",
        "\"operation\":\"CREATE\"",
        "\"DELETE\"",
        "null",
        "-1",
        "9223372036854775808",
        "1e400",
        "\"25%\"",
        "[[[[[[[[",
        "{\"a\":",
        "\\u0000",
        "true",
    ],
    parser: || Box::new(review()),
};

/// The table of kinds, in YAML.
pub(super) const KINDS: Target = Target {
    name: "kinds",
    corpus: || corpus::files("kinds"),
    tokens: &[
        "- apiVersions: [x/v1]\n",
        "  kind: X\n",
        "  resource: xs\n",
        "  roles:\n",
        "each: ",
        "template: ",
        "count: ",
        "{path: ",
        "default: ",
        "atMost: a - b",
        "plus: -9223372036854775808",
        "100%",
        "if: {all: [",
        "*one",
        "&one ",
        "]",
        "}",
    ],
    parser: || Box::new(|input| Kinds::default().declare(&String::from_utf8_lossy(input)).is_ok()),
};

/// A review is no review, or it is answered: at once, or whatever the decider says.
fn review() -> impl FnMut(&[u8]) -> bool {
    let kinds = Kinds::builtin().expect("the table that ships");
    let (mut context, options) = (Context::default(), Options::new("east"));
    let parent = include_str!("../../fixtures/corpus/review/parent.json");
    context.see(&kinds, parent).expect("a Deployment");
    move |input| {
        let Ok(request) = Request::decode(input, &kinds) else { return false };
        let around = Surroundings { kinds: &kinds, context: &context, options: &options };
        let responses = match request.next(&around) {
            Next::Said(response) => vec![response],
            Next::Ask(question) => {
                let yes = Answer::Allowed { recorded: Some(7), warnings: Vec::new() };
                let no = Answer::Unavailable(Unavailable::Late);
                [yes, no].iter().map(|answer| question.response(answer)).collect()
            }
        };
        for response in responses {
            let json: Value =
                serde_json::from_slice(&response.to_json().expect("JSON")).expect("JSON");
            assert_eq!(json["response"]["uid"], request.uid.as_str());
            let allowed = json["response"]["allowed"].as_bool().expect("yes or no");
            assert_eq!(allowed, json["response"]["status"].is_null(), "{json}");
        }
        true
    }
}
