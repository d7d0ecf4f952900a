//! How the server is reached: addresses, credentials, TLS, and the options of the connection. Secrets are never
//! printed.

use super::OpenError;
use async_nats::{ConnectOptions, Event, ServerAddr};
use std::{fmt, fs, path::PathBuf, time::Duration};
use tokio::sync::watch;

/// Where the log is and how it is kept there.
#[derive(Clone, Debug)]
pub struct Options {
    /// `nats://host:port[,host:port…][/STREAM]`, or `tls://…`.
    pub location: String,
    /// Who we are.
    pub credentials: Credentials,
    /// How the connection is secured.
    pub tls: Tls,
    /// The stream's name.
    pub stream: String,
    /// Copies that the servers keep, of a stream that we make.
    pub replicas: usize,
    /// How long the server remembers message ids, of a stream that we make: an optimisation, no promise.
    pub duplicate_window: Duration,
    /// How long anything may take: an append until its first acknowledgement and from each to the next, a question.
    pub deadline: Duration,
}

/// Who we are.
#[derive(Clone, Debug, Default)]
pub enum Credentials {
    /// Nobody.
    #[default]
    None,
    /// A file with a token of an operator's and the seed to it (`.creds`).
    File(PathBuf),
    /// A file with the seed of an nkey.
    NkeySeed(PathBuf),
    /// A user's name and password.
    UserPassword(String, Secret),
    /// A token.
    Token(Secret),
}

/// What is not printed.
#[derive(Clone)]
pub struct Secret(pub String);

/// How the connection is secured; with `tls://`, or when a file is given, it must be.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// Certificates of the authority that signed the server's, PEM. Without: those of the machine.
    pub authority: Option<PathBuf>,
    /// Our own certificate and its key, PEM.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// The usual stream, and the name of an account's log whatever stream it is in by now.
pub(super) const STREAM: &str = "BIZRQ";
/// How long a request to the server may take, and how long an append goes without an acknowledgement: below the
/// time-out of a webhook, above an election of three servers.
const DEADLINE: Duration = Duration::from_secs(5);
/// A connection on which nothing comes for three of these is dead.
const PING: Duration = Duration::from_secs(5);
/// Between attempts to reach the server: soon at first, at most this.
const RETRY: Duration = Duration::from_secs(1);
/// Messages that may wait for a reader. The server sends at most 16 MiB ahead of it (flow control), and a message has
/// some 300 bytes at least; what overflows all the same is asked for again.
const MESSAGES_AHEAD: usize = 1 << 17;
/// What our inboxes begin with, so that a user's permissions can name them.
const INBOX: &str = "_INBOX.bizrq";

impl Options {
    /// The usual log at a location: stream `BIZRQ`, one copy, no credentials.
    #[must_use]
    pub fn new(location: &str) -> Self {
        let (location, stream) =
            match location.split_once("://").and_then(|(_, rest)| rest.split_once('/')) {
                Some((_, stream)) => (location.strip_suffix(stream).unwrap_or(location), stream),
                None => (location, ""),
            };
        let stream = if stream.is_empty() { STREAM } else { stream };
        Self {
            location: location.trim_end_matches('/').to_owned(),
            credentials: Credentials::default(),
            tls: Tls::default(),
            stream: stream.to_owned(),
            replicas: 1,
            duplicate_window: Duration::from_secs(120),
            deadline: DEADLINE,
        }
    }

