//! The API as OpenAPI 3.1 describes it, made of the types that answer; `schemas/api/openapi.json` is committed.

use super::{
    answer::Page, burndown, fits, pods, problem, quotas, refusals, running, usage, workloads,
};
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// What may be wrong with any question, by status.
const PROBLEMS: &[(&str, &str)] = &[
    ("400", "What is asked makes no sense: field, value, remedy."),
    ("401", "A token is missing, or not known."),
    ("403", "The token does not show that."),
    ("404", "There is no such thing, or it is not shown."),
    ("421", "Without tokens only loopback names are answered to."),
    ("503", "Come again, after the seconds in Retry-After."),
];

/// The document.
#[must_use]
pub fn document() -> Value {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    let mut generator = settings.into_generator();
    let paths = paths(&mut generator);
    let problem = generator.subschema_for::<problem::Told<'static>>();
    let mut schemas = generator.take_definitions(true);
    schemas.sort_keys();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "bizrq",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": "What business groups hold, use and have left. Amounts are texts: exact, and as Kubernetes writes them.",
        },
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}, {}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "parameters": parameters(),
            "responses": problems(problem.as_value()),
            "securitySchemes": {"bearer": {
                "type": "http", "scheme": "bearer",
                "description": "Or the token alone in the header Bizrq-Token, for who comes through what keeps Authorization to itself.",
            }},
        },
    })
}

/// The document as it is committed.
#[must_use]
pub fn text() -> String {
    // A value always has a text.
    serde_json::to_string_pretty(&document()).unwrap_or_default() + "\n"
}

fn paths(generator: &mut SchemaGenerator) -> Value {
    let name = |name: &str, about: &str| {
        json!({"name": name, "in": "path", "required": true, "description": about,
               "schema": {"type": "string", "minLength": 1}})
    };
    let query = |name: &str, about: &str, schema: Value| json!({"name": name, "in": "query", "description": about, "schema": schema});
    let required = |name: &str, about: &str, schema: Value| json!({"name": name, "in": "query", "required": true, "description": about, "schema": schema});
    let shared = |name: &str| json!({"$ref": format!("#/components/parameters/{name}")});
    let limit = |most: usize| {
        query(
            "limit",
            "Lines of a page.",
            json!({"type": "integer", "minimum": 1, "maximum": most}),
        )
    };
    let by = generator.subschema_for::<usage::By>();
    let scope = generator.subschema_for::<usage::Scope>();
    let instant = || json!({"type": "string", "format": "date-time"});
    json!({
        "/v1/quotas": {"get": asked::<quotas::Page>(generator, "quotas",
            "The tree of groups, parents before their children, page by page.",
            vec![limit(quotas::MOST), shared("page")])},
        "/v1/quotas/{name}": {"get": asked::<quotas::One>(generator, "quota",
            "One group, with the names around it.", vec![name("name", "The group.")])},
        "/v1/usage": {"get": asked::<Page<usage::Usage>>(generator, "usage",
            "Unit-hours of whole hours, by group, key and period.",
            vec![shared("group"), query("key", "This key alone.", json!({"type": "string"})),
                 query("from", "A whole hour.", instant()), query("to", "A whole hour that is over.", instant()),
                 query("by", "The length of a line; without, one sum.", json!(by)),
                 query("scope", "Own workloads, or the whole subtree.", json!(scope)),
                 limit(usage::MOST), shared("page")])},
        "/v1/workloads": {"get": asked::<Page<workloads::Workloads>>(generator, "workloads",
            "What is charged for each workload at present.",
            vec![shared("group"), limit(workloads::MOST), shared("page")])},
        "/v1/pods": {"get": asked::<Page<running::Pods>>(generator, "pods",
            "What runs, newest first; as far as pods are remembered (35 days).",
            vec![shared("group"), query("scope", "The group alone, or its whole subtree.", json!(scope)),
                 query("at", "What ran at this instant, by what is known now.", instant()),
                 limit(running::MOST), shared("page")])},
        "/v1/burndown": {"get": asked::<burndown::Course>(generator, "burndown",
            "How a budget came to what is left of it, by the limits and the tree of now.",
            vec![required("group", "The group.", json!({"type": "string"})),
                 required("key", "A budget that it lists: `cash/K`.", json!({"type": "string"})),
                 query("from", "The first point; the begin of the period or of the account if not given.", instant()),
                 query("to", "The last point; now if not given.", instant()),
                 query("by", "The length between points; a day if not given.", json!(by))])},
        "/v1/pods/{uid}": {"get": asked::<pods::Pod>(generator, "pod",
            "One pod, segment by segment.",
            vec![name("uid", "Its uid."), query("cluster", "Its cluster, where several have this uid.", json!({"type": "string"}))])},
        "/v1/refusals": {"get": asked::<Page<refusals::Refusals>>(generator, "refusals",
            "What was refused and why, newest first.",
            vec![shared("group"), query("scope", "The group alone, or its whole subtree.", json!(scope)),
                 query("at", "What was told by then.", instant()), limit(refusals::MOST), shared("page")])},
        "/v1/state": {"get": asked::<quotas::Page>(generator, "state",
            "The tree as it stood, by the records that were published by then.",
            vec![required("at", "The instant.", instant()),
                 limit(quotas::MOST), shared("page")])},
        "/v1/fits": {"post": fits(generator)},
        "/v1/events": {"get": events()},
    })
}

