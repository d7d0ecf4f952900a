//! Rows of a delimited export, read by a map: bounded in size, each one taken or refused for itself.

use super::{MAX_RECORD_BYTES, MAX_TEXT_BYTES, map::Map, number::Decimal};
use crate::domain::{
    quantity::Quantity,
    resources::{Resources, is_extended},
    time::Timestamp,
};
use std::{
    cell::Cell,
    collections::VecDeque,
    io::{self, Read},
    rc::Rc,
    str,
    sync::Arc,
};

/// What one row says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Line of the file that it begins on, from 1.
    pub line: u64,
    /// Its identity.
    pub uid: String,
    /// Its name.
    pub name: String,
    /// Whom it is billed to; empty for nobody.
    pub group: String,
    /// Texts that type cpu, memory and extended resources; `None` where the cell is empty.
    pub models: [Option<String>; 3],
    /// When it began; `None` for what never ran.
    pub start: Option<Timestamp>,
    /// When it ended; `None` for what still runs or never ran.
    pub stop: Option<Timestamp>,
    /// What it held; nothing of what never ran.
    pub held: Arc<Resources>,
}

/// Why a row is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {cause}")]
pub struct RowError {
    /// Line of the file, from 1.
    pub line: u64,
    /// What is wrong.
    pub cause: Cause,
}

/// What is wrong with a row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// More or fewer cells than the header.
    #[error(
        "{cells} cells under a header of {columns}; quote cells that hold the delimiter, and complete the row"
    )]
    Width {
        /// Of the row.
        cells: usize,
        /// Of the header.
        columns: usize,
    },
    /// A cell that says nothing usable.
    #[error("column `{column}`: {why}")]
    Cell {
        /// The column.
        column: String,
        /// What stands there, what is wrong, and the remedy.
        why: String,
    },
    /// It ended before it began.
    #[error("it stops at {stop}, before its start at {start}; mend the row")]
    StopBeforeStart {
        /// The start.
        start: Timestamp,
        /// The stop.
        stop: Timestamp,
    },
    /// The same identity, with other content, elsewhere in the file.
    #[error(
        "`{uid}` stands in line {line} already, with another {what}; give each run its own identity"
    )]
    Repeated {
        /// The identity.
        uid: String,
        /// Where it stands.
        line: u64,
        /// What differs: `start`, `stop`, `content`.
        what: &'static str,
    },
    /// The same identity, with other content, in the log.
    #[error(
        "`{uid}` was imported before with another {what}; the log keeps what it holds: give another run its own identity, or import a corrected file into a new log"
    )]
    Contradicts {
        /// The identity.
        uid: String,
        /// What differs: `start`, `stop`, `content`.
        what: &'static str,
    },
}

/// Why the rest of a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A column that the map names is missing, or there twice.
    #[error("{0}")]
    Header(String),
    /// A record without an end in sight.
    #[error(
        "line {line}: the record is longer than {MAX_RECORD_BYTES} bytes; is a quote not closed, or is this no text?"
    )]
    TooLong {
        /// Line that it begins on.
        line: u64,
    },
    /// The file system says no.
    #[error("line {line}: {source}")]
    Io {
        /// Line that was being read.
        line: u64,
        /// Why.
        source: io::Error,
    },
}

/// The rows of an export.
pub struct Rows<R> {
    map: Map,
    places: Places,
    csv: csv::Reader<Bounded<R>>,
    budget: Rc<Cell<u64>>,
    record: csv::ByteRecord,
    /// Where it begins.
    line: u64,
    columns: usize,
}

/// Where the mapped columns are.
#[derive(Default)]
struct Places {
    name: usize,
    uid: usize,
    group: Option<usize>,
    start: usize,
    stop: Option<usize>,
    models: [Option<usize>; 3],
    amounts: Vec<Vec<usize>>,
}

/// Hands on at most so many bytes before the budget is renewed, and knows where lines end.
struct Bounded<R> {
    inner: R,
    budget: Rc<Cell<u64>>,
    /// How many bytes were handed on.
    read: u64,
    /// Of these, where those of line breaks stand that [`Self::line_of`] has not passed, and whether it ends a line.
    breaks: VecDeque<(u64, bool)>,
    /// Line ends before them.
    lines: u64,
}

/// Bytes that the CSV reader asks for at once; a record may begin anywhere in them.
const BUFFER_BYTES: usize = 1 << 16;

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.budget.get();
        if left == 0 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let most = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let read = self.inner.read(buffer.get_mut(..most).unwrap_or_default())?;
        self.budget.set(left.saturating_sub(read as u64));
        let bytes = (self.read..).zip(buffer.iter().take(read));
        let breaks = bytes.filter(|(_, byte)| matches!(byte, b'\n' | b'\r'));
        self.breaks.extend(breaks.map(|(at, byte)| (at, *byte == b'\n')));
        self.read = self.read.saturating_add(read as u64);
        Ok(read)
    }
}

