//! A quota's spec as a person typed it, and what is recorded of it: keys normalised, amounts canonical.

use super::{
    Why,
    key::{Unit, is_group_name, normalise},
    period::{PeriodField, TypedPeriod},
};
use crate::domain::{
    event::{Charge, ModelPolicy, QuotaSpec},
    quantity::Quantity,
    text::Text,
};
use std::{collections::BTreeMap, sync::Arc};

/// `spec` of a BizGroupResourceQuota as it was typed; what was left out is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypedSpec<'a> {
    /// The parent's name; empty for a root.
    pub parent: &'a str,
    /// Key and amount of every limit, in the order of the text.
    pub hard: Vec<(&'a str, &'a str)>,
    /// `Steady`, `Peak`, or empty for the default.
    pub charge: &'a str,
    /// `Declared`, `Required`, or empty for the default.
    pub models: &'a str,
    /// Percentages of its own cash that are told, if that is said.
    pub notify_cash: Option<&'a [i64]>,
    /// Percentages of the budget that its subtree spent, if that is said.
    pub notify_consumed: Option<&'a [i64]>,
    /// When budgets begin anew, if that is said.
    pub cash_period: Option<TypedPeriod<'a>>,
}

/// Which part of a quota object is meant; whoever knows the text knows its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// `metadata.name`.
    Name,
    /// `spec.parent`.
    Parent,
    /// An entry of [`TypedSpec::hard`], by its number.
    Limit(usize),
    /// `spec.charge`.
    Charge,
    /// `spec.models`.
    Models,
    /// `spec.notifyCash`.
    NotifyCash,
    /// `spec.notifyConsumed`.
    NotifyConsumed,
    /// `spec.cashPeriod`, or a part of it.
    Period(PeriodField),
}

/// One thing that is wrong with a quota object: where, what stands there, what should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: `{value}` {why}")]
pub struct SpecError {
    /// Path of the field: `spec.hard[limits.cpu]`.
    pub field: String,
    /// What stands there, cut at 80 characters.
    pub value: String,
    /// What is wrong, and the remedy.
    pub why: Why,
    /// `InvalidQuantity` of an amount, else `InvalidSpec`.
    pub reason: &'static str,
    /// Which part is meant.
    pub place: Place,
}

impl SpecError {
    pub(super) fn new(place: Place, value: &str, why: impl Into<Why>) -> Self {
        let field = match place {
            Place::Name => "metadata.name",
            Place::Parent => "spec.parent",
            Place::Limit(_) => "spec.hard",
            Place::Charge => "spec.charge",
            Place::Models => "spec.models",
            Place::NotifyCash => "spec.notifyCash",
            Place::NotifyConsumed => "spec.notifyConsumed",
            Place::Period(field) => field.path(),
        };
        let (field, value) = (field.to_owned(), short(value));
        Self { field, value, why: why.into(), reason: "InvalidSpec", place }
    }
}

impl TypedSpec<'_> {
    /// What is recorded of the object `name` that says this.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of the text.
    pub fn accept(&self, name: &str) -> Result<QuotaSpec<'static>, Vec<SpecError>> {
        let mut errors = Vec::new();
        if !is_group_name(name) {
            errors.push(SpecError::new(Place::Name, name, GROUP_NAME));
        }
        if !self.parent.is_empty() && !is_group_name(self.parent) {
            errors.push(SpecError::new(Place::Parent, self.parent, GROUP_NAME));
        }
        let spec = QuotaSpec {
            parent: Text::from(self.parent.to_owned()),
            hard: self.limits(&mut errors),
            charge: choose(Place::Charge, self.charge, &CHARGES, &mut errors),
            models: choose(Place::Models, self.models, &POLICIES, &mut errors),
            notify_cash: percentages(Place::NotifyCash, self.notify_cash, &mut errors),
            notify_consumed: percentages(Place::NotifyConsumed, self.notify_consumed, &mut errors),
            cash_period: self
                .cash_period
                .and_then(|typed| typed.accept(self.parent.is_empty(), &mut errors).map(Arc::new)),
        };
        if errors.is_empty() { Ok(spec) } else { Err(errors) }
    }

    fn limits(&self, errors: &mut Vec<SpecError>) -> BTreeMap<Text<'static>, Quantity> {
        if self.hard.len() > MAX_KEYS {
            let why = format!(
                "keys are more than the {MAX_KEYS} that one group can have; leave some out"
            );
            errors.push(SpecError::new(Place::Limit(0), &self.hard.len().to_string(), why));
            return BTreeMap::new();
        }
        let mut spelt: BTreeMap<String, (&str, Quantity)> = BTreeMap::new();
        for (number, (typed, text)) in self.hard.iter().enumerate() {
            let place = Place::Limit(number);
            let key = match normalise(typed) {
                Ok(key) => key,
                Err(why) => {
                    errors.push(SpecError::new(place, typed, why));
                    continue;
                }
            };
            if let Some((first, _)) = spelt.get(&key) {
                let why =
                    format!("is `{key}`, which `{first}` has set already; keep one of the two");
                errors.push(SpecError::new(place, typed, why));
                continue;
            }
            match amount(&key, text) {
                Ok(amount) => drop(spelt.insert(key, (typed, amount))),
                Err(why) => errors.push(SpecError {
                    field: format!("spec.hard[{}]", short(typed)),
                    reason: "InvalidQuantity",
                    ..SpecError::new(place, text, why)
                }),
            }
        }
        spelt.into_iter().map(|(key, (_, amount))| (Text::from(key), amount)).collect()
    }
}

