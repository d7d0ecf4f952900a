//! A progress bar on long work, when stderr is a terminal; else nothing at all.

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    io::{IsTerminal, Read, stderr},
    sync::{Mutex, PoisonError},
};

/// How far the work is. Dropping it clears the bar.
#[derive(Debug)]
pub struct Progress(ProgressBar);

/// The work that was begun last, and whether it is counted in bytes: who ends the process says how far it came.
static LATEST: Mutex<Option<(ProgressBar, bool)>> = Mutex::new(None);

/// How far the latest work came, in words, if there is any; its bar is cleared.
pub(super) fn clear() -> Option<String> {
    let latest = LATEST.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (bar, in_bytes) = latest?;
    let said = far(&bar, in_bytes);
    bar.finish_and_clear();
    Some(said)
}

/// `verifying: 12.5 MiB of 40.0 MiB`.
fn far(bar: &ProgressBar, in_bytes: bool) -> String {
    let number = |n| if in_bytes { HumanBytes(n).to_string() } else { HumanCount(n).to_string() };
    let total = bar.length().map(|total| format!(" of {}", number(total))).unwrap_or_default();
    format!("{}: {}{total}", bar.message(), number(bar.position()))
}

/// Four redraws a second: seen as moving, and no cost worth measuring.
const REDRAWS_PER_SECOND: u8 = 4;

impl Progress {
    /// Work on `total` bytes; of an unknown number a counter without an end.
    #[must_use]
    pub fn bytes(label: &str, total: Option<u64>) -> Self {
        let known = "{msg} {wide_bar:.cyan/dim} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
        Self::new(label, total, true, [known, "{msg} {spinner} {bytes} {bytes_per_sec}"])
    }

    /// Work on `total` things.
    #[must_use]
    pub fn items(label: &str, total: Option<u64>) -> Self {
        let known = "{msg} {wide_bar:.cyan/dim} {human_pos}/{human_len} {per_sec} {eta}";
        Self::new(label, total, false, [known, "{msg} {spinner} {human_pos} {per_sec}"])
    }

    fn new(label: &str, total: Option<u64>, in_bytes: bool, [known, unknown]: [&str; 2]) -> Self {
        let target = match stderr().is_terminal() {
            true => ProgressDrawTarget::stderr_with_hz(REDRAWS_PER_SECOND),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(total, target).with_message(label.to_owned());
        let template = if total.is_some() { known } else { unknown };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        *LATEST.lock().unwrap_or_else(PoisonError::into_inner) = Some((bar.clone(), in_bytes));
        // Shown only now: who sees it may end it.
        bar.tick();
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
        *LATEST.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_it_came_is_said_in_words() {
        let bar = ProgressBar::hidden();
        bar.set_message("verifying");
        bar.set_position(1 << 20);
        assert_eq!(far(&bar, true), "verifying: 1.00 MiB");
        bar.set_length(40_000_000);
        assert_eq!(far(&bar, false), "verifying: 1,048,576 of 40,000,000");
    }

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
