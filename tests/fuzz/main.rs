//! Fuzz targets of every parser, on the stable toolchain: seeded mutation of a corpus, time-boxed, all at once.
//!
//! `BIZRQ_FUZZ_SECONDS` is how long (2 without it; `make test` says 20), `BIZRQ_FUZZ_SEED` begins elsewhere,
//! `BIZRQ_FUZZ_TARGET` runs one target alone. A target fails on a panic, on a property that does not hold, or when
//! the process has needed more than 256 MiB; it then prints seed, case and input, and keeps the input in a file. An
//! input that once failed belongs into `tests/fixtures/corpus/TARGET/`, where every run begins.
// Helpers of tests fail like tests do; clippy's own exception covers `#[test]` functions only.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod corpus;
mod mutate;
mod targets;

use mutate::Mutator;
use std::{
    panic::{self, AssertUnwindSafe},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};
use targets::Target;

/// What the whole process may need, whatever it is fed (issue 2: RSS ≤ 256 MiB).
const MAX_RSS_KIB: u64 = 256 << 10;

/// How a target's run went.
#[derive(Debug)]
struct Done {
    name: &'static str,
    cases: u64,
    accepted: u64,
}

#[test]
fn every_parser_refuses_or_understands_whatever_it_is_fed() {
    let seconds: f64 = setting("BIZRQ_FUZZ_SECONDS").unwrap_or(2.0);
    let seed = setting("BIZRQ_FUZZ_SEED").unwrap_or_else(now);
    let only: Option<String> = setting("BIZRQ_FUZZ_TARGET");
    println!("BIZRQ_FUZZ_SEED={seed} BIZRQ_FUZZ_SECONDS={seconds}");
    let chosen: Vec<&Target> =
        targets::ALL.iter().filter(|t| only.as_ref().is_none_or(|only| only == t.name)).collect();
    assert!(!chosen.is_empty(), "no such target: {only:?}");
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let done: Vec<Result<Done, String>> = thread::scope(|scope| {
        let run = |target| scope.spawn(move || fuzz(target, seed, until));
        let runs: Vec<_> = chosen.into_iter().map(run).collect();
        runs.into_iter().map(|run| run.join().expect("the runner itself")).collect()
    });
    let failures: Vec<String> = done.iter().filter_map(|d| d.as_ref().err().cloned()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    for Done { name, cases, accepted } in done.iter().flatten() {
        println!("{name}: {cases} cases, {accepted} accepted");
        assert!(*accepted > 0, "{name}: nothing was accepted: no property was tried");
        assert!(accepted < cases, "{name}: nothing was refused");
    }
    let rss = peak_rss_kib();
    println!("peak RSS {} MiB", rss >> 10);
    assert!(rss <= MAX_RSS_KIB, "{} MiB were needed, seed {seed}", rss >> 10);
}

/// Feeds one target: the corpus as it is, then mutants of it and of what was accepted, until the time is over.
fn fuzz(target: &Target, seed: u64, until: Instant) -> Result<Done, String> {
    let mut mutator = Mutator::new(seed, target.name, (target.corpus)(), target.tokens);
    let mut parse = (target.parser)();
    let mut done = Done { name: target.name, cases: 0, accepted: 0 };
    while done.cases < mutator.seeds() || Instant::now() < until {
        let input = mutator.next(done.cases);
        let result = panic::catch_unwind(AssertUnwindSafe(|| parse(&input)));
        let accepted =
            result.map_err(|why| failure(target.name, seed, done.cases, &input, &*why))?;
        done.cases += 1;
        if accepted {
            done.accepted += 1;
            mutator.keep(input);
        }
    }
    Ok(done)
}

/// Says what failed, and keeps the input.
fn failure(
    name: &str,
    seed: u64,
    case: u64,
    input: &[u8],
    why: &(dyn std::any::Any + Send),
) -> String {
    let text = why.downcast_ref::<String>().cloned();
    let why = text.or_else(|| why.downcast_ref::<&str>().map(|s| (*s).to_owned()));
    let file =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{name}-{seed}-{case}"));
    std::fs::write(&file, input).expect("a temporary file");
    let shown = input[..input.len().min(2000)].escape_ascii();
    let why = why.unwrap_or_default();
    format!("{name}, seed {seed}, case {case}, kept in {}: {why}\n{shown}", file.display())
}

fn setting<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} cannot be used")))
}

#[allow(clippy::disallowed_methods, reason = "another seed every time, printed at once")]
fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.expect("after 1970").as_secs()
}

/// `VmHWM`: the most that this process ever had in memory.
fn peak_rss_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a Linux system");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    line.trim().trim_end_matches(" kB").parse().expect("a number of KiB")
}
