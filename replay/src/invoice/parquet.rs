//! An invoice as an Apache Parquet file: the columns of the CSV form, amounts as DECIMAL, so that no reader rounds.
//!
//! What a line has not (a model, a correction, a price) is null. Memory is one row group, however many lines there are;
//! an invoice that is made twice is the same, byte by byte.

use super::{
    Invoice,
    print::{called, cluster, said, status},
};
use bizrq::{
    cli::{Error, out::Out},
    domain::{billing::Line, event::Position, hours::NanoHours, quota::Unit},
};
use parquet::{
    basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical},
    data_type::{ByteArray, ByteArrayType, FixedLenByteArray, FixedLenByteArrayType, Int64Type},
    errors::ParquetError,
    file::{
        metadata::KeyValue,
        properties::WriterProperties,
        writer::{SerializedColumnWriter, SerializedFileWriter},
    },
    schema::types::{Type, TypePtr},
};
use std::{
    io::{self, IsTerminal},
    sync::Arc,
};

/// Rows of one row group: tens of megabytes before they are encoded.
const ROWS: usize = 1 << 16;

/// Digits of a DECIMAL; more than 16 bytes can hold are none.
const PRECISION: i32 = 38;
/// Its bytes.
const WIDTH: i32 = 16;
/// The first integer that has a digit more.
const BOUND: u128 = 10_u128.pow(38);

/// What a column holds; digits behind the point.
#[derive(Clone, Copy)]
enum Holds {
    Text,
    Number,
    Instant,
    Decimal(i32),
}

/// A cell.
enum Value {
    Text(String),
    /// A number, or milliseconds since 1970.
    Number(i64),
    /// In units of the last digit.
    Decimal(i128),
}

/// Columns, and so cells of a row.
const COLUMNS: usize = 20;

/// Name, content, and whether a line may have none; money has so many digits.
fn columns(digits: u32) -> [(&'static str, Holds, bool); COLUMNS] {
    use Holds::{Decimal, Instant, Number, Text};
    let money = i32::try_from(digits).unwrap_or(i32::MAX);
    [
        ("line", Number, false),
        ("group", Text, true),
        ("key", Text, false),
        ("model", Text, true),
        ("cluster", Text, true),
        ("namespace", Text, true),
        ("workload", Text, true),
        ("from", Instant, false),
        ("to", Instant, false),
        ("unit", Text, false),
        ("hours", Decimal(9), false),
        ("exact", Decimal(0), false),
        ("status", Text, false),
        ("correction", Text, true),
        ("position", Number, false),
        ("root", Text, false),
        ("price", Decimal(9), true),
        ("per", Decimal(3), true),
        ("cost", Decimal(money), true),
        ("currency", Text, true),
    ]
}

/// One line, cell by cell.
type Row = [Option<Value>; COLUMNS];

impl Invoice<'_> {
    /// Writes the file.
    pub(super) fn parquet(&self, out: &mut Out) -> Result<(), Error> {
        let columns = columns(self.prices.map_or(2, |list| list.prices.digits()));
        let failed = |e: ParquetError| Error::Output(io::Error::other(e));
        let schema = schema(&columns).map_err(failed)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(Some(self.properties()))
            .build();
        let mut file =
            SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).map_err(failed)?;
        let mut lines = (1..).zip(self.lines()).peekable();
        while lines.peek().is_some() {
            let rows = lines.by_ref().take(ROWS).map(|(number, line)| self.row(number, &line));
            let rows = rows.collect::<Result<Vec<Row>, Error>>()?;
            let mut group = file.next_row_group().map_err(failed)?;
            for (at, (_, holds, _)) in columns.iter().enumerate() {
                let Some(mut column) = group.next_column().map_err(failed)? else { break };
                let cells = rows.iter().map(|row| row.get(at).and_then(Option::as_ref));
                write(&mut column, *holds, cells).map_err(failed)?;
                column.close().map_err(failed)?;
            }
            group.close().map_err(failed)?;
            out.bytes(&std::mem::take(file.inner_mut()))?;
        }
        file.finish().map_err(failed)?;
        out.bytes(&std::mem::take(file.inner_mut()))
    }

    /// What the file says of itself.
    fn properties(&self) -> Vec<KeyValue> {
        let (args, folded) = (self.args, self.folded);
        let of = [
            ("bizrq.from", args.from.to_string()),
            ("bizrq.to", args.to.to_string()),
            ("bizrq.position", folded.position.to_string()),
            ("bizrq.root", folded.root.to_string()),
            ("bizrq.closed", folded.closed.to_string()),
        ];
        of.into_iter().map(|(key, value)| KeyValue::new(key.to_owned(), value)).collect()
    }

    fn row(&self, number: i64, line: &Line<'_>) -> Result<Row, Error> {
        let beyond = |name| {
            Error::log(
                &self.args.log,
                format!(
                    "line {number}: `{name}` exceeds a DECIMAL of 38 digits; -o json has it whole"
                ),
            )
        };
        let decimal = |name, value: i128| match value.unsigned_abs() < BOUND {
            true => Ok(Some(Value::Decimal(value))),
            false => Err(beyond(name)),
        };
        let text = |text: &str| (!text.is_empty()).then(|| Value::Text(text.to_owned()));
        let count = |position: Position| i64::try_from(position).ok().map(Value::Number);
        let priced = self.cost(line).map_err(|_| beyond("cost"))?;
        let (price, per, cost) = match priced {
            Some((price, _, cost)) => (
                decimal("price", price.nano)?,
                decimal("per", price.per)?,
                decimal("cost", cost.minor)?,
            ),
            None => Default::default(),
        };
        let currency = self.prices.filter(|_| cost.is_some()).map(|list| list.currency.as_str());
        Ok([
            Some(Value::Number(number)),
            text(line.group),
            text(line.key),
            text(line.model),
            text(cluster(&line.workload)),
            text(line.workload.namespace),
            text(&called(&line.workload)),
            Some(Value::Number(line.period.from.millis())),
            Some(Value::Number(line.period.to.millis())),
            text(Unit::of(line.key).name()),
            decimal("hours", NanoHours::of(line.exact).0)?,
            decimal("exact", line.exact)?,
            text(status(line.status)),
            line.correction.map(said).as_deref().and_then(text),
            count(self.folded.position),
            text(&self.folded.root.to_string()),
            price,
            per,
            cost,
            currency.and_then(text),
        ])
    }
}

