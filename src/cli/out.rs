//! The one place that prints: tables, JSON, CSV and lines to stdout, notes and complaints to stderr.
//!
//! Colours appear on a terminal only, and not where `NO_COLOR` is set. Names from outside are shown with their
//! control characters escaped: a recorded pod must not move somebody's cursor.

use super::Error;
use serde::Serialize;
use std::{
    borrow::Cow,
    fmt::Display,
    io::{self, BufWriter, IsTerminal, Write},
};

/// Where results go.
pub struct Out {
    to: BufWriter<Box<dyn Write>>,
    paint: Paint,
}

/// How results are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
    /// For spreadsheets
    Csv,
}

/// Colours, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paint(bool);

/// A meaning that has a colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// As it comes.
    #[default]
    Plain,
    /// Headings.
    Bold,
    /// What matters less.
    Dim,
    /// Fine.
    Good,
    /// Near a limit.
    Near,
    /// Over a limit, wrong.
    Bad,
}

/// Which edge a column's cells touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A cell: text and meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    text: String,
    style: Style,
}

/// A cell beyond this many characters sticks out of its column: one long name must not widen every row.
const MAX_WIDTH: usize = 160;

/// Rows under a heading, columns as wide as their widest cell, within [`MAX_WIDTH`].
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<Cell>>,
}

impl Out {
    /// Standard output.
    #[must_use]
    pub fn stdout() -> Self {
        let stdout = io::stdout();
        let paint = Paint::on(&stdout);
        // The lock is taken a write at a time: help and completions share the stream.
        Self { to: BufWriter::with_capacity(1 << 16, Box::new(stdout)), paint }
    }

    /// Any other writer, without colours.
    #[must_use]
    pub fn plain(to: Box<dyn Write>) -> Self {
        Self { to: BufWriter::new(to), paint: Paint(false) }
    }

    /// The colours of this output.
    #[must_use]
    pub const fn paint(&self) -> Paint {
        self.paint
    }

    /// Prints one line.
    ///
    /// # Errors
    /// [`Error::Output`].
    pub fn line(&mut self, line: impl Display) -> Result<(), Error> {
        writeln!(self.to, "{line}").map_err(Error::Output)
    }

    /// Writes bytes as they are.
    ///
    /// # Errors
    /// [`Error::Output`].
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.to.write_all(bytes).map_err(Error::Output)
    }

    /// Prints one JSON value, indented.
    ///
    /// # Errors
    /// [`Error::Output`].
    pub fn json(&mut self, value: &impl Serialize) -> Result<(), Error> {
        serde_json::to_writer_pretty(&mut self.to, value).map_err(|e| Error::Output(e.into()))?;
        self.line("")
    }

    /// Prints rows as CSV under `head`.
    ///
    /// # Errors
    /// [`Error::Output`].
    pub fn csv<R: IntoIterator<Item: AsRef<[u8]>>>(
        &mut self,
        head: &[&str],
        rows: impl IntoIterator<Item = R>,
    ) -> Result<(), Error> {
        let failed = |e: csv::Error| Error::Output(e.into());
        let mut csv = csv::Writer::from_writer(&mut self.to);
        csv.write_record(head).map_err(failed)?;
        for row in rows {
            csv.write_record(row).map_err(failed)?;
        }
        csv.flush().map_err(Error::Output)
    }

    /// Prints one row of CSV.
    ///
    /// # Errors
    /// [`Error::Output`].
    pub fn csv_row<C: AsRef<[u8]>>(
        &mut self,
        row: impl IntoIterator<Item = C>,
    ) -> Result<(), Error> {
        // A writer of its own would flush the whole output for each row.
        let mut csv = csv::Writer::from_writer(Vec::new());
        csv.write_record(row).map_err(|e| Error::Output(e.into()))?;
        let row = csv.into_inner().map_err(|e| Error::Output(e.into_error()))?;
        self.bytes(&row)
    }

    /// Prints a table.
    ///
    /// # Errors
    /// [`Error::Output`].
    pub fn table(&mut self, table: &Table) -> Result<(), Error> {
        for line in table.lines(self.paint) {
            self.line(line)?;
        }
        Ok(())
    }

    /// Hands everything to the system.
    ///
    /// # Errors
    /// [`Error::Output`].
    pub fn flush(&mut self) -> Result<(), Error> {
        self.to.flush().map_err(Error::Output)
    }
}

impl Paint {
    fn on(stream: &impl IsTerminal) -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|v| !v.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self(stream.is_terminal() && !set("NO_COLOR") && !dumb)
    }

    /// `text` in the colour of its meaning.
    #[must_use]
    pub fn styled<'t>(self, style: Style, text: &'t str) -> Cow<'t, str> {
        let code = match style {
            _ if !self.0 => return text.into(),
            Style::Plain => return text.into(),
            Style::Bold => "1",
            Style::Dim => "2",
            Style::Good => "32",
            Style::Near => "33",
            Style::Bad => "31",
        };
        format!("\x1b[{code}m{text}\x1b[0m").into()
    }
}

