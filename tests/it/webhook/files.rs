//! Certificates from files: what is taken over, what is not, and what somebody is told.

use super::{
    client::Client,
    served::{Ca, Served, limits},
};
use bizrq::{
    clock,
    domain::time::{HOUR_MS, Timestamp},
    webhook::tls::{
        Current, PairError,
        files::{Files, FilesError, Look},
    },
};
use std::{fs, path::PathBuf, sync::Arc};
use tempfile::TempDir;

struct Folder {
    dir: TempDir,
    current: Arc<Current>,
}

impl Folder {
    fn new() -> Self {
        Self { dir: TempDir::new().unwrap(), current: Arc::default() }
    }

    fn paths(&self) -> (PathBuf, PathBuf) {
        (self.dir.path().join("tls.crt"), self.dir.path().join("tls.key"))
    }

    fn write(&self, (certificate, key): &(String, String)) {
        let (certificate_file, key_file) = self.paths();
        fs::write(certificate_file, certificate).unwrap();
        fs::write(key_file, key).unwrap();
    }

    fn open(&self, now: Timestamp) -> Result<Files, FilesError> {
        let (certificate, key) = self.paths();
        Files::open(certificate, key, Arc::clone(&self.current), now)
    }

    fn until(&self) -> Timestamp {
        self.current.validity().unwrap().until
    }
}

/// Whole seconds, as certificates have them.
fn now() -> Timestamp {
    let now = clock::now();
    now.shifted(-(now.millis() % 1000))
}

#[test]
fn a_pair_that_cannot_be_shown_is_refused_at_the_start_with_the_remedy() {
    let (now, ca) = (now(), Ca::new());
    let good = ca.issue(now, now.shifted(HOUR_MS));
    let other = ca.issue(now, now.shifted(HOUR_MS));
    let old = ca.issue(now.shifted(-9 * HOUR_MS), now.shifted(-HOUR_MS));
    let early = ca.issue(now.shifted(9 * HOUR_MS), now.shifted(10 * HOUR_MS));
    let no_validity = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    let table: &[((String, String), PairError, &str)] = &[
        ((good.0.clone(), other.1), PairError::Mismatch, "write both files of one issue"),
        (old, PairError::Expired { until: now.shifted(-HOUR_MS) }, "issue a new one"),
        (early, PairError::NotYet { from: now.shifted(8 * HOUR_MS) }, "look at the clocks"),
        ((no_validity.into(), good.1.clone()), PairError::NoValidity, "is it X.509?"),
    ];
    for (pair, why, remedy) in table {
        let folder = Folder::new();
        folder.write(pair);
        let Err(error) = folder.open(now) else { panic!("{why} was taken") };
        assert!(error.to_string().contains(remedy), "{error}");
        assert!(matches!(&error, FilesError::Pair { why: w, .. } if w == why), "{error}");
    }
    for pair in [(String::new(), good.1.clone()), (good.0.clone(), String::new())] {
        let folder = Folder::new();
        folder.write(&pair);
        let text = folder.open(now).unwrap_err().to_string();
        assert!(text.contains("tls.crt") && text.contains("-----BEGIN"), "{text}");
    }
    let missing = Folder::new().open(now).unwrap_err().to_string();
    assert!(missing.contains("tls.crt"), "{missing}");
}

#[test]
fn a_new_pair_is_taken_and_a_bad_one_leaves_the_old_and_is_told_once() {
    let (now, ca, folder) = (now(), Ca::new(), Folder::new());
    let first = ca.issue(now, now.shifted(HOUR_MS));
    let second = ca.issue(now, now.shifted(2 * HOUR_MS));
    folder.write(&first);
    let mut files = folder.open(now).unwrap();
    assert_eq!(files.look(now).unwrap(), Look::Same);

    // Half written: waited for.
    folder.write(&(second.0.clone(), first.1.clone()));
    assert_eq!(files.look(now).unwrap(), Look::Doubted);
    assert_eq!(folder.until(), now.shifted(HOUR_MS));
    folder.write(&second);
    assert_eq!(files.look(now).unwrap(), Look::Taken { until: now.shifted(2 * HOUR_MS) });
    assert_eq!(folder.until(), now.shifted(2 * HOUR_MS));

    // It stays bad: told at the second look, and then no more.
    folder.write(&(first.0.clone(), second.1.clone()));
    assert_eq!(files.look(now).unwrap(), Look::Doubted);
    let told = files.look(now).unwrap_err().to_string();
    assert!(told.contains("does not belong"), "{told}");
    assert_eq!(files.look(now).unwrap(), Look::Same);
    assert_eq!(folder.until(), now.shifted(2 * HOUR_MS));

    // Missing: told, and the old one stays.
    fs::remove_file(folder.paths().0).unwrap();
    assert!(files.look(now).unwrap_err().to_string().contains("tls.crt"));
    assert!(folder.current.is_valid(now));
}

#[test]
fn a_certificate_whose_time_comes_is_taken_then() {
    let (now, ca, folder) = (now(), Ca::new(), Folder::new());
    folder.write(&ca.issue(now, now.shifted(9 * HOUR_MS)));
    let mut files = folder.open(now).unwrap();
    folder.write(&ca.issue(now.shifted(3 * HOUR_MS), now.shifted(20 * HOUR_MS)));
    assert_eq!(files.look(now).unwrap(), Look::Doubted);
    assert!(matches!(files.look(now), Err(FilesError::Pair { why: PairError::NotYet { .. }, .. })));
    let later = now.shifted(2 * HOUR_MS);
    assert_eq!(files.look(later).unwrap(), Look::Taken { until: now.shifted(20 * HOUR_MS) });
}

#[test]
fn a_certificate_is_valid_to_its_last_second_and_no_longer() {
    let (now, ca, folder) = (now(), Ca::new(), Folder::new());
    folder.write(&ca.issue(now, now.shifted(HOUR_MS)));
    folder.open(now).unwrap();
    assert!(folder.current.is_valid(now.shifted(HOUR_MS)));
    assert!(!folder.current.is_valid(now.shifted(HOUR_MS + 1)));
    assert!(!folder.current.is_valid(now.shifted(-HOUR_MS - 1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_connects_after_the_change_sees_the_new_certificate() {
    let (served, folder, now) = (Served::start(limits()), Folder::new(), now());
    let other = Ca::new();
    folder.write(&other.issue(now, now.shifted(HOUR_MS)));
    let (certificate, key) = folder.paths();
    let trusts = async |ca: &Ca| Client::connect(served.address, &ca.0.certificate, b"h2").await;
    assert!(trusts(&served.ca).await.is_ok());
    assert!(trusts(&other).await.is_err());
    Files::open(certificate, key, Arc::clone(&served.current), now).unwrap();
    assert!(trusts(&other).await.is_ok());
    assert!(trusts(&served.ca).await.is_err());
}
