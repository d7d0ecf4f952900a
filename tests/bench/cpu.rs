//! What processes spend of the CPUs, as the kernel counts it.

use std::{fs, time::Duration};

/// What a process has spent of the CPUs: by its number, or `self`.
pub(crate) fn spent(process: &str) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // Behind the name, which may have blanks: user and system time are the 12th and 13th, in hundredths of seconds.
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).map(|n| n.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}
