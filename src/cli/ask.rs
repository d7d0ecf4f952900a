//! Commands that ask a server's query API: where it is, who asks, and how its answers are shown.
//!
//! A table shows what people look for; `-o json` and `-o yaml` are the API's own answer, all pages of it.

pub(super) mod events;
pub(super) mod explain;
pub(super) mod fits;
mod through;
pub(super) mod top;
pub(super) mod tree;
pub(super) mod usage;

use super::{
    Error, is_plugin,
    out::{Align, Cell, Out, Table},
};
use hyper::Uri;
use serde_json::Value;
use std::{
    env, fs,
    io::{self, Read},
    net::IpAddr,
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};
use through::{Place, Through};
use ureq::{
    Agent, RequestBuilder,
    tls::{PemItem, RootCerts, TlsConfig, parse_pem},
};

/// So long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The largest answer that is read: a page of the longest lists is a few MiB.
const MOST_BYTES: u64 = 64 << 20;
/// Where the query API is, if nobody says where.
const HERE: &str = "http://127.0.0.1:8090";

#[derive(Debug, clap::Args)]
pub(super) struct Server {
    /// The server's query API; the token comes from the environment: BIZRQ_TOKEN. If not given
    /// http://127.0.0.1:8090, and of `kubectl bizrq` what the kubeconfig's context leads to
    #[arg(long, value_name = "URL", env = "BIZRQ_SERVER")]
    server: Option<String>,
    /// Of an https:// server, trust who these certificates (PEM) signed, and nobody else; what this host trusts if not given
    #[arg(long, value_name = "FILE", env = "BIZRQ_CA")]
    ca: Option<PathBuf>,
    /// Send the token also where it can be read on the way: to an http:// server that is not this host
    #[arg(long, env = "BIZRQ_PLAIN_TOKEN")]
    plain_token: bool,
    /// Ask through the API server of this context of your kubeconfig, whatever --server says; without BIZRQ_TOKEN
    /// bizrq gets the token by which the API server knows you
    #[arg(long, value_name = "CONTEXT")]
    context: Option<String>,
    /// The Service that the API server has it from: NAMESPACE/NAME:PORT, or NAMESPACE/https:NAME:PORT
    #[arg(
        long,
        value_name = "SERVICE",
        env = "BIZRQ_SERVICE",
        default_value = "bizrq/bizrq-api:8090"
    )]
    service: Place,
    /// See only this group and what is below it; of a cluster's token, the group that it may see
    #[arg(long, value_name = "GROUP", env = "BIZRQ_GROUP")]
    as_group: Option<String>,
    #[arg(skip)]
    through: OnceLock<Through>,
}

