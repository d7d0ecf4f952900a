//! Quota objects as people write them: YAML files of one or more documents, lists included.
//!
//! Bounded on purpose: files of at most [`MAX_FILE_BYTES`], few aliases, no deep nesting. What cannot be read ends
//! the command; what can be read and is wrong is collected, each fault with file, line and remedy.

use crate::{
    cli::Error,
    domain::{
        event::QuotaSpec,
        quota::{PeriodField, Place, SpecError, TypedPeriod, TypedSpec},
    },
};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_saphyr::Spanned;
use std::{
    collections::HashMap,
    fmt,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// 16,000 groups in one file: each has about 500 bytes. Read and judged, a file needs up to 16 times its size.
pub(crate) const MAX_FILE_BYTES: u64 = 8 << 20;

/// A quota object that is right in itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QuotaObject {
    /// The group.
    pub(crate) name: String,
    /// Keys normalised, amounts canonical.
    pub(crate) spec: QuotaSpec<'static>,
    /// Where it begins: `quotas.yaml:12`.
    pub(crate) place: String,
}

/// Something that is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Fault {
    /// File and line.
    pub(crate) place: String,
    /// The group, where it is known.
    pub(crate) group: String,
    /// `InvalidSpec`, `InvalidQuantity`, `Cycle`, …
    pub(crate) reason: &'static str,
    /// What is wrong, and the remedy.
    #[serde(rename = "message")]
    pub(crate) why: String,
}

/// What stands in some files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Objects {
    /// Those that are right in themselves, in the order of the files.
    pub(crate) good: Vec<QuotaObject>,
    /// What is wrong with the others.
    pub(crate) faults: Vec<Fault>,
}

/// Nobody reads more faults than this, and a file of nothing else must not fill the memory.
const MAX_FAULTS: usize = 1_000;

const API_VERSION: &str = "bizrq.io/v1";
const KIND: &str = "BizGroupResourceQuota";

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Document {
    api_version: Option<Spanned<String>>,
    kind: Option<Spanned<String>>,
    metadata: Option<Metadata>,
    spec: Option<Spec>,
    #[serde(rename = "status")]
    _status: Option<IgnoredAny>,
    items: Option<Vec<Spanned<Document>>>,
}

