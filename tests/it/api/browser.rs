//! The page in a real browser: each case of `tests/browser/page.py` is a test here, at the servers that it asks for.

mod company;

use super::{Demo, SERVED};
use crate::shared::skip;
use company::Company;
use std::{
    env,
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// Where the simulated fortnight is served to everybody.
fn open() -> String {
    format!("http://{}", SERVED.address)
}

/// The same, to who has a token.
fn tenants() -> String {
    format!("http://{}", SERVED.tenants)
}

/// Where a log is served that was made by hand.
fn company() -> String {
    static COMPANY: LazyLock<Company> = LazyLock::new(Company::open);
    format!("http://{}", COMPANY.address)
}

/// Where ten thousand groups are served.
fn crowd() -> String {
    static CROWD: LazyLock<Company> = LazyLock::new(Company::crowd);
    format!("http://{}", CROWD.address)
}

/// Each test, the case that it is, and the servers that the case asks.
macro_rules! cases {
    ($($name:ident($($server:expr),+);)+) => {
        const CASES: &[&str] = &[$(stringify!($name)),+];
        $(#[test] fn $name() { run(stringify!($name), || vec![$($server),+]); })+
    };
}

cases! {
    numbers_are_those_of_the_api(open());
    hours_by_model_are_those_of_the_api(open());
    the_keyboard_reaches_everything(open());
    a_group_is_found_by_a_part_of_its_name(open());
    branches_are_opened_and_closed(open());
    ten_thousand_groups_can_be_walked_and_found(crowd());
    nothing_is_wider_than_a_phone(open());
    texts_stand_out_in_dark_and_in_light(open(), tenants());
    what_is_left_is_drawn_as_the_api_says(open());
    pods_that_run_are_those_of_the_api(open(), company());
    refusals_are_those_of_the_api_with_their_reasons(open(), company());
    the_slider_shows_any_past_state(open());
    who_has_a_token_enters_it_and_sees_their_subtree(tenants());
    a_group_narrows_what_a_token_shows(tenants());
    a_budget_that_begins_anew_says_in_which_period_it_is(company());
    hostile_names_are_texts(company());
    a_server_that_does_not_answer_is_told_of_and_asked_again(open());
}

#[test]
fn the_demo_shows_the_page() {
    let demo = Demo::start();
    run("numbers_are_those_of_the_api", || vec![format!("http://{}", demo.address)]);
    demo.end();
}

/// The case that needs somebody who acts meanwhile.
const LIVE: &str = "what_comes_is_shown_while_one_looks";

#[test]
fn what_comes_is_shown_while_one_looks() {
    let (company, done) = (Company::open(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                company.starts("fund-a", "2026-11-20T11:00:00Z", "100m");
                thread::sleep(Duration::from_millis(500));
            }
        });
        let ran = panic::catch_unwind(AssertUnwindSafe(|| {
            run(LIVE, || vec![format!("http://{}", company.address)]);
        }));
        done.store(true, Ordering::Relaxed);
        ran.unwrap_or_else(|why| panic::resume_unwind(why));
    });
}

#[test]
fn every_case_is_a_test() {
    let Some(mut python) = python("every_case_is_a_test") else { return };
    let told = String::from_utf8(python.output().unwrap().stdout).unwrap();
    let cases: Vec<_> = CASES.iter().copied().chain([LIVE]).collect();
    assert_eq!(told.lines().collect::<Vec<_>>(), cases);
}

/// Runs a case, where there is a browser.
fn run(case: &str, servers: impl FnOnce() -> Vec<String>) {
    let Some(mut python) = python(case) else { return };
    let output = python.arg(case).args(servers()).output().unwrap();
    let told = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{case}: {}", String::from_utf8_lossy(&told));
}

/// The script, if `tests/browser.sh` found or made what it needs; else a line that says that `case` was not run.
fn python(case: &str) -> Option<Command> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (python, script) = (root.join("target/browser"), root.join("tests/browser/page.py"));
    if !python.join("ready").exists() || browser().is_none() {
        skip(&format!("api::browser::{case}"), "no browser; run tests/browser.sh as root");
        return None;
    }
    let mut command = Command::new(python.join("bin/python"));
    command.arg("-B").arg(script);
    Some(command)
}

fn browser() -> Option<PathBuf> {
    if let Some(named) = env::var_os("BIZRQ_BROWSER").filter(|named| !named.is_empty()) {
        return Some(named.into());
    }
    let folders: Vec<_> = env::split_paths(&env::var_os("PATH")?).collect();
    let at = |name: &'static str| folders.iter().map(move |folder| folder.join(name));
    at("chromium-headless-shell").chain(at("chromium")).find(|path| path.exists())
}
