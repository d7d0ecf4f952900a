//! Who we are and how the way to the server is secured: every kind of credentials, right and wrong.

use super::{
    log::now,
    server::{Server, Setup, Version},
};
use bizrq::event_log::{
    conformance,
    jetstream::{Credentials, JetStreamLog, OpenError, Options, Secret, Tls},
};
use nkeys::KeyPair;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair as TlsKey};
use serde_json::{Value, json};
use std::{cell::RefCell, fs, path::PathBuf, time::Duration};
use tempfile::TempDir;

pub(super) fn options(server: &Server, credentials: Credentials) -> Options {
    Options { credentials, deadline: Duration::from_secs(5), ..Options::new(&server.url()) }
}

fn password(text: &str) -> Credentials {
    Credentials::UserPassword("bizrq".into(), Secret(text.into()))
}

/// Opened with the right credentials the log is one; with others nobody comes in.
async fn let_in(options: Options, wrong: Credentials) {
    let log = JetStreamLog::open(options.clone()).await.unwrap();
    let head = log.append(vec![conformance::fact(1)]).await.unwrap();
    assert_eq!(conformance::numbers(&log, 1).await.len() as u64, head.last);
    for wrong in [wrong, Credentials::None] {
        let refused = JetStreamLog::open(Options { credentials: wrong, ..options.clone() }).await;
        let error = refused.unwrap_err();
        assert!(matches!(error, OpenError::Connect { .. }), "{error}");
        assert!(!error.to_string().contains("open sesame"), "{error}");
    }
}

use bizrq::event_log::EventLog;

#[tokio::test]
async fn users_tokens_and_nkeys_are_let_in() {
    for version in Version::ALL {
        let users = "authorization { users: [{user: bizrq, password: \"open sesame\"}] }";
        let server = Setup::new(version).with(users).start();
        let_in(options(&server, password("open sesame")), password("guessed")).await;

        let server = Setup::new(version).with("authorization { token: \"open sesame\" }").start();
        let token = |text: &str| Credentials::Token(Secret(text.into()));
        let_in(options(&server, token("open sesame")), token("guessed")).await;

        let (key, other) = (KeyPair::new_user(), KeyPair::new_user());
        let users = format!("authorization {{ users: [{{nkey: {}}}] }}", key.public_key());
        let server = Setup::new(version).with(&users).start();
        let seed = |key: &KeyPair, name: &str| {
            let path = server.dir().join(name);
            fs::write(&path, format!("{}\n", key.seed().unwrap())).unwrap();
            Credentials::NkeySeed(path)
        };
        let_in(options(&server, seed(&key, "seed")), seed(&other, "other")).await;
    }
}

