//! What the process tells whoever runs it: messages on stderr, each with its time, level and fields.
//!
//! The fields, everywhere by the same names: `cluster`, `kind`, `namespace`, `name`, `uid`, `position`, `replica`,
//! `stage`, `task`, `error`. What is counted is told in `metrics`.

use serde::{Deserialize, Serialize};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer, Registry, filter::Targets, fmt, layer::SubscriberExt, util::SubscriberInitExt,
};

/// What is told, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// How a message is written.
    pub format: Format,
    /// The least that is told.
    pub level: Level,
}

/// How a message is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// A line for people
    #[default]
    Text,
    /// A line of JSON
    Json,
}

/// The least that is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// What somebody must do something about
    Error,
    /// Also what is not as it should be, and is lived with
    Warn,
    /// Also what a process begins and ends
    #[default]
    Info,
    /// Also what helps to find a fault
    Debug,
}

/// Tells from now on; a second call changes nothing.
pub fn start(options: Options) {
    let level = match options.level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
    };
    // Of what others wrote only what is wrong is told.
    let others = level.min(LevelFilter::WARN);
    let filter = Targets::new().with_target("bizrq", level).with_default(others);
    let text = || fmt::layer().with_writer(std::io::stderr);
    let layer: Box<dyn Layer<Registry> + Send + Sync> = match options.format {
        Format::Text => Box::new(text().with_ansi(false).with_filter(filter)),
        Format::Json => Box::new(text().json().flatten_event(true).with_filter(filter)),
    };
    // Only a test, with several processes in one, comes here twice.
    let _ = tracing_subscriber::registry().with(layer).try_init();
}
