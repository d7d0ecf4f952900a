//! One `nats-server` process: started on a free port with a folder of its own, killed, stopped, started again.
//!
//! The binaries come from `tests/servers.sh`; one that is missing fails the test, it skips none.

use std::{
    fmt::Write as _,
    fs::{self, File},
    io::{self, Read, Write as _},
    net::{TcpListener, TcpStream, ToSocketAddrs},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Once,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// The versions that bizrq supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// 2.15, the newest.
    New,
    /// 2.9, the oldest.
    Old,
}

/// A server process and its folder.
#[derive(Debug)]
pub(crate) struct Server {
    setup: Setup,
    port: u16,
    dir: TempDir,
    process: Option<Process>,
}

/// How a server is configured, beside its port and folder.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Which binary.
    pub(crate) version: Version,
    /// Every write reaches the disk before it is acknowledged; 2.9 does not know that and never does it.
    pub(crate) sync_always: bool,
    /// Further lines of its configuration (`max_payload`, `authorization`, `accounts`, `tls`, `cluster`).
    pub(crate) lines: String,
}

/// A running process, and a shell that kills it should this process die without doing so.
#[derive(Debug)]
pub(crate) struct Process {
    server: Child,
    watcher: Child,
}

/// How long a server may take to answer: it runs beside compilers.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

impl Version {
    /// Both, for tests that must hold on each.
    pub(crate) const ALL: [Self; 2] = [Self::New, Self::Old];

    fn binary(self) -> PathBuf {
        let name = match self {
            Self::New => "nats-new",
            Self::Old => "nats-old",
        };
        // The auditor's package lies one folder deeper.
        let mut roots = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().take(2);
        let found = roots.find_map(|root| {
            Some(root.join("target/servers").join(name)).filter(|path| path.exists())
        });
        found.unwrap_or_else(|| panic!("target/servers/{name} is missing: run tests/servers.sh"))
    }
}

impl Setup {
    /// As in production: every write is synchronised where the version can.
    pub(crate) fn new(version: Version) -> Self {
        Self { version, sync_always: version == Version::New, lines: String::new() }
    }

    /// Adds lines to the configuration.
    pub(crate) fn with(mut self, lines: &str) -> Self {
        self.lines.push_str(lines);
        self.lines.push('\n');
        self
    }

    /// Starts it.
    pub(crate) fn start(self) -> Server {
        Server::on(self, free_port())
    }
}

impl Server {
    /// Starts one with the usual setup.
    pub(crate) fn start(version: Version) -> Self {
        Setup::new(version).start()
    }

    /// Starts one on a port that is known before, as members of a cluster need it.
    pub(crate) fn on(setup: Setup, port: u16) -> Self {
        let mut server = Self { setup, port, dir: scratch(), process: None };
        server.restart();
        server
    }

    /// Where clients connect.
    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// The port of [`Self::url`].
    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Its folder: `store` holds streams, `log` what it said, `died` what the Go runtime said if it panicked.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Which one it is.
    pub(crate) const fn version(&self) -> Version {
        self.setup.version
    }

    /// Starts it again with all that another one kept, as from a backup.
    pub(crate) fn take_store_of(&mut self, mut other: Self) {
        self.kill();
        other.kill();
        let store = self.dir().join("store");
        fs::remove_dir_all(&store).unwrap();
        fs::rename(other.dir().join("store"), store).unwrap();
        self.restart();
    }

    /// Starts it again with these lines of configuration in place of those that it had.
    pub(crate) fn configure(&mut self, lines: &str) {
        self.setup.lines = format!("{lines}\n");
        self.restart();
    }

    /// Starts it again as another version, with all that it kept.
    pub(crate) fn become_version(&mut self, version: Version) {
        self.setup = Setup { lines: self.setup.lines.clone(), ..Setup::new(version) };
        self.restart();
    }

    /// Kills it as a crash would, at once.
    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    /// Starts it again on its port and folder, and waits until it answers.
    pub(crate) fn restart(&mut self) {
        self.kill();
        let config = self.dir.path().join("config");
        fs::write(&config, self.config()).unwrap();
        let mut command = Command::new(self.setup.version.binary());
        command.arg("-c").arg(&config);
        let died = File::create(self.dir.path().join("died")).unwrap();
        self.process = Some(Process::spawn(command, Stdio::null(), died.into()));
        self.wait();
    }

    /// The process freezes: connections stay, nothing is answered.
    pub(crate) fn freeze(&self) {
        self.signal("STOP");
    }

    /// The end of [`Self::freeze`].
    pub(crate) fn thaw(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        self.process.as_ref().expect("the server runs").signal(name);
    }