/// A file is no text for a terminal.
pub(super) fn refuse_terminal() -> Result<(), Error> {
    match io::stdout().is_terminal() {
        true => Err(Error::Usage("-o parquet is no text: add `> invoice.parquet`".to_owned())),
        false => Ok(()),
    }
}

fn schema(columns: &[(&'static str, Holds, bool); COLUMNS]) -> Result<TypePtr, ParquetError> {
    let fields = columns.iter().map(|(name, holds, nullable)| {
        let repetition = if *nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let (physical, logical) = match *holds {
            Holds::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Holds::Number => (Physical::INT64, None),
            Holds::Instant => {
                let unit = TimeUnit::MILLIS;
                (Physical::INT64, Some(LogicalType::timestamp(true, unit)))
            }
            Holds::Decimal(scale) => {
                (Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::decimal(scale, PRECISION)))
            }
        };
        let mut field = Type::primitive_type_builder(name, physical)
            .with_repetition(repetition)
            .with_logical_type(logical);
        if let Holds::Decimal(scale) = *holds {
            field = field.with_length(WIDTH).with_precision(PRECISION).with_scale(scale);
        }
        field.build().map(Arc::new)
    });
    let fields = fields.collect::<Result<_, _>>()?;
    Type::group_type_builder("invoice").with_fields(fields).build().map(Arc::new)
}

/// Writes one column of a row group. Values that are null are told by levels alone.
fn write<'v>(
    column: &mut SerializedColumnWriter<'_>,
    holds: Holds,
    cells: impl Iterator<Item = Option<&'v Value>> + Clone,
) -> Result<(), ParquetError> {
    let levels: Vec<i16> = cells.clone().map(|cell| i16::from(cell.is_some())).collect();
    let cells = cells.flatten();
    match holds {
        Holds::Text => {
            let texts = cells.filter_map(|cell| match cell {
                Value::Text(text) => Some(ByteArray::from(text.as_str())),
                _ => None,
            });
            let texts: Vec<_> = texts.collect();
            column.typed::<ByteArrayType>().write_batch(&texts, Some(&levels), None)?;
        }
        Holds::Number | Holds::Instant => {
            let numbers = cells.filter_map(|cell| match cell {
                Value::Number(number) => Some(*number),
                _ => None,
            });
            let numbers: Vec<_> = numbers.collect();
            column.typed::<Int64Type>().write_batch(&numbers, Some(&levels), None)?;
        }
        Holds::Decimal(_) => {
            let decimals = cells.filter_map(|cell| match cell {
                Value::Decimal(number) => {
                    Some(FixedLenByteArray::from(number.to_be_bytes().to_vec()))
                }
                _ => None,
            });
            let decimals: Vec<_> = decimals.collect();
            column.typed::<FixedLenByteArrayType>().write_batch(&decimals, Some(&levels), None)?;
        }
    }
    Ok(())
}
