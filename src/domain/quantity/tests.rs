//! Quantities against the real Kubernetes parser's answers, and the algebra of text and value.

// Tests compute freely: an overflow fails the test.
#![allow(clippy::arithmetic_side_effects)]

use super::{Declared, Format, Quantity};
use proptest::prelude::*;

const INPUTS: &str = include_str!("../../../tests/fixtures/golden/q.txt");
const ANSWERS: &str = include_str!("../../../tests/fixtures/golden/q.out");

/// The golden rows that Kubernetes takes (or hangs on) and bizrq refuses: the whole list.
const DEVIATIONS: [&str; 6] =
    ["12E", "1e20", "9223372036854775808", "99999999999999999999", "1e19", "1e2147483648"];

/// A row of `q.out`.
struct Golden {
    input: String,
    /// `dec`, `fmt`, `canon`; `None` for an error.
    value: Option<(String, String, String)>,
    json_ok: bool,
}

fn golden() -> Vec<Golden> {
    INPUTS
        .lines()
        .zip(ANSWERS.lines())
        .map(|(input, answer)| {
            let quoted = input;
            let input: String = serde_json::from_str(quoted).unwrap();
            let field = |name: &str| {
                answer.split(' ').find_map(|w| w.strip_prefix(name)).map(str::to_owned)
            };
            assert!(answer.contains(quoted), "row {answer} is not of {quoted}");
            let value =
                field("dec=").map(|dec| (dec, field("fmt=").unwrap(), field("canon=").unwrap()));
            Golden { input, json_ok: value.is_some() || answer.contains("json-ok"), value }
        })
        .collect()
}

/// `-1.5` in 10⁻⁹ units; golden values have at most nine decimals.
fn nano(dec: &str) -> i128 {
    let (negative, dec) = dec.strip_prefix('-').map_or((false, dec), |d| (true, d));
    let (whole, fraction) = dec.split_once('.').unwrap_or((dec, ""));
    let n: i128 = format!("{whole}{fraction:0<9}").parse().unwrap();
    if negative { -n } else { n }
}

#[test]
fn every_golden_row_has_the_value_format_and_text_of_kubernetes() {
    let rows = golden();
    assert_eq!(rows.len(), 141);
    for row in &rows {
        let (input, parsed) = (&row.input, Quantity::parse(&row.input));
        let Some((dec, format, canon)) = row.value.as_ref().filter(|_| !deviates(input)) else {
            assert!(parsed.is_err(), "`{input}` must be refused, not {parsed:?}");
            continue;
        };
        let quantity = parsed.unwrap();
        assert_eq!(quantity.nano, nano(dec), "value of `{input}`");
        assert_eq!(format!("{:?}", quantity.format), *format, "format of `{input}`");
        assert_eq!(quantity.to_string(), *canon, "text of `{input}`");
    }
}

#[test]
fn every_golden_row_in_json_is_taken_or_refused_as_by_kubernetes() {
    for row in golden() {
        let json = serde_json::to_string(&row.input).unwrap();
        let parsed = serde_json::from_str::<Quantity>(&json);
        let expected = row.json_ok && !deviates(&row.input);
        assert_eq!(parsed.is_ok(), expected, "{json}: {parsed:?}");
    }
}

fn deviates(input: &str) -> bool {
    DEVIATIONS.contains(&input)
}

#[test]
fn every_listed_deviation_is_a_golden_row_that_kubernetes_does_not_refuse() {
    for deviation in DEVIATIONS {
        let answer = ANSWERS.lines().find(|a| a.contains(&format!("\"{deviation}\""))).unwrap();
        assert!(!answer.contains("ERR"), "{answer}");
    }
}

#[test]
fn texts_that_the_golden_rows_leave_out_follow_the_facts() {
    for (text, canon) in [
        ("9223372036854775807", "9223372036854775807"),
        ("9.223372036854775807E", "9223372036854775807"),
        ("0.000000000000000000000000001e28", "10"),
        ("12345678901234567890123456789e-20", "123456789012345679e-9"),
        ("0e64", "0"),
        ("1e-64", "1e-9"),
        ("00000000000000000000000000000000000000000000000000000000000001Ki", "1Ki"),
        ("0.00000000000000000000000000000000000000000000000000001Ei", "1n"),
        ("9.99999999999999999999999999Ei", "9223372036854775807"),
        ("-1e-10", "-1e-9"),
    ] {
        assert_eq!(Quantity::parse(text).unwrap().to_string(), canon, "{text}");
    }
    for text in [
        "1e65",
        "1e-65",
        "0e65",
        "1e4294967296",
        "1e99999999999999999999999999999999999999999999999999",
        "9223372036854775807.000000001",
        "1e64",
        "0x1",
        "١",
        "1\0",
        "\u{feff}1",
        "1e٣",
        "11111111111111111111111111111111111111111111111111111111111111111",
    ] {
        assert!(Quantity::parse(text).is_err(), "{text}");
    }
}

#[test]
fn an_error_names_the_text_and_a_remedy_and_is_short() {
    let message = Quantity::parse("1K").unwrap_err().to_string();
    assert!(message.starts_with("`1K` is no quantity: the suffix is unknown; use one of"));
    let long = Quantity::parse(&"é\n".repeat(10_000)).unwrap_err();
    assert!(long.text.len() <= 70 && long.text.starts_with("é\\n"), "{}", long.text);
}

