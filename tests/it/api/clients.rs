//! Clients that are many, slow, silent or rude: bounded, told why, and nobody's burden.

use super::{PATIENCE, SERVED, get_with, send, with_body};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

#[test]
fn long_answers_are_compressed_for_who_wants_it_and_streams_are_not() {
    let plain = get_with(SERVED.address, "/v1/quotas", "");
    let mut bytes = Vec::new();
    send(SERVED.address, "/v1/quotas", "accept-encoding: gzip\r\n")
        .read_to_end(&mut bytes)
        .unwrap();
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    assert!(head.contains("content-encoding: gzip"), "{head}");
    assert!(head.contains("vary:") && head.contains("accept-encoding"), "{head}");
    assert!(head.contains("authorization"), "{head}");
    assert!(bytes.len() < plain.body.len() / 3, "{} {}", bytes.len(), plain.body.len());
    let stream = send(SERVED.address, "/v1/events?last=1", "accept-encoding: gzip\r\n");
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let head: Vec<_> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    assert!(!head.iter().any(|line| line.to_lowercase().contains("gzip")), "{head:?}");
}

#[test]
fn a_path_that_is_asked_in_another_way_says_so() {
    for (method, path) in [("POST", "/v1/quotas"), ("DELETE", "/v1/quotas/language"), ("PUT", "/")]
    {
        let answer = with_body(SERVED.address, method, path, "", "{}");
        assert_eq!(answer.status, 405, "{method} {path}");
        assert!(answer.head.to_lowercase().contains("allow: get"), "{}", answer.head);
        assert!(answer.head.contains("application/problem+json"), "{}", answer.head);
    }
}

#[test]
fn a_client_that_says_nothing_or_half_of_it_is_hung_up_on() {
    let began = Instant::now();
    let mut silent =
        [TcpStream::connect(SERVED.address).unwrap(), TcpStream::connect(SERVED.address).unwrap()];
    silent[1].write_all(b"GET /v1/quotas HTTP/1.1\r\nhost: loc").unwrap();
    for stream in &mut silent {
        stream.set_read_timeout(Some(Duration::from_secs(25))).unwrap();
        let mut rest = Vec::new();
        // An answer (408) or none, and the end.
        let _ = stream.read_to_end(&mut rest);
    }
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
}

/// A process of its own, so that its memory can be looked at.
struct Demo {
    child: Child,
    address: SocketAddr,
}

impl Demo {
    fn start(pods: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bizrq"));
        command.args(["demo", "--pods", pods, "--json", "--serve", "--listen", "127.0.0.1:0"]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let line = said.find_map(|line| {
            line.split_once("look at it: http://")
                .map(|(_, rest)| rest.trim_end_matches('/').to_owned())
        });
        let address = line.expect("it says where it listens").parse().unwrap();
        std::thread::spawn(move || said.for_each(drop));
        Self { child, address }
    }

    /// Resident memory in MiB.
    fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads so many events; who is told that many ask at once comes again.
fn read(address: SocketAddr, most: u64) {
    let began = Instant::now();
    let stream = loop {
        let stream = send(address, "/v1/events?from=1", "");
        let mut head = String::new();
        let mut lines = BufReader::new(stream);
        lines.read_line(&mut head).unwrap();
        if head.contains(" 200 ") {
            break lines;
        }
        assert!(head.contains(" 503 ") && began.elapsed() < PATIENCE, "{head}");
        std::thread::sleep(Duration::from_secs(1));
    };
    let lines = stream.lines().map(Result::unwrap);
    let ids = lines.filter_map(|line| line.strip_prefix("id: ").map(str::to_owned));
    let ids: Vec<u64> = ids.take(most as usize).map(|id| id.parse().unwrap()).collect();
    assert!(ids.iter().copied().eq(1..=most), "{} events", ids.len());
}

/// Whether it may listen, by the first line of its answer. The rest is not taken.
fn listens(mut stream: &TcpStream) -> bool {
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    match &head {
        b"HTTP/1.1 200" => true,
        b"HTTP/1.1 503" => false,
        other => panic!("{}", String::from_utf8_lossy(other)),
    }
}

#[test]
fn a_thousand_clients_that_take_nothing_cost_little_and_hold_nobody_up() {
    let demo = Demo::start("400");
    let before = demo.memory();
    // More than there are places for. They ask at once: after half a minute the first ones lose theirs.
    let slow: Vec<_> = (0..1500).map(|_| send(demo.address, "/v1/events?from=1", "")).collect();
    let (mut slow, told): (Vec<_>, Vec<_>) = slow.into_iter().partition(listens);
    assert!(slow.len() >= 1024 && !told.is_empty(), "{} listen, {} not", slow.len(), told.len());
    let with = demo.memory();
    slow.truncate(1000);
    let began = Instant::now();
    read(demo.address, 2000);
    let (took, during) = (began.elapsed(), demo.memory().max(with));
    println!("1,000 slow clients: {before} MiB, then {during} MiB; one that reads took {took:?}");
    assert!(during < before + 400, "{before} MiB before, {during} MiB with them");
}

#[test]
fn who_takes_nothing_is_told_why_nothing_comes_any_more_or_is_cut_off() {
    let demo = Demo::start("4000");
    let slow = [(), ()].map(|()| send(demo.address, "/v1/events?from=1", ""));
    // Longer than the server is patient, shorter than it takes to cut a connection off.
    std::thread::sleep(Duration::from_secs(38));
    let [mut first, mut second] = slow;
    let mut text = String::new();
    first.read_to_string(&mut text).unwrap();
    assert!(text.contains("event: end") && text.contains("dropped"), "{} bytes", text.len());
    std::thread::sleep(Duration::from_secs(20));
    let mut rest = Vec::new();
    // What the system kept comes first, then the cut: no last chunk.
    let cut = second.read_to_end(&mut rest).is_err() || !rest.ends_with(b"0\r\n\r\n");
    assert!(cut, "{} bytes", rest.len());
}