/// What an API server adds is let through, so that `kubectl get -o yaml` can be read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "these fields exist so that others are unknown")]
struct Metadata {
    name: Option<Spanned<String>>,
    labels: Option<IgnoredAny>,
    annotations: Option<IgnoredAny>,
    uid: Option<IgnoredAny>,
    resource_version: Option<IgnoredAny>,
    generation: Option<IgnoredAny>,
    creation_timestamp: Option<IgnoredAny>,
    deletion_timestamp: Option<IgnoredAny>,
    deletion_grace_period_seconds: Option<IgnoredAny>,
    finalizers: Option<IgnoredAny>,
    owner_references: Option<IgnoredAny>,
    managed_fields: Option<IgnoredAny>,
    self_link: Option<IgnoredAny>,
    r#continue: Option<IgnoredAny>,
    remaining_item_count: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Spec {
    parent: Option<Spanned<String>>,
    hard: Option<Hard>,
    charge: Option<Spanned<String>>,
    models: Option<Spanned<String>>,
    notify_cash: Option<Vec<i64>>,
    notify_consumed: Option<Vec<i64>>,
    cash_period: Option<CashPeriod>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct CashPeriod {
    every: Option<Spanned<String>>,
    time_zone: Option<Spanned<String>>,
    anchor: Option<Spanned<String>>,
    carry_over: Option<Spanned<String>>,
    max: Option<Spanned<String>>,
}

/// Entries in the order of the text; numbers as they were written.
struct Hard(Vec<(String, Spanned<String>)>);

impl<'de> Deserialize<'de> for Hard {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Hard;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of key to amount, as in `limits.cpu: \"10\"`")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Hard, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Hard(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// Reads all files; a name that comes twice is a fault.
///
/// # Errors
/// [`Error::Input`] for what cannot be opened, is too large, no UTF-8 or no YAML.
pub(crate) fn read(paths: &[PathBuf]) -> Result<Objects, Error> {
    let mut objects = Objects::default();
    for path in paths {
        let text = text(path)?;
        parse(&path.display().to_string(), &text, &mut objects)?;
    }
    refuse_twins(&mut objects);
    Ok(objects)
}

/// Reads all files, for commands that need every object to be right.
///
/// # Errors
/// [`Error::Input`] also for the first fault.
pub(crate) fn load(paths: &[PathBuf]) -> Result<Vec<QuotaObject>, Error> {
    let Objects { good, faults } = read(paths)?;
    match faults.into_iter().next() {
        None => Ok(good),
        Some(fault) => Err(Error::input(fault.place, fault.why)),
    }
}

pub(crate) fn text(path: &Path) -> Result<String, Error> {
    let place = path.display();
    let open = || -> io::Result<Box<dyn Read>> {
        Ok(if path == Path::new("-") { Box::new(io::stdin()) } else { Box::new(File::open(path)?) })
    };
    let mut bytes = Vec::new();
    let most = MAX_FILE_BYTES.saturating_add(1);
    let read = open().and_then(|file| file.take(most).read_to_end(&mut bytes));
    read.map_err(|e| Error::input(&place, format!("cannot be read: {e}")))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let why = format!("has more than {MAX_FILE_BYTES} bytes; split it into several files");
        return Err(Error::input(&place, why));
    }
    String::from_utf8(bytes).map_err(|e| {
        let before = e.as_bytes().get(..e.utf8_error().valid_up_to()).unwrap_or_default();
        let line = before.iter().filter(|b| **b == b'\n').count().saturating_add(1);
        Error::input(format_args!("{place}:{line}"), "is not UTF-8; convert the file")
    })
}

pub(crate) fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            // What the shortest entries (`a: 1` and a line break) of a whole file can be.
            max_nodes: 4_000_000,
            max_events: 8_000_000,
            max_aliases: 1_000,
            max_anchors: 1_000,
            max_recorded_anchor_events: 100_000,
            max_recorded_anchor_bytes: 1 << 20,
            max_merge_keys: 1_000,
            max_depth: 32,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 100_000,
            max_replay_stack_depth: 8,
        },
        with_snippet: false,
        // Where numbers are meant, `010` is 8, as kubectl reads it; see [`octal`] for amounts.
        legacy_octal_numbers: true,
    }
}

fn parse(file: &str, text: &str, objects: &mut Objects) -> Result<(), Error> {
    let mut bytes = text.as_bytes();
    let documents = serde_saphyr::read_with_options::<_, Spanned<Document>>(&mut bytes, options());
    for document in documents {
        if objects.is_full() {
            let why =
                format!("{MAX_FAULTS} faults are enough for one time; mend them to see others");
            let (place, group) = (file.to_owned(), String::new());
            objects.faults.push(Fault { place, group, reason: "InvalidSpec", why });
            break;
        }
        match document {
            Ok(document) => take(file, text, &document, objects),
            Err(e) => {
                let line = e.location().map_or(0, |l| l.line());
                let place = if line == 0 { file.to_owned() } else { format!("{file}:{line}") };
                let why = explain(&e);
                if !is_fault(&e) {
                    return Err(Error::input(place, why));
                }
                let (group, reason) = (String::new(), "InvalidSpec");
                objects.faults.push(Fault { place, group, reason, why });
            }
        }
    }
    Ok(())
}

/// The error itself, without what was wrapped around it.
fn bare(error: &serde_saphyr::Error) -> &serde_saphyr::Error {
    match error.without_snippet() {
        serde_saphyr::Error::AliasError { error, .. } => bare(error),
        other => other,
    }
}

/// Whether the YAML is fine and says the wrong thing.
fn is_fault(error: &serde_saphyr::Error) -> bool {
    use serde_saphyr::Error as E;
    matches!(
        bare(error),
        E::SerdeUnknownField { .. }
            | E::SerdeMissingField { .. }
            | E::SerdeInvalidType { .. }
            | E::SerdeInvalidValue { .. }
            | E::Unexpected { .. }
            | E::NullIntoString { .. }
            | E::DuplicateMappingKey { .. }
            | E::Message { .. }
    )
}