#[test]
fn json_numbers_and_null_are_taken_by_value() {
    let json = |text| serde_json::from_str::<Quantity>(text);
    for (text, canon) in [
        ("0", "0"),
        ("-3", "-3"),
        ("9223372036854775807", "9223372036854775807"),
        ("1.5", "1500m"),
        ("0.1", "100m"),
        ("1e3", "1k"),
        ("1E-10", "1n"),
        ("123456.789", "123456789m"),
        ("null", "0"),
        ("\" 1 \"", "1"),
    ] {
        assert_eq!(json(text).unwrap().to_string(), canon, "{text}");
    }
    for text in ["12345678901234567890", "1e300", "1e-300", "true", "[]", "{}", "\"\"", "\" \""] {
        assert!(json(text).is_err(), "{text}");
    }
}

#[test]
fn a_declared_quantity_needs_a_digit_and_is_not_negative() {
    for text in ["Ki", "m", ".", "-", "+", "-.", "e3", "-1", "-1n", "-0.0000000001", "", " "] {
        assert!(Quantity::parse_declared(text).is_err(), "`{text}`");
    }
    for text in ["0", "0Ki", ".5", "5.", " 10 ", "+1", "-0"] {
        assert!(Quantity::parse_declared(text).is_ok(), "`{text}`");
    }
    assert!(serde_json::from_str::<Declared>("-1").is_err());
    assert!(serde_json::from_str::<Declared>("-0.5").is_err());
    assert_eq!(serde_json::from_str::<Declared>("10").unwrap().0.milli(), 10_000);
}

#[test]
fn sums_keep_the_left_format_unless_the_left_is_zero() {
    let q = |text| Quantity::parse(text).unwrap();
    for (a, b, sum) in [
        ("1Gi", "1G", "2073741824"),
        ("1G", "1Gi", "2073741824"),
        ("512Mi", "512Mi", "1Gi"),
        ("1e3", "1", "1001"),
        ("100m", "1Ki", "1024100m"),
        ("0", "1Gi", "1Gi"),
    ] {
        assert_eq!(q(a).checked_add(q(b)).unwrap().to_string(), sum, "{a} + {b}");
    }
    assert_eq!(q("0").checked_sub(q("1Gi")).unwrap().to_string(), "-1Gi");
    assert_eq!(q("1500m").checked_mul(4).unwrap().to_string(), "6");
    let huge = Quantity { nano: i128::MAX, format: Format::DecimalSI };
    assert_eq!(huge.checked_add(q("1n")), None);
    assert_eq!(huge.checked_mul(2), None);
    assert!(q("1024Mi") == q("1Gi") && q("1025Mi") > q("1Gi"));
}

/// Any value that a text can have, in any format.
fn any_quantity() -> impl Strategy<Value = Quantity> {
    let nano = prop_oneof![
        -super::MAX_NANO..=super::MAX_NANO,
        -5_000_000_000_i128..5_000_000_000,
        (-9_000_000_000_000_i128..9_000_000_000_000).prop_map(|n| n * 1_000_000),
        ((-1_000_000_i128..1_000_000), 0_u32..5)
            .prop_map(|(n, p)| n * 1024_i128.pow(p) * super::NANO),
    ];
    let format =
        prop_oneof![Just(Format::DecimalSI), Just(Format::BinarySI), Just(Format::DecimalExponent)];
    (nano, format).prop_map(|(nano, format)| Quantity {
        nano: nano.clamp(-super::MAX_NANO, super::MAX_NANO),
        format,
    })
}

proptest! {
    #[test]
    fn what_is_printed_parses_to_the_same_value(quantity in any_quantity()) {
        let text = quantity.to_string();
        let again = Quantity::parse(&text).unwrap();
        prop_assert_eq!(again.nano, quantity.nano, "{}", text);
        prop_assert_eq!(again.to_string(), Quantity { format: again.format, ..quantity }.to_string());
    }

    #[test]
    fn thousandths_are_the_ceiling(quantity in any_quantity()) {
        let up = quantity.milli() * 1_000_000;
        prop_assert!(up >= quantity.nano && up - quantity.nano < 1_000_000);
        prop_assert_eq!(quantity.rounded_up().nano, up);
    }

    #[test]
    fn no_text_panics(text in ".{0,70}") {
        let _ = Quantity::parse(&text);
        let _ = Quantity::parse_declared(&text);
    }

    #[test]
    fn digits_and_suffixes_agree_with_rational_arithmetic(
        whole in "[0-9]{0,9}", fraction in "[0-9]{0,20}", suffix in 0_usize..16,
    ) {
        use num_rational::BigRational;
        const SUFFIXES: [(&str, u64, i32); 16] = [
            ("n", 10, -9), ("u", 10, -6), ("m", 10, -3), ("", 10, 0), ("k", 10, 3), ("M", 10, 6),
            ("G", 10, 9), ("Ki", 2, 10), ("Mi", 2, 20), ("Gi", 2, 30), ("Ti", 2, 40), ("Pi", 2, 50),
            ("Ei", 2, 60), ("e-2", 10, -2), ("E+5", 10, 5), ("e1", 10, 1),
        ];
        let (name, base, power) = SUFFIXES[suffix];
        let rational = |n: u64| BigRational::from_integer(n.into());
        let digits: num_bigint::BigInt = format!("0{whole}{fraction}").parse().unwrap();
        let exact = BigRational::from_integer(digits)
            * rational(base).pow(power)
            / rational(10).pow(i32::try_from(fraction.len()).unwrap())
            * rational(1_000_000_000);
        let max = BigRational::from_integer(super::MAX_NANO.into());
        let expected = exact.ceil().min(max).to_integer();
        let quantity = Quantity::parse(&format!("{whole}.{fraction}{name}")).unwrap();
        prop_assert_eq!(num_bigint::BigInt::from(quantity.nano), expected);
    }
}
