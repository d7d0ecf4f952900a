//! The API with a certificate: asked by our own client over real TLS, while its files change.

use super::process::{Process, Site};
use crate::webhook::served::Ca;
use bizrq::{
    clock,
    domain::time::{HOUR_MS, Timestamp},
};
use sha2::Digest as _;
use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

const TOKEN: &str = "a token of a test";

/// A process whose API has tokens, and the pair in the folder `api`.
struct Api {
    site: Site,
    process: Process,
    port: u16,
}

impl Api {
    async fn start(ca: &Ca) -> Self {
        let site = Site::new(4);
        fs::create_dir(site.path("api")).unwrap();
        put(&site, ca);
        let hash =
            sha2::Sha256::digest(TOKEN).iter().fold(String::new(), |t, b| t + &format!("{b:02x}"));
        fs::write(site.path("tokens"), format!("- {{name: x, sha256: {hash}, groups: ['*']}}\n"))
            .unwrap();
        let [folder, tokens] = ["api", "tokens"].map(|name| site.path(name).display().to_string());
        let process = site
            .start_with(&[
                "--api",
                "127.0.0.1:0",
                "--api-tls-dir",
                &folder,
                "--api-tokens",
                &tokens,
            ])
            .await;
        let port = process.address("the API listens").port();
        Self { site, process, port }
    }

    /// What our client is told by `server`, if it trusts `ca`.
    fn ask(&self, server: &str, ca: &Ca, more: &[&str]) -> Output {
        let trusted = trusted(&self.site, ca);
        let mut command = Command::new(env!("CARGO_BIN_EXE_bizrq"));
        command.args(["tree", "-o", "json", "--server", &format!("{server}:{}", self.port)]);
        command.arg("--ca").arg(trusted).args(more).env("BIZRQ_TOKEN", TOKEN);
        command.output().unwrap()
    }

    fn answers(&self, ca: &Ca) -> bool {
        let answer = self.ask("https://localhost", ca, &[]);
        answer.status.success() && String::from_utf8_lossy(&answer.stdout).contains("team-a")
    }
}

/// A pair that `ca` signed, in place of what is there.
fn put(site: &Site, ca: &Ca) {
    put_until(site, ca, clock::now().shifted(HOUR_MS));
}

/// When the pair that a server shows expires, in seconds since 1970.
fn expiry(process: &Process, server: &str) -> f64 {
    let name = format!("bizrq_certificate_expiration_timestamp_seconds{{server=\"{server}\"}}");
    process.metric(&name).parse().unwrap()
}

fn put_until(site: &Site, ca: &Ca, until: Timestamp) {
    let (certificate, key) = ca.issue(clock::now(), until);
    fs::write(site.path("api/tls.crt"), certificate).unwrap();
    fs::write(site.path("api/tls.key"), key).unwrap();
}

fn trusted(site: &Site, ca: &Ca) -> PathBuf {
    let path = site.path("ca.pem");
    fs::write(&path, &ca.0.certificate).unwrap();
    path
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_is_asked_over_tls_and_a_bad_pair_keeps_the_one_before() {
    let (ca, other) = (Ca::new(), Ca::new());
    let api = Api::start(&ca).await;
    assert!(api.answers(&ca), "{}", said(&api.ask("https://localhost", &ca, &[])));
    let refused = api.ask("https://localhost", &other, &[]);
    assert!(
        !refused.status.success() && said(&refused).contains("certificate"),
        "{}",
        said(&refused)
    );
    // Without TLS there is no answer.
    let plain = api.ask("http://localhost", &ca, &[]);
    assert!(!plain.status.success(), "{plain:?}");

    // Half of a change: a key that is not the certificate's.
    let (_, key) = other.issue(clock::now(), clock::now().shifted(HOUR_MS));
    fs::write(api.site.path("api/tls.key"), key).unwrap();
    api.process.wait_until("the pair is told to be bad", || {
        api.process.says("the certificate stays as it was")
    });
    assert!(api.answers(&ca), "the one before is shown");

    let ends = || ["api", "webhook"].map(|server| expiry(&api.process, server));
    let before = ends();
    let (now, hour) = (clock::now(), HOUR_MS);
    put_until(&api.site, &other, now.shifted(2 * hour));
    api.process.wait_until("the new pair is shown", || api.answers(&other));
    assert!(!api.answers(&ca));
    // The pair before was for an hour; certificates have whole seconds.
    let after = ends();
    let late = |seconds: f64| (seconds - now.shifted(2 * hour).millis() as f64 / 1000.0).abs();
    assert!(late(before[0]) > 3000.0 && late(after[0]) < 2.0, "{before:?}, {after:?}, {now}");
    assert_eq!(before[1], after[1], "the webhook's is another");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_certificate_that_its_folder_promises_nothing_is_served() {
    let site = Site::new(4);
    fs::create_dir(site.path("api")).unwrap();
    let folder = site.path("api").display().to_string();
    let (code, said) = site.fail(&["--api", "127.0.0.1:0", "--api-tls-dir", &folder]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("--api-tls-dir:") && said.contains("tls.crt: No such file"), "{said}");
}
