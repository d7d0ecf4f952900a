//! A progress bar on long work, when stderr is a terminal; else nothing at all.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, Read, stderr};

/// How far the work is. Dropping it clears the bar.
#[derive(Debug)]
pub struct Progress(ProgressBar);

/// Four redraws a second: seen as moving, and no cost worth measuring.
const REDRAWS_PER_SECOND: u8 = 4;

impl Progress {
    /// Work on `total` bytes; of an unknown number a counter without an end.
    #[must_use]
    pub fn bytes(label: &str, total: Option<u64>) -> Self {
        let known = "{msg} {wide_bar:.cyan/dim} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
        Self::new(label, total, known, "{msg} {spinner} {bytes} {bytes_per_sec}")
    }

    /// Work on `total` things.
    #[must_use]
    pub fn items(label: &str, total: Option<u64>) -> Self {
        let known = "{msg} {wide_bar:.cyan/dim} {human_pos}/{human_len} {per_sec} {eta}";
        Self::new(label, total, known, "{msg} {spinner} {human_pos} {per_sec}")
    }

    fn new(label: &str, total: Option<u64>, known: &str, unknown: &str) -> Self {
        let target = match stderr().is_terminal() {
            true => ProgressDrawTarget::stderr_with_hz(REDRAWS_PER_SECOND),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(total, target);
        let template = if total.is_some() { known } else { unknown };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(label.to_owned());
        Self(bar)
    }

    /// So much is done in all.
    pub fn at(&self, done: u64) {
        self.0.set_position(done);
    }

    /// So much more is done.
    pub fn more(&self, done: u64) {
        self.0.inc(done);
    }

    /// `input`, whose bytes count as they are read.
    pub fn wrap<R: Read>(&self, input: R) -> impl Read {
        self.0.wrap_read(input)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_is_understood() {
        for bar in [Progress::bytes("reading", Some(1)), Progress::items("reading", None)] {
            bar.at(1);
            bar.more(1);
            assert_eq!(bar.0.position(), 2);
        }
        let known = "{msg} {wide_bar:.cyan/dim} {human_pos}/{human_len} {per_sec} {eta}";
        assert!(ProgressStyle::with_template(known).is_ok());
    }
}