impl<R> Bounded<R> {
    /// The line of what stands at `at` or behind the line breaks there: a reader of CSV may stop between CR and LF, and
    /// passes by empty lines.
    fn line_of(&mut self, at: u64) -> u64 {
        let mut at = at;
        while let Some((place, ends)) = self.breaks.front().filter(|(place, _)| *place <= at) {
            at = at.max(place.saturating_add(1));
            self.lines = self.lines.saturating_add(u64::from(*ends));
            self.breaks.pop_front();
        }
        self.lines.saturating_add(1)
    }
}

impl<R: Read> Rows<R> {
    /// Reads the header and finds the columns of the map.
    ///
    /// # Errors
    /// [`ReadError::Header`] naming the column that is not there.
    pub fn open(reader: R, map: Map) -> Result<Self, ReadError> {
        let budget = Rc::new(Cell::new(MAX_RECORD_BYTES));
        let csv = csv::ReaderBuilder::new()
            .delimiter(map.delimiter())
            .has_headers(false)
            .flexible(true)
            .buffer_capacity(BUFFER_BYTES)
            .from_reader(Bounded {
                inner: reader,
                budget: Rc::clone(&budget),
                read: 0,
                breaks: VecDeque::new(),
                lines: 0,
            });
        let places = Places::default();
        let record = csv::ByteRecord::new();
        let mut rows = Self { map, places, csv, budget, record, line: 1, columns: 0 };
        if !rows.advance()? {
            return Err(ReadError::Header("the file is empty; it needs a header line".into()));
        }
        let header = Header::of(&rows.record, rows.map.delimiter())?;
        rows.columns = header.names.len();
        rows.places = Places::find(&rows.map, &header)?;
        Ok(rows)
    }

    /// Moves to the next record; false at the end.
    fn advance(&mut self) -> Result<bool, ReadError> {
        // What the reader has buffered of the next records was paid for by this one: a buffer on top.
        self.budget.set(MAX_RECORD_BYTES.saturating_add(BUFFER_BYTES as u64));
        let begin = self.csv.position().byte();
        let read = self.csv.read_byte_record(&mut self.record);
        self.line = self.csv.get_mut().line_of(begin);
        let line = self.line;
        read.map_err(|e| match e.into_kind() {
            csv::ErrorKind::Io(e) if e.kind() == io::ErrorKind::FileTooLarge => {
                ReadError::TooLong { line }
            }
            csv::ErrorKind::Io(source) => ReadError::Io { line, source },
            other => ReadError::Io { line, source: io::Error::other(format!("{other:?}")) },
        })
    }

    fn row(&self) -> Result<Row, Cause> {
        if self.record.len() != self.columns {
            return Err(Cause::Width { cells: self.record.len(), columns: self.columns });
        }
        let (columns, places) = (&self.map.columns, &self.places);
        let name = self.identity(places.name, &columns.name)?;
        let uid = match &columns.uid {
            Some(column) => self.identity(places.uid, column)?,
            None => name,
        };
        let row =
            Row { line: self.line, uid: uid.to_owned(), name: name.to_owned(), ..Row::default() };
        let Some(start) = self.instant(Some(places.start), Some(&columns.start))? else {
            // What never ran held nothing: the other cells do not matter.
            return Ok(row);
        };
        let stop = self.instant(places.stop, columns.stop.as_ref())?;
        if let Some(stop) = stop.filter(|stop| *stop < start) {
            return Err(Cause::StopBeforeStart { start, stop });
        }
        let group = self.optional(places.group, columns.group.as_ref())?;
        Ok(Row {
            group: group.unwrap_or_default().to_owned(),
            models: self.models()?,
            start: Some(start),
            stop,
            held: Arc::new(self.amounts()?),
            ..row
        })
    }

    fn identity(&self, place: usize, column: &str) -> Result<&str, Cause> {
        let text = self.text(place, column)?;
        if text.is_empty() {
            return Err(cell(column, "is empty; every row needs an identity"));
        }
        Ok(text)
    }

    fn models(&self) -> Result<[Option<String>; 3], Cause> {
        let names = &self.map.models;
        let columns = [&names.cpu, &names.memory, &names.gpu];
        let mut models = [None, None, None];
        for ((model, place), column) in models.iter_mut().zip(self.places.models).zip(columns) {
            let text = self.optional(place, column.as_ref())?;
            *model = text.filter(|text| !text.is_empty()).map(str::to_owned);
        }
        Ok(models)
    }

    /// Requests, of extended resources limits; what is 0 is not listed.
    fn amounts(&self) -> Result<Resources, Cause> {
        let mut held = Resources::default();
        for ((resource, amount), places) in self.map.resources.iter().zip(&self.places.amounts) {
            let mut product = Decimal::ONE;
            for (place, column) in places.iter().zip(&amount.columns) {
                let text = self.raw(*place, column)?;
                let factor =
                    Decimal::parse(text).map_err(|why| cell(column, format!("`{text}` {why}")))?;
                product = product.times(factor).ok_or_else(|| {
                    cell(column, format!("`{text}` makes the product of the columns too large"))
                })?;
            }
            let column = || amount.columns.join("` × `");
            let quantity = product.quantity(&amount.unit).map_err(|why| cell(&column(), why))?;
            if product.is_zero() || quantity == Quantity::ZERO {
                continue;
            }
            let side = if is_extended(resource) { &mut held.limits } else { &mut held.requests };
            side.set(resource, quantity);
        }
        Ok(held)
    }