/// More percentages than anybody wants to be told of, and the largest.
const MAX_PERCENTAGES: usize = 16;
const MAX_PERCENT: u16 = 1_000;

/// Percentages in their order, each once.
fn percentages(
    place: Place,
    typed: Option<&[i64]>,
    errors: &mut Vec<SpecError>,
) -> Option<Vec<u16>> {
    let typed = typed?;
    if typed.len() > MAX_PERCENTAGES {
        let why = format!(
            "percentages are more than the {MAX_PERCENTAGES} that can be told; leave some out"
        );
        errors.push(SpecError::new(place, &typed.len().to_string(), why));
        return None;
    }
    let mut percentages = Vec::with_capacity(typed.len());
    for number in typed {
        match u16::try_from(*number) {
            Ok(percent @ 1..=MAX_PERCENT) => percentages.push(percent),
            _ => {
                let why = format!("is no percentage that can be told; write 1 to {MAX_PERCENT}");
                errors.push(SpecError::new(place, &number.to_string(), why));
            }
        }
    }
    percentages.sort_unstable();
    percentages.dedup();
    Some(percentages)
}

/// More keys than a cluster has resources and models. Rules compare the keys of a group with each other, so that
/// without a bound one object could keep everybody busy for hours.
pub(super) const MAX_KEYS: usize = 512;

const GROUP_NAME: &str = "is no group name; use at most 63 lower-case letters, digits and `-`, \
                          beginning and ending with a letter or digit";
const CHARGES: [(&str, Charge); 2] = [("Steady", Charge::Steady), ("Peak", Charge::Peak)];
const POLICIES: [(&str, ModelPolicy); 2] =
    [("Declared", ModelPolicy::Declared), ("Required", ModelPolicy::Required)];

/// The amount of a limit, rounded up to thousandths; pods and objects come whole.
fn amount(key: &str, text: &str) -> Result<Quantity, Why> {
    let amount =
        Quantity::parse_declared(text).map_err(|e| format!("is no quantity: {}", e.why))?;
    if Unit::of(key) == Unit::Item && amount.milli().checked_rem(1000) != Some(0) {
        return Err("is not whole; pods and objects are counted one by one".into());
    }
    Ok(amount.rounded_up())
}

fn choose<T: Copy + Default>(
    place: Place,
    typed: &str,
    choices: &[(&str, T); 2],
    errors: &mut Vec<SpecError>,
) -> T {
    if typed.is_empty() {
        return T::default();
    }
    if let Some((_, choice)) = choices.iter().find(|(name, _)| *name == typed) {
        return *choice;
    }
    let names = choices.map(|(name, _)| name).join(" or ");
    errors.push(SpecError::new(place, typed, format!("is unknown; write {names}")));
    T::default()
}