    /// The log at a location, with everything else from the environment.
    ///
    /// # Errors
    /// [`OpenError::Address`] for a variable that cannot be used, or two that say who we are.
    pub fn from_environment(location: &str) -> Result<Self, OpenError> {
        Self::told(location, &|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn told(location: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, OpenError> {
        let mut options = Self::new(location);
        let wrong = |why: String| OpenError::Address { location: location.to_owned(), why };
        let file = |name: &str| variable(name).map(PathBuf::from);
        let user = variable("BIZRQ_NATS_USER");
        let password = variable("BIZRQ_NATS_PASSWORD").map(Secret);
        let pair = match (user, password) {
            (Some(user), Some(password)) => Some(Credentials::UserPassword(user, password)),
            (None, None) => None,
            _ => return Err(wrong("BIZRQ_NATS_USER and BIZRQ_NATS_PASSWORD go together".into())),
        };
        let mut given = [
            file("BIZRQ_NATS_CREDS").map(Credentials::File),
            file("BIZRQ_NATS_NKEY").map(Credentials::NkeySeed),
            pair,
            variable("BIZRQ_NATS_TOKEN").map(Secret).map(Credentials::Token),
        ]
        .into_iter()
        .flatten();
        options.credentials = given.next().unwrap_or_default();
        if given.next().is_some() {
            let which = "BIZRQ_NATS_CREDS, BIZRQ_NATS_NKEY, BIZRQ_NATS_USER, BIZRQ_NATS_TOKEN";
            return Err(wrong(format!("only one of {which} says who we are")));
        }
        options.tls.authority = file("BIZRQ_NATS_CA");
        options.tls.certificate = match (file("BIZRQ_NATS_CERT"), file("BIZRQ_NATS_KEY")) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(wrong("BIZRQ_NATS_CERT and BIZRQ_NATS_KEY go together".into())),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if !options.stream.chars().all(plain) {
            let why =
                format!("a stream's name is letters, digits, - and _, not `{}`", options.stream);
            return Err(wrong(why));
        }
        if let Some(replicas) = variable("BIZRQ_NATS_REPLICAS") {
            let odd = replicas.parse().ok().filter(|n| [1, 3, 5].contains(n));
            options.replicas = odd.ok_or_else(|| {
                wrong(format!("BIZRQ_NATS_REPLICAS: 1, 3 or 5, not `{replicas}`"))
            })?;
        }
        Ok(options)
    }

    /// The addresses in `location`, each `scheme://host:port`.
    fn addresses(&self) -> Result<Vec<ServerAddr>, OpenError> {
        let wrong = |why: &str| OpenError::Address {
            // Whatever stands before an `@` is a secret.
            location: self.location.rsplit('@').next().unwrap_or_default().to_owned(),
            why: why.to_owned(),
        };
        let form = "write nats://host:port[,host:port…] or tls://…";
        let (scheme, hosts) = self.location.split_once("://").ok_or_else(|| wrong(form))?;
        if !["nats", "tls"].contains(&scheme) {
            return Err(wrong(form));
        }
        if self.location.contains('@') {
            return Err(wrong(
                "no user or password in an address, which others see; set BIZRQ_NATS_USER and BIZRQ_NATS_PASSWORD",
            ));
        }
        let address = |host: &str| format!("{scheme}://{host}").parse().ok();
        let all: Option<Vec<_>> =
            hosts.split(',').map(|h| (!h.is_empty()).then(|| address(h)).flatten()).collect();
        all.ok_or_else(|| wrong(form))
    }

    /// Connects; also gives what the server last complained about.
    pub(super) async fn connect(
        &self,
    ) -> Result<(async_nats::Client, watch::Receiver<Option<String>>), OpenError> {
        let addresses = self.addresses()?;
        let (said, trouble) = watch::channel(None);
        let options = ConnectOptions::new()
            .name("bizrq")
            .custom_inbox_prefix(INBOX)
            .connection_timeout(self.deadline)
            .request_timeout(Some(self.deadline))
            .ping_interval(PING)
            .subscription_capacity(MESSAGES_AHEAD)
            .reconnect_delay_callback(|attempt| {
                let millis = 2_u64.saturating_pow(u32::try_from(attempt).unwrap_or(u32::MAX));
                Duration::from_millis(millis).min(RETRY)
            });
        let options = options.event_callback(move |event| {
            match event {
                Event::Connected => drop(said.send_replace(None)),
                Event::ServerError(error) => drop(said.send_replace(Some(error.to_string()))),
                Event::ClientError(error) => drop(said.send_replace(Some(error.to_string()))),
                _ => {}
            }
            std::future::ready(())
        });
        let options = self.secured(self.authenticated(options)?);
        let client = options.connect(addresses).await.map_err(|error| OpenError::Connect {
            log: self.location.clone(),
            why: reason(&error),
        })?;
        Ok((client, trouble))
    }

    fn authenticated(&self, options: ConnectOptions) -> Result<ConnectOptions, OpenError> {
        let read = |path: &PathBuf| {
            let failed = |error: &dyn fmt::Display| OpenError::Credentials {
                path: path.clone(),
                why: error.to_string(),
            };
            fs::read_to_string(path).map_err(|error| failed(&error))
        };
        Ok(match &self.credentials {
            Credentials::None => options,
            Credentials::File(path) => {
                options.credentials(&read(path)?).map_err(|error| OpenError::Credentials {
                    path: path.clone(),
                    why: format!("{error}; it must be a file of credentials, as `nsc` writes them"),
                })?
            }
            Credentials::NkeySeed(path) => options.nkey(read(path)?.trim().to_owned()),
            Credentials::UserPassword(user, password) => {
                options.user_and_password(user.clone(), password.0.clone())
            }
            Credentials::Token(token) => options.token(token.0.clone()),
        })
    }

    fn secured(&self, mut options: ConnectOptions) -> ConnectOptions {
        let Tls { authority, certificate } = &self.tls;
        let must =
            self.location.starts_with("tls://") || authority.is_some() || certificate.is_some();
        options = options.require_tls(must);
        if let Some(path) = authority {
            options = options.add_root_certificates(path.clone());
        }
        if let Some((certificate, key)) = certificate {
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        options
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// An error with its causes.
pub(super) fn reason(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let said = inner.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = inner.source();
    }
    text
}
