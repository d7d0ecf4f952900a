//! The bytes of rows: what stores and snapshots hold. The one place beside the log's codec that knows any.
//!
//! ```text
//!  key    table u8 │ period i64, sign turned, big-endian │ block u32 big-endian      sorts as keys do
//!  row    FORMAT u8 │ bincode │ checksum of key and row, 16 bytes of BLAKE3
//!  mark   FORMAT u8 │ bincode │ checksum
//! ```
//!
//! Nothing of this outlives a rebuild: what has another format is thrown away and made anew from the log.

use super::store::{Error, Mark};
use crate::domain::ledger::state::{Row, RowKey, TableName};
use bincode::config::{Configuration, standard};
use serde::{Serialize, de::DeserializeOwned};

/// The version of these bytes. A change of anything that a row holds, or of the order of tables, is a new one.
pub const FORMAT: u8 = 5;

/// Bytes of a key.
pub const KEY_BYTES: usize = 13;

/// Bytes of a checksum.
const CHECK_BYTES: usize = 16;

/// The key of a mark where a store keeps marks among rows: no table has this number, and it sorts behind all.
pub const MARK_KEY: [u8; KEY_BYTES] = [0xff; KEY_BYTES];

/// The bytes of a key.
#[must_use]
pub fn key(key: RowKey) -> [u8; KEY_BYTES] {
    let mut bytes = [0; KEY_BYTES];
    let (table, rest) = bytes.split_at_mut(1);
    let (period, block) = rest.split_at_mut(8);
    table.copy_from_slice(&[key.table as u8]);
    // With its sign turned a number sorts as its bytes do.
    period.copy_from_slice(&(key.period ^ i64::MIN).to_be_bytes());
    block.copy_from_slice(&key.block.to_be_bytes());
    bytes
}

/// The key that these bytes are.
///
/// # Errors
/// [`Error::Damaged`] when they are none.
pub fn read_key(bytes: &[u8]) -> Result<RowKey, Error> {
    let read = || {
        let (table, rest) = bytes.split_first()?;
        let (period, block) = rest.split_first_chunk::<8>()?;
        let period = i64::from_be_bytes(*period) ^ i64::MIN;
        let block = u32::from_be_bytes(block.try_into().ok()?);
        Some(RowKey { table: *TableName::ALL.get(usize::from(*table))?, period, block })
    };
    read().ok_or_else(|| Error::damaged(format!("{bytes:02x?} is no key")))
}

/// The bytes of a row, and their checksum.
///
/// # Errors
/// [`Error::Damaged`] when it cannot be written, which no row is.
pub fn row(key: RowKey, row: &Row<'_>) -> Result<(Vec<u8>, u128), Error> {
    sealed(&self::key(key), row)
}

/// The row that stands at `key`, with its checksum.
///
/// # Errors
/// [`Error::Damaged`] when it is not what was written there.
pub fn read_row(key: RowKey, bytes: &[u8]) -> Result<(Row<'static>, u128), Error> {
    opened(&self::key(key), bytes).map_err(|why| Error::damaged(format!("{key:?}: {why}")))
}

/// The bytes of a mark.
///
/// # Errors
/// [`Error::Damaged`] when it cannot be written, which no mark is.
pub fn mark(mark: &Mark) -> Result<Vec<u8>, Error> {
    sealed(&MARK_KEY, mark).map(|(bytes, _)| bytes)
}

/// The mark that these bytes are.
///
/// # Errors
/// [`Error::Damaged`] when they are not what was written.
pub fn read_mark(bytes: &[u8]) -> Result<Mark, Error> {
    let opened = opened(&MARK_KEY, bytes);
    opened.map(|(mark, _)| mark).map_err(|why| Error::damaged(format!("the mark: {why}")))
}

fn sealed(key: &[u8], value: &impl Serialize) -> Result<(Vec<u8>, u128), Error> {
    let mut bytes = vec![FORMAT];
    bincode::serde::encode_into_std_write(value, &mut bytes, config()).map_err(Error::damaged)?;
    let checksum = checksum(key, &bytes);
    bytes.extend_from_slice(&checksum.to_be_bytes());
    Ok((bytes, checksum))
}

fn opened<T: DeserializeOwned>(key: &[u8], bytes: &[u8]) -> Result<(T, u128), String> {
    match bytes.first() {
        Some(&FORMAT) => {}
        Some(other) => return Err(format!("its format is {other}, this build's {FORMAT}")),
        None => return Err("it is empty".to_owned()),
    }
    let (body, check) =
        bytes.split_last_chunk::<CHECK_BYTES>().ok_or("it is shorter than its checksum")?;
    let computed = checksum(key, body);
    if u128::from_be_bytes(*check) != computed {
        return Err("its checksum differs".to_owned());
    }
    let body = body.get(1..).unwrap_or_default();
    let (value, read) =
        bincode::serde::decode_from_slice(body, config()).map_err(|why| why.to_string())?;
    if read != body.len() {
        return Err(format!("{} bytes are left over", body.len().saturating_sub(read)));
    }
    Ok((value, computed))
}

/// Small numbers take few bytes.
const fn config() -> Configuration {
    standard()
}

fn checksum(key: &[u8], bytes: &[u8]) -> u128 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(key).update(bytes);
    let mut check = [0; CHECK_BYTES];
    hasher.finalize_xof().fill(&mut check);
    u128::from_be_bytes(check)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_their_bytes_do() {
        let mut keys = Vec::new();
        for table in TableName::ALL {
            for period in [i64::MIN, -1, 0, 1, 255, 256, i64::MAX] {
                keys.extend([0, 1, 256, u32::MAX].map(|block| RowKey {
                    table: *table,
                    period,
                    block,
                }));
            }
        }
        assert!(keys.is_sorted());
        assert!(keys.iter().map(|k| key(*k)).is_sorted());
        for k in keys {
            assert_eq!(read_key(&key(k)).unwrap(), k);
        }
        assert!(read_key(&MARK_KEY).is_err() && read_key(&[0; 12]).is_err());
    }
}
