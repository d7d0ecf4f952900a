//! Certificates of our own over simulated years: every replica, every API server, every hour.

use super::client::PATIENCE;
use bizrq::{
    domain::time::{HOUR_MS, Timestamp},
    webhook::tls::{
        Current,
        own::{KeepError, Keeper, Store, StoreError},
        rotation::{AUTHORITY_MS, Kept, SERVING_MS, SETTLE_MS, Serving},
    },
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use rustls::{
    RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier},
    crypto::ring,
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

const DAY: i64 = 24 * HOUR_MS;

/// A Secret and two configurations, which fail now and then.
#[derive(Clone, Default)]
struct Cluster(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    kept: Option<Kept>,
    version: u64,
    /// Which bundle was put when; the newest last.
    bundles: Vec<(Timestamp, String)>,
    now: Timestamp,
    chance: Option<StdRng>,
    /// Until then the configurations cannot be changed.
    sealed_until: Timestamp,
    is_foreign: bool,
    saves: u64,
}

impl State {
    fn fails(&mut self, one_in: u32) -> Result<(), StoreError> {
        let failed = StoreError::Failed { place: "secret".into(), why: "by chance".into() };
        let fails = self.chance.as_mut().is_some_and(|chance| chance.random_ratio(1, one_in));
        if fails { Err(failed) } else { Ok(()) }
    }
}

impl Store for Cluster {
    type Version = u64;

    async fn load(&self) -> Result<Option<(Kept, u64)>, StoreError> {
        let mut state = self.0.lock().unwrap();
        state.fails(4)?;
        if state.is_foreign {
            return Err(StoreError::Foreign { place: "secret".into(), why: "no JSON".into() });
        }
        Ok(state.kept.clone().map(|kept| (kept, state.version)))
    }

    async fn save(&self, kept: &Kept, over: Option<u64>) -> Result<(), StoreError> {
        let mut state = self.0.lock().unwrap();
        state.fails(9)?;
        if over != state.kept.as_ref().map(|_| state.version) {
            return Err(StoreError::Conflict);
        }
        // It goes through what a Secret holds.
        let text = serde_json::to_string(kept).unwrap();
        state.kept = Some(serde_json::from_str(&text).unwrap());
        (state.version, state.saves) = (state.version + 1, state.saves + 1);
        // Written, and the answer is lost.
        state.fails(9)
    }

    async fn trust(&self, bundle: &str) -> Result<(), StoreError> {
        let mut state = self.0.lock().unwrap();
        state.fails(9)?;
        let now = state.now;
        if now < state.sealed_until {
            return Err(StoreError::Failed { place: "configuration".into(), why: "no".into() });
        }
        if state.bundles.last().is_none_or(|(_, last)| last != bundle) {
            state.bundles.push((now, bundle.to_owned()));
        }
        Ok(())
    }
}

impl Cluster {
    fn at<T>(&self, see: impl FnOnce(&mut State) -> T) -> T {
        see(&mut self.0.lock().unwrap())
    }

    /// The bundle by which an API server judges that is so far behind.
    fn bundle(&self, behind: i64) -> Option<String> {
        self.at(|state| {
            let then = state.now.shifted(-behind);
            let known = state.bundles.iter().rfind(|(put, _)| *put <= then);
            known.map(|(_, bundle)| bundle.clone())
        })
    }
}

struct Replica {
    keeper: Keeper<Cluster>,
    current: Arc<Current>,
    /// Tries in a row that failed.
    failed: u32,
    /// What it shows.
    shown: Option<Serving>,
}

impl Replica {
    fn of(cluster: &Cluster, names: &[&str]) -> Self {
        let current = Arc::new(Current::default());
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let keeper = Keeper::new(cluster.clone(), names, Arc::clone(&current));
        Self { keeper, current, failed: 0, shown: None }
    }

    async fn keep(&mut self, cluster: &Cluster) {
        let now = cluster.at(|state| state.now);
        // A failure is tried again within the hour.
        for _ in 0..9 {
            let kept = self.keeper.keep(now).await;
            let loaded = cluster.at(|state| state.kept.clone());
            if let Some(serving) = loaded.and_then(|kept| kept.serving)
                && self.current.validity().is_some_and(|v| same_second(v.until, serving.until))
            {
                self.shown = Some(serving);
            }
            if kept.is_ok() {
                return;
            }
            self.failed += 1;
        }
    }
}

fn same_second(a: Timestamp, b: Timestamp) -> bool {
    a.millis() / 1000 == b.millis() / 1000
}

/// Whether a client that trusts `bundle` believes `certificate` at `now`, by rustls' own judgement.
fn believes(bundle: &str, certificate: &str, name: &str, now: Timestamp) -> Result<(), String> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(authority.unwrap()).map_err(|error| error.to_string())?;
    }
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = verifier.build().map_err(|error| error.to_string())?;
    let own = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let time = Duration::from_millis(now.millis().unsigned_abs());
    let time = UnixTime::since_unix_epoch(time);
    let verified = verifier.verify_server_cert(&own, &[], &name, &[], time);
    verified.map(drop).map_err(|error| error.to_string())
}