    fn instant(
        &self,
        place: Option<usize>,
        column: Option<&String>,
    ) -> Result<Option<Timestamp>, Cause> {
        let (Some(place), Some(column)) = (place, column) else { return Ok(None) };
        let text = self.raw(place, column)?;
        if text.trim().is_empty() {
            return Ok(None);
        }
        self.map.instant(text).map(Some).map_err(|why| cell(column, why))
    }

    fn optional(
        &self,
        place: Option<usize>,
        column: Option<&String>,
    ) -> Result<Option<&str>, Cause> {
        let (Some(place), Some(column)) = (place, column) else { return Ok(None) };
        self.text(place, column).map(Some)
    }

    /// A cell that becomes a name.
    fn text(&self, place: usize, column: &str) -> Result<&str, Cause> {
        let text = self.raw(place, column)?;
        match text.chars().any(char::is_control) {
            true => Err(cell(
                column,
                format!("`{}` holds control characters; remove them", text.escape_debug()),
            )),
            false => Ok(text),
        }
    }

    fn raw(&self, place: usize, column: &str) -> Result<&str, Cause> {
        let bytes = self.record.get(place).unwrap_or_default();
        if bytes.len() > MAX_TEXT_BYTES {
            let why = format!(
                "the cell has {} bytes, at most {MAX_TEXT_BYTES} are taken; shorten it",
                bytes.len()
            );
            return Err(cell(column, why));
        }
        let utf8 = |_| {
            let shown = String::from_utf8_lossy(bytes).into_owned();
            cell(column, format!("`{}` is not UTF-8; convert the file", shown.escape_debug()))
        };
        str::from_utf8(bytes).map_err(utf8)
    }
}

impl<R: Read> Iterator for Rows<R> {
    type Item = Result<Result<Row, RowError>, ReadError>;

    /// The next row, or why it is not taken; an outer error ends the file.
    fn next(&mut self) -> Option<Self::Item> {
        match self.advance() {
            Ok(false) => None,
            Err(e) => Some(Err(e)),
            Ok(true) => {
                let line = self.line;
                Some(Ok(self.row().map_err(|cause| RowError { line, cause })))
            }
        }
    }
}

fn cell(column: &str, why: impl Into<String>) -> Cause {
    Cause::Cell { column: column.to_owned(), why: why.into() }
}

/// The first record of a file.
struct Header<'h> {
    names: Vec<&'h str>,
    delimiter: char,
}

impl<'h> Header<'h> {
    fn of(record: &'h csv::ByteRecord, delimiter: u8) -> Result<Self, ReadError> {
        let names: Result<Vec<_>, _> = record.iter().map(str::from_utf8).collect();
        let names = names.map_err(|_| {
            ReadError::Header("line 1 is not UTF-8; unpack or convert the file first".into())
        })?;
        Ok(Self { names, delimiter: char::from(delimiter) })
    }

    fn place(&self, column: &str) -> Result<usize, ReadError> {
        let mut places = self.names.iter().enumerate().filter(|(_, name)| **name == column);
        match (places.next(), places.next()) {
            (Some((place, _)), None) => Ok(place),
            (Some(_), Some(_)) => Err(ReadError::Header(format!(
                "line 1: two columns are called `{column}`; rename one"
            ))),
            (None, _) => Err(ReadError::Header(self.missing(column))),
        }
    }

    fn missing(&self, column: &str) -> String {
        let header: String =
            self.names.join(&self.delimiter.to_string()).chars().take(200).collect();
        format!(
            "line 1: no column `{column}` among the {} of `{}`; mend the map's column name or its delimiter (now `{}`)",
            self.names.len(),
            header.escape_debug(),
            self.delimiter.escape_debug()
        )
    }
}

impl Places {
    fn find(map: &Map, header: &Header<'_>) -> Result<Self, ReadError> {
        let maybe = |column: &Option<String>| column.as_ref().map(|c| header.place(c)).transpose();
        let name = header.place(&map.columns.name)?;
        let amounts = map.resources.values().map(|amount| {
            amount.columns.iter().map(|column| header.place(column)).collect::<Result<Vec<_>, _>>()
        });
        Ok(Self {
            name,
            uid: maybe(&map.columns.uid)?.unwrap_or(name),
            group: maybe(&map.columns.group)?,
            start: header.place(&map.columns.start)?,
            stop: maybe(&map.columns.stop)?,
            models: [maybe(&map.models.cpu)?, maybe(&map.models.memory)?, maybe(&map.models.gpu)?],
            amounts: amounts.collect::<Result<_, _>>()?,
        })
    }
}