/// What is asked, without where.
struct Question<'a> {
    path: &'a str,
    query: &'a [(&'a str, Option<String>)],
    headers: Vec<(&'static str, &'a str)>,
    /// A manifest in JSON or YAML, if anything.
    body: Option<&'a str>,
    /// So long an answer may take; `None`: it has no end.
    patience: Option<Duration>,
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
        self.read(self.question(path, query))
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
        self.read(Question { body: Some(body), ..self.question(path, query) })
    }

    /// An answer that does not end, after the event of this id, if any.
    fn stream(
        &self,
        path: &str,
        query: &[(&str, Option<String>)],
        after: Option<&str>,
    ) -> Result<Box<dyn Read + '_>, Error> {
        let mut question = Question { patience: None, ..self.question(path, query) };
        question.headers.extend(after.map(|after| ("last-event-id", after)));
        self.answer(&question)
    }

    fn question<'a>(
        &'a self,
        path: &'a str,
        query: &'a [(&'a str, Option<String>)],
    ) -> Question<'a> {
        let group = self.as_group.iter().map(|group| ("bizrq-group", group.as_str()));
        Question { path, query, headers: group.collect(), body: None, patience: Some(PATIENCE) }
    }

    fn read(&self, question: Question<'_>) -> Result<Value, Error> {
        let place = self.place()?;
        let failed = |why: &dyn ToString| Error::input(&place, why.to_string());
        let mut text = String::new();
        let most = MOST_BYTES.saturating_add(1);
        let read = self.answer(&question)?.take(most).read_to_string(&mut text);
        if u64::try_from(read.map_err(|why| failed(&why))?).is_ok_and(|read| read >= most) {
            return Err(failed(&"the answer is longer than 64 MiB; ask for less of it"));
        }
        serde_json::from_str(&text).map_err(|why| failed(&why))
    }

    /// The body of an answer that is no problem.
    fn answer(&self, question: &Question<'_>) -> Result<Box<dyn Read + '_>, Error> {
        let place = self.place()? + question.path;
        let asked = match self.through()? {
            Some(through) => through.ask(question),
            None => self.ask(question),
        };
        let (status, answer) = asked.map_err(|why| Error::input(&place, why))?;
        if (200..300).contains(&status) {
            return Ok(answer);
        }
        let mut problem = String::new();
        let _ = answer.take(1 << 20).read_to_string(&mut problem);
        let problem: Value = serde_json::from_str(&problem).unwrap_or_default();
        // bizrq's own words, or those of an API server on the way.
        let why = [&problem["detail"], &problem["message"]].into_iter().find_map(Value::as_str);
        let why = why.map_or_else(|| format!("status {status}"), str::to_owned);
        let why = match status {
            401 => format!("{why}; set BIZRQ_TOKEN"),
            _ => why,
        };
        Err(Error::input(place, why))
    }

    /// Where questions go, for people.
    fn place(&self) -> Result<String, Error> {
        Ok(match self.through()? {
            Some(through) => through.root().to_owned(),
            None => self.url()?.to_owned(),
        })
    }

    /// The way through an API server, if it is to be gone.
    fn through(&self) -> Result<Option<&Through>, Error> {
        let is_far = self.context.is_some() || (self.server.is_none() && is_plugin());
        if is_far && self.through.get().is_none() {
            let opened = Through::open(self.context.as_deref(), &self.service)?;
            let _ = self.through.set(opened);
        }
        Ok(self.through.get())
    }

    fn url(&self) -> Result<&str, Error> {
        let server = self.server.as_deref().unwrap_or(HERE).trim_end_matches('/');
        let place = server.strip_prefix("http://");
        if place.is_none() && !server.starts_with("https://") {
            let why = "is no URL of a server; write http://host:port or https://host:port";
            return Err(Error::Usage(format!("--server: `{server}` {why}")));
        }
        Ok(server)
    }

    /// Whose signature a server must show.
    fn roots(&self) -> Result<RootCerts, String> {
        let Some(path) = &self.ca else { return Ok(RootCerts::PlatformVerifier) };
        let wrong = |why: &dyn ToString| format!("--ca: {}: {}", path.display(), why.to_string());
        let text = fs::read(path).map_err(|why| wrong(&why))?;
        let items: Result<Vec<_>, _> = parse_pem(&text).collect();
        let certificates =
            items.map_err(|why| wrong(&why))?.into_iter().filter_map(|item| match item {
                PemItem::Certificate(certificate) => Some(certificate),
                _ => None,
            });
        let certificates: Vec<_> = certificates.collect();
        match certificates.is_empty() {
            true => Err(wrong(&"holds no certificate in PEM")),
            false => Ok(RootCerts::Specific(Arc::new(certificates))),
        }
    }

    /// Asks the server itself.
    fn ask(&self, question: &Question<'_>) -> Result<(u16, Box<dyn Read + '_>), String> {
        let server = self.url().map_err(|why| why.to_string())?;
        if token().is_some() && !self.plain_token && is_plain(server) {
            return Err(
                "the token would go over the net without encryption; ask https://…, or say \
                        --plain-token where nobody listens in"
                    .to_owned(),
            );
        }
        let agent = agent(self.roots()?, question.patience);
        let url = format!("{server}{}", question.path);
        let answered = match question.body {
            Some(body) => {
                let request = addressed(agent.post(url), question);
                request.content_type("application/yaml").send(body)
            }
            None => addressed(agent.get(url), question).call(),
        };
        let response = answered.map_err(|why| unanswered(&why))?;
        Ok((response.status().as_u16(), Box::new(response.into_body().into_reader())))
    }
}

/// Why a server gave no answer, and what to do.
fn unanswered(error: &ureq::Error) -> String {
    let why = match error {
        ureq::Error::Io(why) => why.to_string(),
        error => error.to_string(),
    };
    match error {
        ureq::Error::Io(io) if io.kind() == io::ErrorKind::InvalidData => why,
        ureq::Error::Io(_) | ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => format!(
            "nobody answers there ({why}); name a server that runs by --server or BIZRQ_SERVER, or start one: \
             bizrq serve --api 127.0.0.1:8090"
        ),
        ureq::Error::Timeout(_) => {
            format!("{why}: the server is busy or cannot be reached; ask for less, or again later")
        }
        _ => why,
    }
}

/// Whether what is sent to `server` can be read by others than this host.
fn is_plain(server: &str) -> bool {
    let uri = server.parse::<Uri>().unwrap_or_default();
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_near = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    uri.scheme_str() != Some("https") && !is_near
}

/// With who asks, and what is asked for.
fn addressed<B>(mut request: RequestBuilder<B>, question: &Question<'_>) -> RequestBuilder<B> {
    if let Some(token) = token() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    for (name, value) in &question.headers {
        request = request.header(*name, *value);
    }
    for (name, value) in question.query {
        if let Some(value) = value {
            request = request.query(*name, value);
        }
    }
    request
}

fn agent(roots: RootCerts, patience: Option<Duration>) -> Agent {
    let tls = TlsConfig::builder().root_certs(roots).build();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_plain_to_others_unless_it_is_encrypted_or_stays_on_this_host() {
        for near in [
            "https://a.example",
            "https://10.0.0.1:8090/x",
            "http://127.0.0.1:8090",
            "http://127.3.0.1",
            "http://[::1]:8090",
            "http://localhost:8090",
        ] {
            assert!(!is_plain(near), "{near}");
        }
        for far in [
            "http://10.0.0.1:8090",
            "http://127.evil.example",
            "http://localhost.evil.example:8090",
            "http://localhost@evil.example",
            "http://[2001:db8::1]",
            "http:// ",
        ] {
            assert!(is_plain(far), "{far}");
        }
    }
}