impl Cell {
    /// A cell with a meaning.
    #[must_use]
    pub fn styled(style: Style, text: impl Into<String>) -> Self {
        Self { text: text.into(), style }
    }
}

impl Cell {
    /// What it says.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(Style::Plain, text)
    }
}

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new(columns: &[(&'static str, Align)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; cells beyond the columns are not shown.
    pub fn push(&mut self, row: impl IntoIterator<Item = Cell>) {
        self.rows.push(row.into_iter().collect());
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn lines(&self, paint: Paint) -> impl Iterator<Item = String> + '_ {
        let head = self.columns.iter().map(|(name, _)| Cell::styled(Style::Bold, *name)).collect();
        let rows: Vec<Vec<Cell>> = std::iter::once(head).chain(self.rows.iter().cloned()).collect();
        let rows = rows.into_iter().map(|row: Vec<Cell>| {
            let shown = |c: Cell| Cell { text: printable(&c.text).into_owned(), ..c };
            row.into_iter().map(shown).collect::<Vec<_>>()
        });
        let rows: Vec<_> = rows.collect();
        let mut widths = vec![0; self.columns.len()];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                let chars = cell.text.chars().count();
                *width = if chars > MAX_WIDTH { *width } else { chars.max(*width) };
            }
        }
        rows.into_iter().map(move |row| {
            let cells = row.iter().zip(&self.columns).zip(&widths);
            let cells =
                cells.map(|((cell, (_, align)), width)| padded(cell, *align, *width, paint));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        })
    }
}

fn padded(cell: &Cell, align: Align, width: usize, paint: Paint) -> String {
    let space = " ".repeat(width.saturating_sub(cell.text.chars().count()));
    let text = paint.styled(cell.style, &cell.text);
    match align {
        Align::Left => format!("{text}{space}"),
        Align::Right => format!("{space}{text}"),
    }
}

/// Whether a terminal would act on it, or show it as nothing or elsewhere: controls, and what turns the direction
/// of writing or has no width.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// `text` with the characters escaped that a terminal would act on or hide.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(acts) {
        return text.into();
    }
    let escaped = |c: char| match acts(c) {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(escaped).collect::<String>().into()
}

/// Tells the operator, on stderr, something that is not the result.
pub fn note(text: impl Display) {
    to_stderr(Style::Dim, "note", &text.to_string());
}

/// Tells the operator, on stderr, something that should be looked at.
pub fn warn(text: impl Display) {
    to_stderr(Style::Near, "warning", &text.to_string());
}

/// Tells the operator, on stderr, that the work was ended, by whom and where it was.
pub(super) fn stopped(text: impl Display) {
    to_stderr(Style::Near, "stopped", &text.to_string());
}

/// Tells the operator, on stderr, why the work was not done.
pub fn complain(error: &Error) {
    to_stderr(Style::Bad, "error", &error.to_string());
}

fn to_stderr(style: Style, what: &str, text: &str) {
    let stderr = io::stderr();
    let what = Paint::on(&stderr).styled(style, what).into_owned();
    let text = text.lines().map(printable).collect::<Vec<_>>().join("\n");
    // Whoever closed stderr does not want to know.
    let _ = writeln!(stderr.lock(), "{what}: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&[("group", Align::Left), ("hours", Align::Right)]);
        table.push(["team-a".into(), "1.5".into()]);
        table.push(["ünï\u{1b}[2J".into(), Cell::styled(Style::Bad, "1234.000")]);
        table
    }

    #[test]
    fn a_table_is_aligned_and_moves_no_cursor() {
        let lines: Vec<_> = table().lines(Paint(false)).collect();
        assert_eq!(
            lines,
            ["group            hours", "team-a             1.5", "ünï\\u{1b}[2J  1234.000",]
        );
    }

    #[test]
    fn names_cannot_turn_round_or_hide_nor_widen_every_row() {
        assert_eq!(printable("a\u{202e}b\u{200b}c"), "a\\u{202e}b\\u{200b}c");
        assert_eq!(printable("täm 組"), "täm 組");
        let mut table = table();
        let long = "x".repeat(10_000);
        table.push([long.as_str().into(), "1.5".into()]);
        let lines: Vec<_> = table.lines(Paint(false)).collect();
        assert_eq!(lines[1], "team-a             1.5");
        assert_eq!(lines[3], format!("{long}       1.5"));
    }

    #[test]
    fn colours_do_not_shift_columns() {
        let lines: Vec<_> = table().lines(Paint(true)).collect();
        assert_eq!(lines[0], "\u{1b}[1mgroup\u{1b}[0m            \u{1b}[1mhours\u{1b}[0m");
        assert_eq!(lines[2], "ünï\\u{1b}[2J  \u{1b}[31m1234.000\u{1b}[0m");
    }
}
