//! Files as people hand them over: plain, gzip or zstd, told apart by their first bytes; `-` is standard input.
//!
//! Everything is a stream with bounded memory, whatever the compressed data claims to become. What the bytes
//! mean is other rooms' business.

use std::{
    fs::File,
    io::{self, BufReader, Cursor, Read},
    path::Path,
};

/// How a stream is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    Plain,
    /// gzip, any number of members.
    Gzip,
    /// zstd, any number of frames.
    Zstd,
}

/// Opens a file, or standard input for `-`, and takes off the compression.
///
/// # Errors
/// What the operating system says.
pub fn open(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    if path == Path::new("-") { decompressed(io::stdin()) } else { decompressed(File::open(path)?) }
}

/// Bytes of a file, or of the files in a folder, as they lie on the disk; `None` where nobody knows.
#[must_use]
pub fn size(path: &Path) -> Option<u64> {
    let metadata = path.metadata().ok()?;
    if metadata.is_dir() {
        let files = path.read_dir().ok()?.flatten().flat_map(|entry| entry.metadata());
        return Some(files.map(|file| file.len()).sum());
    }
    metadata.is_file().then_some(metadata.len())
}

/// Takes off the compression that the first bytes show.
///
/// # Errors
/// What reading the first bytes says.
pub fn decompressed(mut input: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let mut start = Vec::new();
    input.by_ref().take(4).read_to_end(&mut start)?;
    let compression = compression(&start);
    let whole = Cursor::new(start).chain(input);
    Ok(match compression {
        Compression::Plain => Box::new(whole),
        Compression::Gzip => {
            let decoder = flate2::read::MultiGzDecoder::new(BufReader::new(whole));
            Box::new(Compressed { decoder, name: "gzip" })
        }
        Compression::Zstd => {
            let decoder = zstd::stream::read::Decoder::new(whole)?;
            Box::new(Compressed { decoder, name: "zstd" })
        }
    })
}

/// Says of what is damaged that it is the compression, and what to do about it.
struct Compressed<R> {
    decoder: R,
    name: &'static str,
}

impl<R: Read> Read for Compressed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.decoder.read(buffer).map_err(|error| {
            // What the operating system says has a number; interruptions must stay what they are.
            if error.raw_os_error().is_some() || error.kind() == io::ErrorKind::Interrupted {
                return error;
            }
            let Self { name, .. } = self;
            let why = format!(
                "the {name} data is cut off or damaged ({error}); copy the file again, or wait until it is complete, \
                 or unpack what can be read with `{name} -dc`"
            );
            io::Error::new(error.kind(), why)
        })
    }
}

/// Which compression begins like this.
#[must_use]
pub fn compression(start: &[u8]) -> Compression {
    match start {
        [0x1f, 0x8b, ..] => Compression::Gzip,
        // A frame, or a skippable frame before it.
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Compression::Zstd,
        _ => Compression::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        decompressed(Cursor::new(bytes))?.read_to_end(&mut all).map(|_| all)
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn every_compression_gives_the_same_text() {
        let text = b"one\ntwo\n".as_slice();
        let zstd = |text: &[u8]| zstd::encode_all(text, 1).unwrap();
        assert_eq!(read(text.to_vec()).unwrap(), text);
        assert_eq!(read(gzip(text)).unwrap(), text);
        assert_eq!(read(zstd(text)).unwrap(), text);
        // Files that were put together with `cat`.
        assert_eq!(read([gzip(b"one\n"), gzip(b"two\n")].concat()).unwrap(), text);
        assert_eq!(read([zstd(b"one\n"), zstd(b"two\n")].concat()).unwrap(), text);
        assert_eq!(read(Vec::new()).unwrap(), b"");
        assert_eq!(read(b"\x1f".to_vec()).unwrap(), b"\x1f");
    }

    #[test]
    fn damaged_compression_is_an_error() {
        let whole = gzip(b"one\ntwo\n");
        let cut = read(whole[..whole.len() - 3].to_vec()).unwrap_err().to_string();
        assert!(
            cut.starts_with("the gzip data is cut off or damaged (") && cut.contains("gzip -dc")
        );
        let lie = read(b"\x28\xb5\x2f\xfdnonsense".to_vec()).unwrap_err().to_string();
        assert!(
            lie.starts_with("the zstd data is cut off or damaged (") && lie.contains("zstd -dc")
        );
    }
}