fn begin() -> Timestamp {
    Timestamp::parse("2026-11-29T16:00:00Z").unwrap()
}

#[tokio::test]
async fn for_years_whoever_knows_yesterdays_bundle_believes_every_replica() {
    let seed = rand::rng().random();
    println!("seed {seed}");
    let mut chance = StdRng::seed_from_u64(seed);
    let cluster = Cluster::default();
    cluster.at(|state| {
        state.chance = Some(StdRng::seed_from_u64(seed ^ 1));
        state.now = begin();
    });
    let mut replicas = [(); 3].map(|()| Replica::of(&cluster, &["bizrq.example", "10.0.0.7"]));
    let (mut judged, mut authorities, mut servings) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let end = begin().shifted(7 * 365 * DAY);
    while cluster.at(|state| state.now) < end {
        for replica in &mut replicas {
            replica.keep(&cluster).await;
            let (now, kept) = cluster.at(|state| (state.now, state.kept.clone()));
            let Some(shown) = &replica.shown else { continue };
            assert!(replica.current.is_valid(now), "seed {seed}: no valid certificate at {now}");
            servings.insert(shown.from);
            let kept = kept.unwrap();
            assert!(kept.authorities.len() <= 2, "seed {seed}: {kept:?}");
            authorities.extend(kept.authorities.iter().map(|a| a.from));
            for behind in [0, SETTLE_MS - 3 * HOUR_MS] {
                let Some(bundle) = cluster.bundle(behind) else { continue };
                // Signatures are slow and do not change by themselves; times are judged once a month.
                let month = now.millis() / (30 * DAY);
                if judged.insert((bundle.clone(), shown.certificate.clone(), month)) {
                    let judged = believes(&bundle, &shown.certificate, "bizrq.example", now);
                    assert_eq!(judged, Ok(()), "seed {seed}: at {now}, {behind} ms behind");
                }
            }
        }
        let sealed = chance.random_ratio(1, 4000).then(|| chance.random_range(1..100) * DAY);
        cluster.at(|state| {
            state.now = state.now.shifted(chance.random_range(1..3) * HOUR_MS);
            if let Some(sealed) = sealed {
                state.sealed_until = state.now.shifted(sealed);
            }
        });
    }
    assert!(replicas.iter().all(|replica| replica.failed > 100));
    // It renews, and no more than it must.
    assert!((4..=6).contains(&authorities.len()), "seed {seed}: {authorities:?}");
    assert!((42..=60).contains(&servings.len()), "seed {seed}: {}", servings.len());
    assert!(judged.len() > 100, "{}", judged.len());
}