#[tokio::test]
async fn files_of_credentials_are_let_in() {
    for version in Version::ALL {
        let (operator, system, account) =
            (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_account());
        let of_operator =
            json!({"type": "operator", "version": 2, "system_account": system.public_key()});
        let all = json!({"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1,
            "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true,
            "conn": -1, "leaf": -1});
        let of_account = json!({"type": "account", "version": 2, "limits": all});
        let plain = json!({"type": "account", "version": 2, "limits": {"subs": -1, "data": -1,
            "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1}});
        let lines = format!(
            "operator: {}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{ {}: {}, {}: {} }}",
            jwt(&operator, &operator, of_operator),
            system.public_key(),
            system.public_key(),
            jwt(&system, &operator, plain),
            account.public_key(),
            jwt(&account, &operator, of_account),
        );
        let server = Setup::new(version).with(&lines).start();
        let user = |issuer: &KeyPair, name: &str| {
            let user = KeyPair::new_user();
            let limits =
                json!({"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1});
            let (token, seed) = (jwt(&user, issuer, limits), user.seed().unwrap());
            let path = server.dir().join(name);
            let text = format!(
                "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
                 -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
            );
            fs::write(&path, text).unwrap();
            Credentials::File(path)
        };
        let stranger = user(&KeyPair::new_account(), "other.creds");
        let_in(options(&server, user(&account, "user.creds")), stranger).await;

        let absent = options(&server, Credentials::File(PathBuf::from("/nowhere.creds")));
        let error = JetStreamLog::open(absent).await.unwrap_err();
        assert!(
            matches!(&error, OpenError::Credentials { path, .. } if path.ends_with("nowhere.creds"))
        );
        let file = server.dir().join("config");
        let error =
            JetStreamLog::open(options(&server, Credentials::File(file))).await.unwrap_err();
        assert!(error.to_string().contains("a file of credentials"), "{error}");
    }
}

/// A token of the operator's kind: what `issuer` says of `subject`.
fn jwt(subject: &KeyPair, issuer: &KeyPair, nats: Value) -> String {
    let header = json!({"typ": "JWT", "alg": "ed25519-nkey"});
    let claims = json!({"jti": "x", "iat": 1_700_000_000, "iss": issuer.public_key(), "name": "test",
        "sub": subject.public_key(), "nats": nats});
    let signed = [header, claims].map(|part| base64url(part.to_string().as_bytes())).join(".");
    let signature = issuer.sign(signed.as_bytes()).unwrap();
    format!("{signed}.{}", base64url(&signature))
}

fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let group = three.iter().fold(0_u32, |group, byte| (group << 8) | u32::from(*byte));
        let group = group << (8 * (3 - three.len()));
        for digit in 0..=three.len() {
            text.push(char::from(DIGITS[(group >> (18 - 6 * digit)) as usize & 63]));
        }
    }
    text
}

/// An authority, the server's certificate and a client's, as files.
struct Papers {
    dir: TempDir,
}

impl Papers {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, TlsKey::generate().unwrap()).unwrap();
        fs::write(dir.path().join("ca.pem"), authority.pem()).unwrap();
        for name in ["server", "client"] {
            let key = TlsKey::generate().unwrap();
            let params = CertificateParams::new(vec!["127.0.0.1".into(), "bizrq".into()]).unwrap();
            let signed = params.signed_by(&key, &authority).unwrap();
            fs::write(dir.path().join(format!("{name}.pem")), signed.pem()).unwrap();
            fs::write(dir.path().join(format!("{name}.key")), key.serialize_pem()).unwrap();
        }
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Lines for a server that shows its certificate, and wants to see its clients'.
    fn setup(&self, version: Version) -> Setup {
        let path = |name: &str| self.path(name).display().to_string();
        Setup::new(version).with(&format!(
            "tls {{ cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", verify: true }}",
            path("server.pem"),
            path("server.key"),
            path("ca.pem"),
        ))
    }

    fn tls(&self) -> Tls {
        let certificate = Some((self.path("client.pem"), self.path("client.key")));
        Tls { authority: Some(self.path("ca.pem")), certificate }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_contract_holds_behind_a_password_and_tls() {
    let papers = Papers::new();
    for version in Version::ALL {
        let server = RefCell::new(None);
        let start = || {
            let users = "authorization { users: [{user: bizrq, password: secret}] }";
            papers.setup(version).with(users).start()
        };
        let open = |server: &Server| {
            let location = server.url().replace("nats://", "tls://");
            let plain = options(server, password("secret"));
            now(JetStreamLog::open(Options { location, tls: papers.tls(), ..plain })).unwrap()
        };
        conformance::run(|| {
            let started = start();
            let log = open(&started);
            server.replace(Some(started));
            log
        })
        .await;
        let again = start();
        conformance::reopened(|| open(&again)).await;
    }
}

#[tokio::test]
async fn a_server_or_a_client_without_the_right_certificate_is_not_spoken_to() {
    let (papers, others) = (Papers::new(), Papers::new());
    let server = papers.setup(Version::New).start();
    let with =
        |tls: Tls| JetStreamLog::open(Options { tls, ..options(&server, Credentials::None) });
    with(papers.tls()).await.unwrap();
    let strangers = [
        Tls { authority: others.tls().authority, ..papers.tls() },
        Tls { certificate: others.tls().certificate, ..papers.tls() },
        Tls { certificate: None, ..papers.tls() },
    ];
    for tls in strangers {
        let error = with(tls).await.unwrap_err();
        assert!(matches!(error, OpenError::Connect { .. }), "{error}");
    }
    // A server that offers no TLS is not spoken to in the open.
    let open = Server::start(Version::New);
    let location = open.url().replace("nats://", "tls://");
    let error =
        JetStreamLog::open(Options { location, ..options(&open, password("secret")) }).await;
    assert!(error.is_err());
}