/// At most 80 characters of what was typed: an error is one line.
fn short(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hard<'a>(hard: &[(&'a str, &'a str)]) -> TypedSpec<'a> {
        TypedSpec { hard: hard.to_vec(), ..TypedSpec::default() }
    }

    fn errors(spec: &TypedSpec<'_>) -> Vec<String> {
        spec.accept("team-a").unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn two_spellings_of_one_key_are_an_error() {
        let both = errors(&hard(&[("nvidia.com/gpu", "8"), ("requests.nvidia.com/gpu", "8")]));
        assert_eq!(
            both,
            [
                "spec.hard: `requests.nvidia.com/gpu` is `limits.nvidia.com/gpu`, which `nvidia.com/gpu` \
              has set already; keep one of the two"
            ]
        );
        assert_eq!(errors(&hard(&[("cash/cpu", "8"), ("cash/requests.cpu", "9")])).len(), 1);
        let sides = hard(&[("requests.cpu", "8"), ("limits.cpu", "8")]);
        assert_eq!(sides.accept("a").unwrap().hard.len(), 2);
    }

    #[test]
    fn every_fault_is_told_with_field_value_and_remedy() {
        let spec = TypedSpec {
            parent: "Dept",
            hard: vec![("cpus", "1"), ("pods", "1500m"), ("limits.cpu", "-1")],
            charge: "steady",
            models: "Any",
            ..TypedSpec::default()
        };
        let errors = spec.accept("team_a").unwrap_err();
        let fields: Vec<_> = errors.iter().map(|e| (&*e.field, &*e.value, e.reason)).collect();
        assert_eq!(
            fields,
            [
                ("metadata.name", "team_a", "InvalidSpec"),
                ("spec.parent", "Dept", "InvalidSpec"),
                ("spec.hard", "cpus", "InvalidSpec"),
                ("spec.hard[pods]", "1500m", "InvalidQuantity"),
                ("spec.hard[limits.cpu]", "-1", "InvalidQuantity"),
                ("spec.charge", "steady", "InvalidSpec"),
                ("spec.models", "Any", "InvalidSpec"),
            ]
        );
        assert!(errors.iter().all(|e| e.why.contains(';') || e.reason == "InvalidQuantity"));
    }

    #[test]
    fn a_group_has_so_many_keys_and_no_more() {
        let keys: Vec<_> = (0..=MAX_KEYS).map(|i| format!("limits.x.io/card-{i}")).collect();
        let all: Vec<_> = keys.iter().map(|key| (&**key, "1")).collect();
        assert_eq!(hard(&all[..MAX_KEYS]).accept("a").unwrap().hard.len(), MAX_KEYS);
        assert_eq!(errors(&hard(&all)).len(), 1);
    }

    #[test]
    fn what_is_accepted_is_normal() {
        let spec = TypedSpec {
            parent: "dept-1",
            hard: vec![("cpu", "1500m"), ("cash/limits.cpu", "100")],
            charge: "Peak",
            models: "",
            ..TypedSpec::default()
        };
        let spec = spec.accept("team-a").unwrap();
        assert_eq!(
            (&*spec.parent, spec.charge, spec.models),
            ("dept-1", Charge::Peak, ModelPolicy::Declared)
        );
        let hard: Vec<_> = spec.hard.iter().map(|(k, q)| (k.to_string(), q.milli())).collect();
        assert_eq!(hard, [("cash/limits.cpu".into(), 100_000), ("requests.cpu".into(), 1500)]);
    }

    #[test]
    fn percentages_are_sorted_and_bounded() {
        let accept = |list: &[i64]| {
            let spec = TypedSpec { notify_cash: Some(list), ..TypedSpec::default() };
            spec.accept("team-a").map(|spec| spec.notify_cash.unwrap()).map_err(|errors| {
                errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
            })
        };
        assert_eq!(accept(&[90, 50, 90, 1000]), Ok(vec![50, 90, 1000]));
        assert_eq!(accept(&[]), Ok(vec![]));
        for wrong in [0, -1, 1001, i64::MAX] {
            let said = accept(&[50, wrong]).unwrap_err();
            let expected = format!(
                "spec.notifyCash: `{wrong}` is no percentage that can be told; write 1 to 1000"
            );
            assert_eq!(said, expected);
        }
        let said = accept(&[7; 17]).unwrap_err();
        assert!(said.contains("`17` percentages are more than the 16"), "{said}");
    }
}
