//! Small logs that are made from a seed, and the program run on them.

use bizrq::{
    domain::{
        event::{
            Data, Event, EventId, LogOpened, ObserverSynced, Period, PodMoved, PodResized,
            PodStarted, PodStopWithdrawn, PodStopped, QuotaDeclared, QuotaSpec, ResizeBasis,
            StartBasis, StopBasis, UsageAdjusted,
        },
        merkle::Frontier,
        quantity::Quantity,
        resources::{Models, Resources},
        time::{ORIGIN, Timestamp},
    },
    event_log::{
        EventLog, NewEvent,
        codec::EncodeError,
        file::{FileLog, Options},
    },
};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::Arc,
};
use tempfile::TempDir;

/// An instant, `ms` after the origin.
pub(crate) fn at(ms: i64) -> Timestamp {
    ORIGIN.shifted(ms)
}

/// A log in a folder of its own, in segments of 64 KiB.
pub(crate) struct TestLog {
    pub(crate) dir: TempDir,
}

impl TestLog {
    pub(crate) fn of(events: &[Event<'_>]) -> Self {
        Self::with(events.iter().map(|event| NewEvent::new(event).unwrap()).collect())
    }

    pub(crate) fn with(events: Vec<NewEvent>) -> Self {
        let dir = TempDir::new().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let log = FileLog::open(dir.path(), &Options { segment_bytes: 1 << 16 }).unwrap();
            for chunk in events.chunks(100) {
                log.append(chunk.to_vec()).await.unwrap();
            }
            log.close().unwrap();
        });
        Self { dir }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The same log in a folder of its own, to be tampered with.
    pub(crate) fn copy(&self) -> Self {
        let dir = TempDir::new().unwrap();
        for file in fs::read_dir(self.path()).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), dir.path().join(file.file_name())).unwrap();
        }
        Self { dir }
    }

    /// The program, run on this log: exit code and output.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        let (command, rest) = args.split_first().unwrap();
        let log = self.path().to_str().unwrap();
        run([&[*command, "--log", log], rest].concat().as_slice())
    }

    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path()).unwrap().map(|e| e.unwrap().path());
        let mut segments: Vec<_> =
            entries.filter(|p| p.extension().is_some_and(|e| e == "jsonl")).collect();
        segments.sort();
        segments
    }

    /// Every line, with its line break.
    pub(crate) fn lines(&self) -> Vec<String> {
        let text: String = self.segments().iter().map(|s| fs::read_to_string(s).unwrap()).collect();
        text.split_inclusive('\n').map(str::to_owned).collect()
    }

    /// Changes the lines of the segment that holds `position`, which is handed over as the place in it.
    pub(crate) fn edit(&self, position: usize, edit: impl FnOnce(&mut Vec<Vec<u8>>, usize)) {
        let mut first = 1;
        for segment in self.segments() {
            let bytes = fs::read(&segment).unwrap();
            let mut lines: Vec<Vec<u8>> =
                bytes.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
            if position < first + lines.len() {
                edit(&mut lines, position - first);
                fs::write(&segment, lines.concat()).unwrap();
                return;
            }
            first += lines.len();
        }
        panic!("no record {position}");
    }
}

/// What a run of the program gave.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}{}", self.stdout, self.stderr))
    }
}

pub(crate) fn run(args: &[&str]) -> Ran {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_bizrq-replay")).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: status.code().unwrap(), stdout: text(stdout), stderr: text(stderr) }
}

/// Numbers that follow from a seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        // Knuth's multiplicative congruential generator: enough to vary histories, and the same everywhere.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn within(&mut self, ms: i64) -> i64 {
        i64::try_from(self.roll(u64::try_from(ms).unwrap())).unwrap()
    }
}

pub(crate) fn cores(milli: u64) -> Arc<Resources> {
    let mut resources = Resources::default();
    let cpu = Quantity::parse(&format!("{milli}m")).unwrap();
    resources.requests.set("cpu", cpu);
    resources.limits.set("cpu", cpu);
    resources.limits.set("nvidia.com/gpu", Quantity::parse("1").unwrap());
    Arc::new(resources)
}

/// A history of `count` records about a few pods of three groups: starts, resizes, moves, stops, some of them
/// told twice, late, or withdrawn; corrections and heartbeats in between.
pub(crate) fn history(seed: u64, count: u64) -> Vec<Event<'static>> {
    let mut dice = Dice(seed);
    dice.roll(2);
    (1..=count).map(|n| event(&mut dice, n)).collect()
}

