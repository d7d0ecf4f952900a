//! `kubectl` as a person types it, and what it said.

use serde_json::Value;
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// One user's `kubectl`.
#[derive(Clone)]
pub(crate) struct Kubectl {
    program: PathBuf,
    home: PathBuf,
    user: String,
}

/// What came of a command.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) ok: bool,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Kubectl {
    pub(crate) fn new(program: PathBuf, home: &Path, user: &str) -> Self {
        Self { program, home: home.to_owned(), user: user.to_owned() }
    }

    /// `kubectl` and these words.
    pub(crate) fn run(&self, words: &str) -> Said {
        self.with_input(words, "")
    }

    /// `kubectl apply -f -`.
    pub(crate) fn apply(&self, object: &Value) -> Said {
        self.with_input("apply -f -", &object.to_string())
    }

    /// `kubectl create -f -`.
    pub(crate) fn create(&self, object: &Value) -> Said {
        self.with_input("create -f -", &object.to_string())
    }

    /// `kubectl` and these words, with something to read.
    pub(crate) fn with_input(&self, words: &str, input: &str) -> Said {
        let mut command = Command::new(&self.program);
        command.args(["--context", &self.user, "--request-timeout=60s"]);
        self.said(command.args(words.split_whitespace()), input)
    }

    /// `kubectl PLUGIN …`, the plugin being in `folder`. Before its name kubectl takes no flags.
    pub(crate) fn plugin(&self, folder: &Path, words: &str, token: Option<&str>) -> Said {
        let mut command = Command::new(&self.program);
        for name in ["BIZRQ_SERVER", "BIZRQ_TOKEN", "BIZRQ_GROUP", "BIZRQ_SERVICE"] {
            command.env_remove(name);
        }
        command.env("PATH", folder).envs(token.map(|token| ("BIZRQ_TOKEN", token)));
        self.said(command.args(words.split_whitespace()), "")
    }

    fn said(&self, command: &mut Command, input: &str) -> Said {
        let mut child = command
            .env("KUBECONFIG", self.home.join("kubeconfig"))
            .env("HOME", &self.home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Said { ok: output.status.success(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// What `kubectl get … -o json` shows.
    pub(crate) fn get(&self, what: &str) -> Value {
        let said = self.run(&format!("get {what} -o json")).succeeds();
        serde_json::from_str(&said.out).unwrap()
    }
}

impl Said {
    /// It did what it was told, or what it said instead.
    pub(crate) fn done(self) -> Result<Self, String> {
        if self.ok { Ok(self) } else { Err(self.err) }
    }

    /// It did what it was told.
    #[track_caller]
    pub(crate) fn succeeds(self) -> Self {
        assert!(self.ok, "{}{}", self.out, self.err);
        self
    }

    /// It did not, and gave these reasons.
    #[track_caller]
    pub(crate) fn fails_with(self, reasons: &[&str]) -> Self {
        assert!(!self.ok, "it should fail with {reasons:?}, and said {}{}", self.out, self.err);
        for reason in reasons {
            assert!(self.err.contains(reason), "no `{reason}` in: {}", self.err);
        }
        self
    }
}
