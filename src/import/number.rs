//! Decimal numbers of a cell, exactly: `0.46`, `16384`. No floats, no exponents, no signs.

use crate::domain::quantity::Quantity;

/// `digits ÷ 10^decimals`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    digits: i128,
    decimals: u32,
}

/// More decimals than a quantity can have digits (64 bytes of text).
const MAX_DECIMALS: u32 = 64;

impl Decimal {
    /// One: the product of nothing.
    pub(super) const ONE: Self = Self { digits: 1, decimals: 0 };

    /// Reads digits with at most one point among them; spaces around them do not count.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim_matches([' ', '\t']);
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let fraction = fraction.trim_end_matches('0');
        match text.bytes().find(|b| !b.is_ascii_digit() && *b != b'.') {
            _ if text.is_empty() => return Err("is empty; write 0 if zero is meant".into()),
            Some(b'-') => return Err("is negative; amounts and times are 0 or more".into()),
            Some(_) => return Err("is no number; write digits like 1500 or 0.25".into()),
            None if fraction.contains('.') || text == "." => {
                return Err("is no number; write digits like 1500 or 0.25".into());
            }
            None => {}
        }
        let digits = whole
            .bytes()
            .chain(fraction.bytes())
            .try_fold(0_i128, |n, b| n.checked_mul(10)?.checked_add(i128::from(b - b'0')));
        let decimals = u32::try_from(fraction.len()).ok().filter(|n| *n <= MAX_DECIMALS);
        let number = digits.zip(decimals).map(|(digits, decimals)| Self { digits, decimals });
        number.ok_or_else(|| "has too many digits; amounts and times need fewer than 38".into())
    }

    /// The product; `None` beyond 128 bits or [`MAX_DECIMALS`].
    pub(super) fn times(self, other: Self) -> Option<Self> {
        let decimals = self.decimals.checked_add(other.decimals).filter(|n| *n <= MAX_DECIMALS)?;
        Some(Self { digits: self.digits.checked_mul(other.digits)?, decimals })
    }

    pub(super) const fn is_zero(self) -> bool {
        self.digits == 0
    }

    /// The number, if it is whole.
    pub(super) fn whole(self) -> Option<i64> {
        (self.decimals == 0).then_some(self.digits).and_then(|n| i64::try_from(n).ok())
    }

    /// So many thousandths, if it is a whole number of them.
    pub(super) fn thousandths(self) -> Option<i64> {
        let scaled = self.digits.checked_mul(1000)?;
        let unit = 10_i128.checked_pow(self.decimals)?;
        (scaled % unit == 0).then_some(scaled / unit).and_then(|n| i64::try_from(n).ok())
    }

    /// The quantity with this number before `unit` (`m`, `Mi`, nothing), rounded up to thousandths.
    pub(super) fn quantity(self, unit: &str) -> Result<Quantity, String> {
        let quantity = Quantity::parse_declared(&format!("{self}{unit}"));
        quantity.map(Quantity::rounded_up).map_err(|e| e.to_string())
    }
}

impl std::fmt::Display for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let decimals = self.decimals as usize;
        let digits = format!("{:0>1$}", self.digits, decimals + 1);
        let (whole, fraction) = digits.split_at(digits.len() - decimals);
        let point = if fraction.is_empty() { "" } else { "." };
        write!(f, "{whole}{point}{fraction}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(cells: &[&str], unit: &str) -> Result<String, String> {
        let mut product = Decimal::ONE;
        for cell in cells {
            product = product.times(Decimal::parse(cell)?).ok_or("too large")?;
        }
        product.quantity(unit).map(|q| q.to_string())
    }

    #[test]
    fn products_are_exact() {
        for (cells, unit, quantity) in [
            (&["2", "1000"][..], "m", "2"),
            (&["1", "460"], "m", "460m"),
            (&["0.1", "0.2", "0.3"], "", "6m"),
            (&["0.1", "0.1", "0.1", "0.1"], "", "1m"),
            (&["16384"], "Mi", "16Gi"),
            (&[" 12000 "], "m", "12"),
            (&["0", "1000"], "m", "0"),
            (&["1.50"], "", "1500m"),
        ] {
            assert_eq!(product(cells, unit).as_deref(), Ok(quantity), "{cells:?} {unit}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused_by_name() {
        for cell in
            ["", " ", ".", "1.2.3", "1..2", "-1", "+1", "1e3", "0x10", "NaN", "1,5", "١", "1 2"]
        {
            assert!(Decimal::parse(cell).is_err(), "{cell:?}");
        }
        assert!(Decimal::parse(&"9".repeat(40)).is_err());
        assert!(product(&["99999999999999999999"], "").is_err(), "beyond 2⁶³");
        let long = "9".repeat(30);
        assert_eq!(product(&[&long, &long], ""), Err("too large".into()));
        assert!(
            product(&[&format!("0.{}1", "0".repeat(37)), &format!("0.{}1", "0".repeat(37))], "")
                .is_err()
        );
    }

    #[test]
    fn thousandths_are_whole_or_none() {
        for (text, thousandths) in
            [("12.5", Some(12_500)), ("0.001", Some(1)), ("0.0001", None), ("1.0000", Some(1000))]
        {
            assert_eq!(Decimal::parse(text).unwrap().thousandths(), thousandths, "{text}");
        }
        assert_eq!(Decimal::parse(&"9".repeat(30)).unwrap().thousandths(), None);
    }
}
