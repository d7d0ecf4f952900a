//! A program on a terminal of its own, which `script` of util-linux gives: what it shows, and how it ends when it is told
//! to.

use std::{
    fs,
    io::Read,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// A generous limit: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs `program` until it shows `label`, sends it `signal`, and gives its exit code and all that the terminal showed.
pub(crate) fn stopped(
    program: &str,
    args: &[&str],
    label: &str,
    signal: &str,
) -> (Option<i32>, String) {
    let desk = tempfile::tempdir().unwrap();
    let pid = desk.path().join("pid");
    let line = format!("echo $$ > {}; exec {program} {}", pid.display(), args.join(" "));
    let mut script = Command::new("script")
        .args(["-qefc", &line, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|why| panic!("script of util-linux: {why}"));
    let mut output = script.stdout.take().unwrap();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(read @ 1..) = output.read(&mut bytes) {
            let _ = tell.send(String::from_utf8_lossy(&bytes[..read]).into_owned());
        }
    });
    let (mut shown, begun) = (String::new(), Instant::now());
    let left = || PATIENCE.saturating_sub(begun.elapsed());
    while !shown.contains(label) {
        match told.recv_timeout(left()) {
            Ok(more) => shown += &more,
            Err(why) => panic!("{program} {args:?} does not show `{label}` ({why}): {shown:?}"),
        }
    }
    let pid = fs::read_to_string(pid).unwrap();
    let sent = Command::new("kill").args([&format!("-{signal}"), pid.trim()]).status();
    assert!(sent.unwrap().success(), "kill -{signal} {pid}");
    loop {
        match told.recv_timeout(left()) {
            Ok(more) => shown += &more,
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(why) => panic!("{program} {args:?} does not end ({why}): {shown:?}"),
        }
    }
    (script.wait().unwrap().code(), shown)
}