fn explain(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error as E;
    match bare(error) {
        E::SerdeUnknownField { field, expected, .. } => {
            let path = match expected {
                e if e.contains(&"hard") => "spec.",
                e if e.contains(&"labels") => "metadata.",
                e if e.contains(&"anchor") => "spec.cashPeriod.",
                _ => "",
            };
            let fields = if path == "metadata." {
                "name, labels, annotations".into()
            } else {
                expected.join(", ")
            };
            format!("{path}{field} is no field of a {KIND}; remove it, or write one of {fields}")
        }
        E::Unexpected { expected, .. } => {
            let expected = match *expected {
                "mapping start" => "a map (lines of `key: value`)",
                "string scalar" => "a text or a number",
                "sequence start" => "a list (lines of `- value`)",
                other => other,
            };
            format!("something else than {expected} stands here; mend its form or its indentation")
        }
        E::NullIntoString { .. } => {
            "nothing stands here where a text or a number is needed; write one, or remove the line"
                .into()
        }
        E::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().unwrap_or("the key");
            format!("`{key}` stands here a second time; keep one of the two")
        }
        E::Budget { .. }
        | E::AliasReplayLimitExceeded { .. }
        | E::AliasExpansionLimitExceeded { .. }
        | E::AliasReplayStackDepthExceeded { .. } => format!(
            "is built to grow when it is read ({error}); write the quotas out, without anchors and deep nesting"
        ),
        other => {
            let off = serde_saphyr::render_options! { snippets: serde_saphyr::SnippetMode::Off };
            other.render_with_options(off)
        }
    }
}

impl Objects {
    fn is_full(&self) -> bool {
        self.faults.len() >= MAX_FAULTS
    }
}

/// One document, or one item of a list.
fn take(file: &str, text: &str, document: &Spanned<Document>, objects: &mut Objects) {
    let place = |line: u64| format!("{file}:{}", line.max(1));
    let begins = document.referenced.line();
    let faults = match kind_fault(&document.value) {
        None => match &document.value.items {
            Some(items) => {
                for item in items {
                    if objects.is_full() {
                        break;
                    }
                    take(file, text, item, objects);
                }
                return;
            }
            None => accept(&document.value, text),
        },
        Some((at, why)) => Err(vec![(at, "InvalidSpec", why)]),
    };
    let name = document.value.name();
    match faults {
        Ok(spec) => {
            objects.good.push(QuotaObject { name: name.to_owned(), spec, place: place(begins) });
        }
        Err(faults) => objects.faults.extend(faults.into_iter().map(|(at, reason, why)| Fault {
            place: place(at.map_or(begins, |text| text.referenced.line())),
            group: name.to_owned(),
            reason,
            why,
        })),
    }
}

/// What a fault is about, its reason, and what to do.
type Found<'d> = (Option<&'d Spanned<String>>, &'static str, String);

/// Why a document is neither a quota object nor a list of them.
fn kind_fault(document: &Document) -> Option<(Option<&Spanned<String>>, String)> {
    let kind = text_of(document.kind.as_ref());
    let list = matches!(kind, "List" | "BizGroupResourceQuotaList");
    let version = text_of(document.api_version.as_ref());
    let why = match (document.items.is_some(), kind == KIND) {
        (true, _) if list => return None,
        (true, _) => {
            format!("items belongs to kind: List, not to `{kind}`; write `---` between objects")
        }
        (false, true) if version == API_VERSION => return None,
        (false, true) => {
            let why =
                format!("apiVersion: `{version}` is not known; write apiVersion: {API_VERSION}");
            return Some((document.api_version.as_ref(), why));
        }
        (false, false) => format!("kind: `{kind}` is not read here; write kind: {KIND}"),
    };
    Some((document.kind.as_ref(), why))
}