#[tokio::test]
async fn a_first_start_makes_all_and_a_second_changes_nothing() {
    let cluster = Cluster::default();
    cluster.at(|state| state.now = begin());
    let mut first = Replica::of(&cluster, &["localhost"]);
    assert!(first.keeper.keep(begin()).await.unwrap());
    let (kept, saves) = cluster.at(|state| (state.kept.clone(), state.saves));
    let kept = kept.unwrap();
    assert_eq!(cluster.bundle(0), Some(kept.bundle()));
    let serving = kept.serving.clone().unwrap();
    assert_eq!(believes(&kept.bundle(), &serving.certificate, "localhost", begin()), Ok(()));
    assert!(believes(&kept.bundle(), &serving.certificate, "other", begin()).is_err());
    assert_eq!(serving.until.since(begin()), SERVING_MS);
    assert_eq!(kept.authorities[0].until.since(begin()), AUTHORITY_MS);

    let mut second = Replica::of(&cluster, &["localhost"]);
    let later = begin().shifted(DAY);
    assert!(second.keeper.keep(later).await.unwrap());
    assert!(!first.keeper.keep(later).await.unwrap());
    assert_eq!(cluster.at(|state| (state.kept.clone(), state.saves)), (Some(kept), saves));
}

#[tokio::test]
async fn other_names_get_another_certificate_by_the_same_authority() {
    let cluster = Cluster::default();
    cluster.at(|state| state.now = begin());
    Replica::of(&cluster, &["old.example"]).keeper.keep(begin()).await.unwrap();
    let before = cluster.at(|state| state.kept.clone()).unwrap();
    let later = begin().shifted(2 * DAY);
    assert!(Replica::of(&cluster, &["new.example"]).keeper.keep(later).await.unwrap());
    let after = cluster.at(|state| state.kept.clone()).unwrap();
    assert_eq!(before.bundle(), after.bundle());
    let shown = after.serving.unwrap().certificate;
    assert_eq!(believes(&after.authorities[0].certificate, &shown, "new.example", later), Ok(()));
    let wrong = Replica::of(&cluster, &["no name"]).keeper.keep(later).await.unwrap_err();
    assert!(wrong.to_string().contains("`no name` is no DNS name"), "{wrong}");
}

#[tokio::test]
async fn what_is_not_ours_is_never_written_over() {
    let cluster = Cluster::default();
    cluster.at(|state| state.is_foreign = true);
    let error = Replica::of(&cluster, &["localhost"]).keeper.keep(begin()).await.unwrap_err();
    assert!(matches!(error, KeepError::Store(StoreError::Foreign { .. })), "{error}");
    assert!(error.to_string().contains("delete it"), "{error}");
    assert_eq!(cluster.at(|state| state.saves), 0);
}

#[tokio::test]
async fn whoever_may_not_change_the_configurations_goes_on_serving_to_the_authoritys_end() {
    let cluster = Cluster::default();
    cluster.at(|state| state.sealed_until = Timestamp::MAX);
    let mut replica = Replica::of(&cluster, &["localhost"]);
    let mut now = begin();
    while now.since(begin()) < AUTHORITY_MS - DAY {
        cluster.at(|state| state.now = now);
        let error = replica.keeper.keep(now).await.unwrap_err();
        assert!(matches!(error, KeepError::Store(StoreError::Failed { .. })), "{error}");
        assert!(replica.current.is_valid(now), "{now}");
        let kept = cluster.at(|state| state.kept.clone()).unwrap();
        assert_eq!(kept.serving.unwrap().by, begin(), "only the first may be known to anybody");
        now = now.shifted(DAY);
    }
    let saves = cluster.at(|state| state.saves);
    assert!(saves < 20, "{saves} writes");
}

#[tokio::test]
async fn replicas_that_begin_at_once_end_with_one_authority() {
    let cluster = Cluster::default();
    cluster.at(|state| state.now = begin());
    let keeping = (0..8).map(|_| {
        let cluster = cluster.clone();
        tokio::spawn(async move {
            let mut replica = Replica::of(&cluster, &["localhost"]);
            replica.keeper.keep(begin()).await.unwrap();
            replica.current.validity().unwrap()
        })
    });
    for keeping in keeping.collect::<Vec<_>>() {
        tokio::time::timeout(PATIENCE, keeping).await.unwrap().unwrap();
    }
    assert_eq!(cluster.at(|state| state.kept.clone()).unwrap().authorities.len(), 1);
}