/// A question by GET.
fn asked<T: JsonSchema>(
    generator: &mut SchemaGenerator,
    id: &str,
    summary: &str,
    mut parameters: Vec<Value>,
) -> Value {
    parameters.push(json!({"$ref": "#/components/parameters/bizrq-group"}));
    let schema = generator.subschema_for::<T>();
    let mut responses = responses();
    responses.insert("200".to_owned(), json!({
        "description": "The answer.",
        "headers": {"ETag": {"description": "Position and instant.", "schema": {"type": "string"}}},
        "content": {"application/json": {"schema": schema}},
    }));
    responses.insert("304".to_owned(), json!({"description": "You have it (If-None-Match)."}));
    json!({"operationId": id, "summary": summary, "parameters": parameters, "responses": responses})
}

fn fits(generator: &mut SchemaGenerator) -> Value {
    let schema = generator.subschema_for::<fits::Told>();
    let mut responses = responses();
    responses.insert(
        "200".to_owned(),
        json!({
            "description": "What a review would say now. Nothing is recorded.",
            "content": {"application/json": {"schema": schema}},
        }),
    );
    for (status, about) in
        [("413", "More than 256 KiB."), ("422", "No manifest of a workload that is known.")]
    {
        responses.insert(status.to_owned(), problem(about));
    }
    let manifest = json!({"type": "object", "required": ["apiVersion", "kind"], "properties": {
        "apiVersion": {"type": "string"}, "kind": {"type": "string"},
    }});
    json!({
        "operationId": "fits",
        "summary": "Would this manifest fit; if not, why, and how many replicas would; when would the cash end.",
        "parameters": [
            {"name": "cluster", "in": "query", "description": "The cluster that it is meant for; the first if not given.",
             "schema": {"type": "string"}},
            {"$ref": "#/components/parameters/bizrq-group"},
        ],
        "requestBody": {"required": true, "content": {
            "application/json": {"schema": manifest}, "application/yaml": {"schema": manifest},
        }},
        "responses": responses,
    })
}

fn events() -> Value {
    let mut responses = responses();
    responses.insert("200".to_owned(), json!({
        "description": "CloudEvents, one a server-sent event whose id is the position; `end` says why a stream ends.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }));
    let number = |minimum: u64| json!({"type": "integer", "minimum": minimum});
    json!({
        "operationId": "events",
        "summary": "The log, as it grows.",
        "parameters": [
            {"name": "from", "in": "query", "description": "From this position on.", "schema": number(1)},
            {"name": "last", "in": "query", "description": "The last so many records, and what comes.",
             "schema": {"type": "integer", "minimum": 0, "maximum": 1000}},
            {"name": "Last-Event-ID", "in": "header", "description": "What follows this position; counts before the others.",
             "schema": number(0)},
            {"$ref": "#/components/parameters/bizrq-group"},
        ],
        "responses": responses,
    })
}

fn responses() -> Map<String, Value> {
    let problem = |status: &str| json!({"$ref": format!("#/components/responses/{status}")});
    PROBLEMS.iter().map(|(status, _)| ((*status).to_owned(), problem(status))).collect()
}

fn problem(about: &str) -> Value {
    json!({"description": about, "content": {"application/problem+json": {
        "schema": {"$ref": "#/components/schemas/Problem"},
    }}})
}

fn problems(schema: &Value) -> Map<String, Value> {
    let content = json!({"application/problem+json": {"schema": schema}});
    let told = |about: &str| json!({"description": about, "content": content.clone()});
    PROBLEMS.iter().map(|(status, about)| ((*status).to_owned(), told(about))).collect()
}

fn parameters() -> Value {
    json!({
        "page": {"name": "page", "in": "query", "description": "The `next` of the page before.",
                 "schema": {"type": "string"}},
        "group": {"name": "group", "in": "query", "description": "This group alone.", "schema": {"type": "string"}},
        "bizrq-group": {"name": "Bizrq-Group", "in": "header",
                        "description": "See only this group and what is below it.", "schema": {"type": "string"}},
    })
}
