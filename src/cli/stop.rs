//! Ctrl-C and SIGTERM in the midst of long work: the command says how far it came, and ends at once.
//!
//! Nothing has to be taken back: what is written as a whole is written under another name and renamed, and logs bear a
//! process that ends anywhere. An append that is about to be done is waited for, for a moment.

use super::{out, progress};
use std::{
    process,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};
use tokio::{
    runtime::Builder,
    signal::unix::{SignalKind, signal},
};

/// Held while something is written that should not be left half done.
static WHOLE: Mutex<()> = Mutex::new(());

/// So often it is looked whether that is done: a second in all.
const LOOKS: u32 = 100;
const LOOK: Duration = Duration::from_millis(10);

/// From now on a signal is answered in words. Where signals cannot be had they end the process as they always do.
pub fn listen() {
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return };
    let signals = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    };
    let (Ok(mut interrupt), Ok(mut terminate)) = signals else { return };
    let wait = async move {
        tokio::select! {
            _ = interrupt.recv() => ("SIGINT", 130),
            _ = terminate.recv() => ("SIGTERM", 143),
        }
    };
    thread::spawn(move || {
        let (name, code) = runtime.block_on(wait);
        let far = progress::clear().map(|far| format!(" while {far}")).unwrap_or_default();
        out::stopped(format_args!("by {name}{far}"));
        let _whole = (0..LOOKS).find_map(|_| {
            let whole = WHOLE.try_lock().ok();
            if whole.is_none() {
                thread::sleep(LOOK);
            }
            whole
        });
        process::exit(code);
    });
}

/// What is done while this is held is done whole, if it takes less than a second.
pub(super) fn whole() -> MutexGuard<'static, ()> {
    WHOLE.lock().unwrap_or_else(PoisonError::into_inner)
}
