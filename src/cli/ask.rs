//! Commands that ask a server's query API: where it is, who asks, and how its answers are shown.
//!
//! A table shows what people look for; `-o json` and `-o yaml` are the API's own answer, all pages of it.

pub(super) mod events;
pub(super) mod explain;
pub(super) mod fits;
pub(super) mod top;
pub(super) mod tree;
pub(super) mod usage;

use super::{
    Error,
    out::{Align, Cell, Out, Table, warn},
};
use serde_json::Value;
use std::{env, time::Duration};
use ureq::{
    Agent, Body, RequestBuilder,
    http::Response,
    tls::{RootCerts, TlsConfig},
};

/// So long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The largest answer that is read: a page of the longest lists is a few MiB.
const MOST_BYTES: u64 = 64 << 20;

#[derive(Debug, clap::Args)]
pub(super) struct Server {
    /// The server's query API; the token comes from the environment: BIZRQ_TOKEN
    #[arg(long, value_name = "URL", env = "BIZRQ_SERVER", default_value = "http://127.0.0.1:8090")]
    server: String,
    /// See only this group and what is below it; of a cluster's token, the group that it may see
    #[arg(long, value_name = "GROUP", env = "BIZRQ_GROUP")]
    as_group: Option<String>,
}

/// How an answer is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// For people
    #[default]
    Table,
    /// As the API says it
    Json,
    /// The same, in YAML
    Yaml,
    /// For spreadsheets
    Csv,
}

/// Lines with their columns, for people and spreadsheets.
pub(super) struct Lines {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<Cell>>,
}

impl Server {
    /// The answer to a question by GET.
    fn get(&self, path: &str, query: &[(&str, Option<String>)]) -> Result<Value, Error> {
        let mut request = self.with_who(agent(Some(PATIENCE)).get(self.url(path)?));
        for (name, value) in query {
            if let Some(value) = value {
                request = request.query(*name, value);
            }
        }
        self.read(path, request.call())
    }

    /// The same with all its pages, whose `list` becomes one.
    fn all(
        &self,
        path: &str,
        query: &[(&str, Option<String>)],
        list: &str,
    ) -> Result<Value, Error> {
        let mut whole = self.get(path, query)?;
        while let Some(next) = whole["next"].as_str().map(str::to_owned) {
            let mut query = query.to_vec();
            query.push(("page", Some(next)));
            let mut page = self.get(path, &query)?;
            whole["next"] = page["next"].take();
            if let (Value::Array(all), Value::Array(more)) = (&mut whole[list], page[list].take()) {
                all.extend(more);
            }
        }
        if let Value::Object(fields) = &mut whole {
            fields.remove("next");
        }
        Ok(whole)
    }

    /// The answer to a body.
    fn post(
        &self,
        path: &str,
        query: &[(&str, Option<String>)],
        body: &str,
    ) -> Result<Value, Error> {
        let mut request = self.with_who(agent(Some(PATIENCE)).post(self.url(path)?));
        for (name, value) in query {
            if let Some(value) = value {
                request = request.query(*name, value);
            }
        }
        self.read(path, request.content_type("application/yaml").send(body))
    }

    /// An answer that does not end, after the event of this id, if any.
    fn stream(
        &self,
        path: &str,
        query: &[(&str, Option<String>)],
        after: Option<&str>,
    ) -> Result<Body, Error> {
        let mut request = self.with_who(agent(None).get(self.url(path)?));
        for (name, value) in query {
            if let Some(value) = value {
                request = request.query(*name, value);
            }
        }
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        let response = self.answered(path, request.call())?;
        Ok(response.into_body())
    }

    fn url(&self, path: &str) -> Result<String, Error> {
        let server = self.server.trim_end_matches('/');
        let place = server.strip_prefix("http://");
        if place.is_none() && !server.starts_with("https://") {
            let why = "is no URL of a server; write http://host:port or https://host:port";
            return Err(Error::Usage(format!("--server: `{server}` {why}")));
        }
        let host = place.map(|place| place.split('/').next().unwrap_or_default());
        let is_near =
            |host: &str| ["127.", "[::1]", "localhost"].iter().any(|near| host.starts_with(near));
        if host.is_some_and(|host| !is_near(host)) && token().is_some() {
            warn(format_args!("the token goes to {server} without encryption; use https"));
        }
        Ok(format!("{server}{path}"))
    }

    fn with_who<B>(&self, mut request: RequestBuilder<B>) -> RequestBuilder<B> {
        if let Some(token) = token() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some(group) = &self.as_group {
            request = request.header("bizrq-group", group);
        }
        request
    }

    fn answered(
        &self,
        path: &str,
        answered: Result<Response<Body>, ureq::Error>,
    ) -> Result<Response<Body>, Error> {
        let place = || format!("{}{path}", self.server.trim_end_matches('/'));
        let mut response = answered.map_err(|why| Error::input(place(), why))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let problem = response.body_mut().with_config().limit(1 << 20).read_to_string();
        let problem: Value = serde_json::from_str(&problem.unwrap_or_default()).unwrap_or_default();
        let why = problem["detail"].as_str().map_or_else(|| status.to_string(), str::to_owned);
        let why = match status.as_u16() {
            401 => format!("{why}; set BIZRQ_TOKEN"),
            _ => why,
        };
        Err(Error::input(place(), why))
    }

    fn read(
        &self,
        path: &str,
        answered: Result<Response<Body>, ureq::Error>,
    ) -> Result<Value, Error> {
        let mut response = self.answered(path, answered)?;
        let text = response.body_mut().with_config().limit(MOST_BYTES).read_to_string();
        let failed = |why: &dyn ToString| Error::input(&self.server, why.to_string());
        serde_json::from_str(&text.map_err(|why| failed(&why))?).map_err(|why| failed(&why))
    }
}

fn agent(patience: Option<Duration>) -> Agent {
    let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
    let config = Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        .timeout_connect(Some(PATIENCE))
        .timeout_global(patience)
        .user_agent(concat!("bizrq/", env!("CARGO_PKG_VERSION")));
    config.build().into()
}

fn token() -> Option<String> {
    env::var("BIZRQ_TOKEN").ok().filter(|token| !token.is_empty())
}

/// Shows an answer; `lines` makes lines of it.
fn show(
    out: &mut Out,
    format: Format,
    answer: &Value,
    lines: impl FnOnce(&Value) -> Lines,
) -> Result<(), Error> {
    match format {
        Format::Json => out.json(answer),
        Format::Yaml => {
            let text = serde_saphyr::to_string(answer);
            out.bytes(text.map_err(|why| Error::input("the answer", why))?.as_bytes())
        }
        Format::Csv => lines(answer).csv(out),
        Format::Table => lines(answer).table(out),
    }
}

impl Lines {
    fn new(columns: &[(&'static str, Align)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    fn push(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    fn table(self, out: &mut Out) -> Result<(), Error> {
        let mut table = Table::new(&self.columns);
        self.rows.into_iter().for_each(|row| table.push(row));
        out.table(&table)
    }

    fn csv(self, out: &mut Out) -> Result<(), Error> {
        out.csv_row(self.columns.iter().map(|(name, _)| name))?;
        self.rows.iter().try_for_each(|row| out.csv_row(row.iter().map(|cell| cell.text().trim())))
    }
}

/// A field's text; nothing where it is absent.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The elements of a list.
fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