fn accept<'d>(document: &'d Document, text: &str) -> Result<QuotaSpec<'static>, Vec<Found<'d>>> {
    let nothing = Spec::default();
    let spec = document.spec.as_ref();
    let hard = spec.and_then(|s| s.hard.as_ref()).map_or(&[][..], |hard| &hard.0);
    let Spec { parent, charge, models, .. } = spec.unwrap_or(&nothing);
    let cash_period = spec.and_then(|s| s.cash_period.as_ref());
    let typed = TypedSpec {
        parent: text_of(parent.as_ref()),
        hard: hard.iter().map(|(key, amount)| (&**key, &*amount.value)).collect(),
        charge: text_of(charge.as_ref()),
        models: text_of(models.as_ref()),
        notify_cash: spec.and_then(|s| s.notify_cash.as_deref()),
        notify_consumed: spec.and_then(|s| s.notify_consumed.as_deref()),
        cash_period: cash_period.map(CashPeriod::typed),
    };
    let at = |error: &SpecError| match error.place {
        Place::Name => document.metadata.as_ref().and_then(|m| m.name.as_ref()),
        Place::Parent => spec.and_then(|s| s.parent.as_ref()),
        Place::Limit(number) => hard.get(number).map(|(_, amount)| amount),
        Place::Charge => spec.and_then(|s| s.charge.as_ref()),
        Place::Models => spec.and_then(|s| s.models.as_ref()),
        Place::NotifyCash | Place::NotifyConsumed => None,
        Place::Period(field) => cash_period.and_then(|period| period.at(field)),
    };
    let mut found: Vec<_> = hard.iter().filter_map(|entry| octal(text, entry)).collect();
    match typed.accept(document.name()) {
        Ok(spec) if found.is_empty() => return Ok(spec),
        Ok(_) => {}
        Err(errors) => found.extend(errors.iter().map(|e| (at(e), e.reason, e.to_string()))),
    }
    Err(found)
}

/// `010` without quotes is 8 to whoever reads YAML 1.1, as kubectl does: then the API server never sees the 10.
fn octal<'d>(text: &str, (key, amount): &'d (String, Spanned<String>)) -> Option<Found<'d>> {
    let digits = amount.value.strip_prefix('+').unwrap_or(&amount.value);
    let octal = u64::from_str_radix(digits.strip_prefix('0')?, 8).ok()?;
    let decimal = digits.parse::<u64>().ok()?;
    let at = amount.defined;
    let [line, column] = [at.line(), at.column()].map(|n| usize::try_from(n.saturating_sub(1)));
    let quoted =
        text.lines().nth(line.ok()?)?.chars().nth(column.ok()?)? != amount.value.chars().next()?;
    if quoted || octal == decimal {
        return None;
    }
    let why = format!(
        "spec.hard[{key}]: `{}` is {octal} to kubectl, as YAML 1.1 reads it; write {octal}, or {decimal}",
        amount.value
    );
    Some((Some(amount), "InvalidQuantity", why))
}

impl CashPeriod {
    fn typed(&self) -> TypedPeriod<'_> {
        TypedPeriod {
            every: text_of(self.every.as_ref()),
            time_zone: text_of(self.time_zone.as_ref()),
            anchor: text_of(self.anchor.as_ref()),
            carry_over: text_of(self.carry_over.as_ref()),
            max: text_of(self.max.as_ref()),
        }
    }

    fn at(&self, field: PeriodField) -> Option<&Spanned<String>> {
        let field = match field {
            PeriodField::Whole | PeriodField::Every => &self.every,
            PeriodField::TimeZone => &self.time_zone,
            PeriodField::Anchor => &self.anchor,
            PeriodField::CarryOver => &self.carry_over,
            PeriodField::Max => &self.max,
        };
        field.as_ref()
    }
}

impl Document {
    fn name(&self) -> &str {
        text_of(self.metadata.as_ref().and_then(|m| m.name.as_ref()))
    }
}

fn text_of(text: Option<&Spanned<String>>) -> &str {
    text.map_or("", |text| &text.value)
}

/// Of objects of one name the first stays.
fn refuse_twins(objects: &mut Objects) {
    let mut first: HashMap<String, String> = HashMap::new();
    let faults = &mut objects.faults;
    objects.good.retain(|object| {
        let before = first.get(&object.name);
        if let Some(before) = before {
            faults.push(Fault {
                place: object.place.clone(),
                group: object.name.clone(),
                reason: "InvalidSpec",
                why: format!(
                    "metadata.name: `{}` is declared in {before} already; keep one of the two",
                    object.name
                ),
            });
            return false;
        }
        first.insert(object.name.clone(), object.place.clone());
        true
    });
}

#[cfg(test)]
mod tests;