    fn config(&self) -> String {
        let dir = self.dir.path().display();
        let sync = if self.setup.sync_always { "sync_interval: always" } else { "" };
        let mut text = String::new();
        writeln!(text, "listen: 127.0.0.1:{}", self.port).unwrap();
        writeln!(text, "log_file: \"{dir}/log\"").unwrap();
        writeln!(text, "jetstream {{ store_dir: \"{dir}/store\", max_file: 4G, {sync} }}").unwrap();
        text.push_str(&self.setup.lines);
        text
    }

    /// Waits for its first line.
    fn wait(&mut self) {
        let begun = Instant::now();
        loop {
            let greets = greets(self.port);
            let process = self.process.as_mut().expect("it was started just now");
            let ended = process.ended();
            // Who greets may be somebody else, who took the port first.
            if greets && ended.is_none() {
                return;
            }
            let late = begun.elapsed() > PATIENCE;
            assert!(ended.is_none() && !late, "the server does not come up");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Lines that are told of what a server said.
const LINES: usize = 40;

/// Where a test fails, what its servers said is told, and whether they still ran.
impl Drop for Server {
    #[expect(clippy::print_stderr, reason = "there is nobody else to tell")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let ended = self.process.as_mut().map(Process::ended);
            eprintln!("{:?} {}, ended: {ended:?}", self.setup.version, self.url());
            for (name, skips_to_last) in [("log", true), ("died", false)] {
                let said = fs::read_to_string(self.dir.path().join(name)).unwrap_or_default();
                let before =
                    said.lines().count().saturating_sub(LINES) * usize::from(skips_to_last);
                let lines = said.lines().skip(before).take(LINES);
                lines.for_each(|line| eprintln!("  {name}: {line}"));
            }
        }
    }
}

impl Process {
    pub(crate) fn spawn(mut command: Command, out: Stdio, err: Stdio) -> Self {
        let server = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().unwrap();
        // The pipe closes when this process ends in whatever way.
        let script = format!("read -r _; kill -9 {}", server.id());
        let watcher = Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).spawn();
        Self { server, watcher: watcher.unwrap() }
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.server.id()
    }

    /// Whether, and how, it ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.server.try_wait().unwrap()
    }

    /// Sends a signal, by its name without `SIG`.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status();
        assert!(sent.unwrap().success(), "kill -{name} {pid}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The watcher first: later the number may be another process's.
        for child in [&mut self.watcher, &mut self.server] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A port that nobody listens on, below those that the kernel gives to outgoing connections: a client that tries a
/// dead server's port must not be given that very port as its own.
pub(crate) fn free_port() -> u16 {
    loop {
        let port = rand::random_range(12_000..32_000);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A folder in memory where there is one: what is tested is not the disk.
///
/// What tests share is never dropped, and a killed test drops nothing: the folders of processes that are no more go
/// when the next one makes its first.
pub(crate) fn scratch() -> TempDir {
    static LEFT: Once = Once::new();
    const NAME: &str = "bizrq-test-";
    let memory = Path::new("/dev/shm");
    if !memory.is_dir() {
        return tempfile::tempdir().unwrap();
    }
    LEFT.call_once(|| {
        for entry in fs::read_dir(memory).unwrap().flatten() {
            let name = entry.file_name();
            let process = name.to_str().and_then(|name| name.strip_prefix(NAME)?.split('-').next());
            if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
                // Another test may do the same.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    });
    let name = format!("{NAME}{}-", std::process::id());
    tempfile::Builder::new().prefix(&name).tempdir_in(memory).unwrap()
}

/// What a port of metrics and health says to a request for `path`: head and body.
pub(crate) fn get(address: impl ToSocketAddrs, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(120)))?;
    stream.write_all(
        format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes(),
    )?;
    io::read_to_string(stream)
}

/// Whether somebody at `port` says `INFO`, as a NATS server does first.
fn greets(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let mut first = [0; 4];
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.read_exact(&mut first).is_ok() && &first == b"INFO"
}

/// Asks `subject` of the server at `port` in the clients' own protocol, without a client, and gives the answer, if
/// there is one soon. For servers that ask for no credentials.
pub(crate) fn ask(port: u16, subject: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let lines =
        format!("CONNECT {{\"verbose\":false}}\r\nSUB answer 1 \r\nPUB {subject} answer 0\r\n\r\n");
    stream.write_all(lines.as_bytes()).ok()?;
    let (mut said, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = stream.read(&mut piece) {
        said.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&said);
        if let Some((_, answer)) = text.split_once("MSG answer 1 ")
            && answer.ends_with("}\r\n")
        {
            return Some(answer.to_owned());
        }
    }
    None
}
