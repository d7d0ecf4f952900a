//! Where inputs begin: `tests/fixtures/corpus/TARGET/`, and the fixtures that other tests use.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Every file of a folder under the fixtures, in order of name; none if there is no such folder.
pub(crate) fn files(folder: &str) -> Vec<Vec<u8>> {
    let Ok(entries) = std::fs::read_dir(fixtures().join(folder)) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.is_file());
    paths.sort_unstable();
    paths.iter().map(|path| std::fs::read(path).expect("a fixture")).collect()
}

/// Every line of every file of a folder.
pub(crate) fn lines(folder: &str) -> Vec<Vec<u8>> {
    let lines = |file: &Vec<u8>| -> Vec<Vec<u8>> {
        file.split(|b| *b == b'\n').map(<[u8]>::to_vec).filter(|line| !line.is_empty()).collect()
    };
    files(folder).iter().flat_map(lines).collect()
}

/// A fixture, decompressed if it is.
pub(crate) fn text(file: &str) -> Vec<u8> {
    let mut text = Vec::new();
    let mut input = bizrq::input::open(&fixtures().join(file)).expect("a fixture");
    input.read_to_end(&mut text).expect("a fixture that can be read");
    text
}