/// Milliseconds of a history.
pub(crate) const LENGTH: i64 = 1_000_000;

fn event(dice: &mut Dice, n: u64) -> Event<'static> {
    let pod = dice.roll(24);
    let uid = || format!("pod-{pod}").into();
    let source = if pod.is_multiple_of(3) { "/clusters/west" } else { "/clusters/east" };
    let mut time = dice.within(LENGTH);
    let group = |dice: &mut Dice| format!("team-{}", dice.roll(3)).into();
    let models = |dice: &mut Dice| Models {
        gpu: (dice.roll(3) == 0).then(|| "A30".into()),
        ..Models::default()
    };
    let held = cores(500 + dice.roll(4) * 250);
    let mut subject = format!("pods/ns/p-{pod}").into();
    let data = match dice.roll(16) {
        0..=5 => {
            // One start a pod, told as often as it comes.
            time = i64::try_from(pod).unwrap() * 1000;
            let node = "n".into();
            let (owner, reserved, basis) = (None, None, StartBasis::Bound);
            let (group, models) = (group(dice), models(dice));
            Data::PodStarted(PodStarted {
                uid: uid(),
                owner,
                group,
                models,
                node,
                held,
                reserved,
                basis,
            })
        }
        6 | 7 => {
            let basis = ResizeBasis::KubeletStatus;
            Data::PodResized(PodResized { uid: uid(), held, reserved: None, basis })
        }
        8 | 9 => {
            let (group, models) = (group(dice), models(dice));
            Data::PodMoved(PodMoved { uid: uid(), owner: None, group, models })
        }
        10..=12 => {
            let basis =
                if dice.roll(2) == 0 { StopBasis::TerminalStatus } else { StopBasis::Absent };
            let (earliest, latest) = (at(time), at(time + dice.within(1000)));
            let ran = None;
            let (phase, reason) = Default::default();
            Data::PodStopped(PodStopped { uid: uid(), earliest, latest, basis, phase, reason, ran })
        }
        13 => Data::PodStopWithdrawn(PodStopWithdrawn { uid: uid(), alive_at: at(time) }),
        14 => {
            subject = format!("accounts/team-{}", dice.roll(3)).into();
            let exact = i128::from(dice.roll(2_000_000)) - 1_000_000;
            let period = Period { from: at(time), to: at(time + 1) };
            let (key, why, by) = ("limits.cpu".into(), "meter was late".into(), "ann".into());
            Data::UsageAdjusted(UsageAdjusted { key, exact, period, why, by })
        }
        _ => {
            subject = "observers/east".into();
            let since = at((time - 40_000).max(0));
            Data::ObserverSynced(ObserverSynced { resource_versions: Default::default(), since })
        }
    };
    Event {
        id: EventId(n.into()),
        source: source.into(),
        subject,
        time: at(time),
        recorded_at: at(time),
        data,
    }
}

/// The first record of a log that continues one with this tree.
pub(crate) fn opening(tree: &Frontier, previous: &str) -> Result<NewEvent, EncodeError> {
    let opened = LogOpened {
        base: tree.position(),
        root: tree.root().to_string().into(),
        frontier: tree.hashes().iter().map(|hash| hash.to_string().into()).collect(),
        previous: previous.to_owned().into(),
    };
    NewEvent::of_the_log(Data::LogOpened(opened), "ann", at(0))
}

/// `group` may use `cores` cores and has `budget` core-hours.
pub(crate) fn quota(
    n: u64,
    group: &'static str,
    parent: &'static str,
    cpu: &str,
    budget: &str,
) -> Event<'static> {
    let hard = [("limits.cpu", cpu), ("cash/limits.cpu", budget)];
    let hard = hard.map(|(key, text)| (key.into(), Quantity::parse(text).unwrap()));
    let spec = QuotaSpec { parent: parent.into(), hard: hard.into(), ..QuotaSpec::default() };
    let (resource_version, generation) = ("1".into(), 1);
    Event {
        id: EventId(u128::from(n) << 64),
        source: "/clusters/east".into(),
        subject: format!("quotas/{group}").into(),
        time: at(0),
        recorded_at: at(0),
        data: Data::QuotaDeclared(QuotaDeclared {
            uid: format!("q-{group}").into(),
            resource_version,
            generation,
            spec,
        }),
    }
}
