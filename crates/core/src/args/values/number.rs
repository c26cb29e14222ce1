//! Numbers and booleans.

use std::fmt;

use crate::args::{Arg, ArgError, ArgText, Scope};

macro_rules! integer {
    ($($type:ty: $expects:literal, $min:expr;)*) => {$(
        impl Arg for $type {
            const EXPECTS: &'static str = $expects;

            fn parse(text: &ArgText, _: &Scope<'_>) -> Result<Self, ArgError> {
                let number = Integer::parse(text.as_str(), $min < 0).ok_or_else(ArgError::default)?;
                let bound = if number.negative { <$type>::MIN } else { <$type>::MAX };
                let value = number.value().and_then(|value| value.try_into().ok());
                value.ok_or_else(|| ArgError::new(format!("out of range, bound {bound}")))
            }

            fn placeholder() -> Self {
                Self::default()
            }
        }
    )*};
}

integer! {
    u8: "an integer between 0 and 255", 0;
    u16: "an integer between 0 and 65535", 0;
    u32: "an unsigned integer", 0;
    u64: "an unsigned integer", 0;
    usize: "an unsigned integer", 0;
    i8: "an integer between -128 and 127", -1;
    i16: "an integer between -32768 and 32767", -1;
    i32: "an integer", -1;
    i64: "an integer", -1;
}

/// An integer as written: decimal, hexadecimal (`0x`), octal (`0`) or binary (`0b`), with `_`
/// allowed between digits.
pub(super) struct Integer {
    pub(super) negative: bool,
    /// `None` when it is out of all bounds.
    magnitude: Option<u64>,
}

impl Integer {
    pub(super) fn parse(text: &str, signed: bool) -> Option<Self> {
        let negative = signed && text.starts_with('-');
        let digits = if negative { text.get(1..)? } else { text.strip_prefix('+').unwrap_or(text) };
        let (digits, radix) = match digits.as_bytes() {
            [b'0', b'x' | b'X', _, ..] => (digits.get(2..)?, 16),
            [b'0', b'b' | b'B', _, ..] => (digits.get(2..)?, 2),
            [b'0', _, ..] => (digits, 8),
            _ => (digits, 10),
        };
        Some(Self { negative, magnitude: magnitude(digits, radix)? })
    }

    pub(super) fn value(&self) -> Option<i128> {
        let magnitude = i128::from(self.magnitude?);
        Some(if self.negative { -magnitude } else { magnitude })
    }
}

/// The value of digits, `Some(None)` when it does not fit.
fn magnitude(digits: &str, radix: u32) -> Option<Option<u64>> {
    let mut value = Some(0u64);
    let mut after_digit = false;
    for c in digits.chars() {
        if c == '_' && after_digit {
            after_digit = false;
            continue;
        }
        let digit = u64::from(c.to_digit(radix)?);
        value = value.and_then(|v| v.checked_mul(radix.into())?.checked_add(digit));
        after_digit = true;
    }
    after_digit.then_some(value)
}

/// `true`, `yes`, `t`, `y`, `1`; `false`, `no`, `f`, `n`, `0`.
impl Arg for bool {
    const EXPECTS: &'static str = "true or false";

    fn parse(text: &ArgText, _: &Scope<'_>) -> Result<Self, ArgError> {
        match text.as_str() {
            "true" | "yes" | "t" | "y" | "1" => Ok(true),
            "false" | "no" | "f" | "n" | "0" => Ok(false),
            _ => Err(ArgError::default()),
        }
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

impl Arg for f64 {
    const EXPECTS: &'static str = "a number";

    fn parse(text: &ArgText, _: &Scope<'_>) -> Result<Self, ArgError> {
        let text = text.as_str();
        let value: f64 = text.parse().map_err(|_| ArgError::default())?;
        let digits = || text.bytes().take_while(|b| !matches!(b, b'e' | b'E'));
        if value.is_infinite() && digits().any(|b| b.is_ascii_digit()) {
            return Err(ArgError::new(format!("out of range, bound {value}")));
        }
        if value == 0.0 && digits().any(|b| matches!(b, b'1'..=b'9')) {
            return Err(ArgError::new("underflow, rounded to 0"));
        }
        Ok(value)
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

/// An unsigned fixed-point number with this many fraction bits, stored as an integer: `0.5` is 32768 with 16
/// bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UFixed<const BITS: u32>(pub u32);

/// A signed fixed-point number with this many fraction bits; see [`UFixed`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fixed<const BITS: u32>(pub i32);

/// An unsigned number with this many decimals, stored as an integer: `0.5` is 500 with three decimals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UDecimal<const DIGITS: u32>(pub u32);

/// A signed number with this many decimals; see [`UDecimal`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Decimal<const DIGITS: u32>(pub i32);

impl<const BITS: u32> Arg for UFixed<BITS> {
    const EXPECTS: &'static str = "an unsigned real number";

    fn parse(text: &ArgText, _: &Scope<'_>) -> Result<Self, ArgError> {
        let real = Real::parse(text.as_str(), false).ok_or_else(ArgError::default)?;
        let value = real.scale(const { one(BITS) }, 0).and_then(|v| v.try_into().ok());
        value.map(Self).ok_or_else(|| out_of_range(Self(u32::MAX)))
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

impl<const BITS: u32> Arg for Fixed<BITS> {
    const EXPECTS: &'static str = "a real number";

    fn parse(text: &ArgText, _: &Scope<'_>) -> Result<Self, ArgError> {
        let real = Real::parse(text.as_str(), true).ok_or_else(ArgError::default)?;
        let value = real.scale(const { one(BITS) }, 0).and_then(|v| v.try_into().ok());
        let bound = Self(if real.negative { i32::MIN } else { i32::MAX });
        value.map(Self).ok_or_else(|| out_of_range(bound))
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

impl<const DIGITS: u32> Arg for UDecimal<DIGITS> {
    const EXPECTS: &'static str = "an unsigned real number";

    fn parse(text: &ArgText, _: &Scope<'_>) -> Result<Self, ArgError> {
        let real = Real::parse(text.as_str(), false).ok_or_else(ArgError::default)?;
        let value = real.scale(1, DIGITS as i32).and_then(|v| v.try_into().ok());
        value.map(Self).ok_or_else(|| out_of_range(Self(u32::MAX)))
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

impl<const DIGITS: u32> Arg for Decimal<DIGITS> {
    const EXPECTS: &'static str = "a real number";

    fn parse(text: &ArgText, _: &Scope<'_>) -> Result<Self, ArgError> {
        let real = Real::parse(text.as_str(), true).ok_or_else(ArgError::default)?;
        let value = real.scale(1, DIGITS as i32).and_then(|v| v.try_into().ok());
        let bound = Self(if real.negative { i32::MIN } else { i32::MAX });
        value.map(Self).ok_or_else(|| out_of_range(bound))
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

/// One, as a fixed-point number.
const fn one(bits: u32) -> u64 {
    assert!(bits <= 32, "the numbers have 32 bits");
    1 << bits
}

fn out_of_range(bound: impl fmt::Display) -> ArgError {
    ArgError::new(format!("out of range, bound {bound}"))
}

/// With the fewest decimals that identify the value.
impl<const BITS: u32> fmt::Display for UFixed<BITS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_binary(f, self.0, BITS)
    }
}

/// With the fewest decimals that identify the value.
impl<const BITS: u32> fmt::Display for Fixed<BITS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 < 0 { "-" } else { "" })?;
        write_binary(f, self.0.unsigned_abs(), BITS)
    }
}

/// With the fewest decimals that identify the value.
impl<const DIGITS: u32> fmt::Display for UDecimal<DIGITS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0.into(), DIGITS)
    }
}

/// With the fewest decimals that identify the value.
impl<const DIGITS: u32> fmt::Display for Decimal<DIGITS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 < 0 { "-" } else { "" })?;
        write_decimal(f, self.0.unsigned_abs().into(), DIGITS)
    }
}

/// Writes `value / 2^bits` with the fewest decimals that round to it.
fn write_binary(f: &mut fmt::Formatter<'_>, value: u32, bits: u32) -> fmt::Result {
    let one = 1i128 << bits;
    let fits = |digits: u32| {
        let ten = 10i128.pow(digits);
        let decimal = divide(i128::from(value) * ten, one);
        (divide(decimal * one, ten) == value.into()).then_some((decimal, digits))
    };
    // Ten decimals tell apart all values of 32 bits.
    let (decimal, digits) = (0..=10).find_map(fits).unwrap_or_default();
    write_decimal(f, decimal.unsigned_abs(), digits)
}

/// Writes `value / 10^decimals` without trailing zeros.
pub(super) fn write_decimal(f: &mut fmt::Formatter<'_>, value: u128, decimals: u32) -> fmt::Result {
    let one = 10u128.pow(decimals);
    write!(f, "{}", value / one)?;
    if value.is_multiple_of(one) {
        return Ok(());
    }
    let fraction = format!("{:0width$}", value % one, width = decimals as usize);
    write!(f, ".{}", fraction.trim_end_matches('0'))
}

/// A real number as written, exactly: `digits * 10^exponent`.
pub(super) struct Real {
    negative: bool,
    digits: i128,
    exponent: i32,
}

impl Real {
    /// Digits with at most one point among them, `_` between digits, and an exponent of ten.
    pub(super) fn parse(text: &str, signed: bool) -> Option<Self> {
        let negative = signed && text.starts_with('-');
        let text = if negative { text.get(1..)? } else { text.strip_prefix('+').unwrap_or(text) };
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
            None => (text, 0),
        };
        let mut real = Self { negative, digits: 0, exponent };
        let (mut any, mut point, mut after_digit) = (false, false, false);
        for b in mantissa.bytes() {
            match b {
                b'_' if after_digit => after_digit = false,
                b'.' if !point && (after_digit || !any) => (point, after_digit) = (true, false),
                b'0'..=b'9' => {
                    real.push(b - b'0', point);
                    (any, after_digit) = (true, true);
                }
                _ => return None,
            }
        }
        let ends_well = after_digit || (point && mantissa.ends_with('.'));
        (any && ends_well).then_some(real)
    }

    /// Appends a digit. Digits after the first 24 cannot change a result that fits into 64 bits;
    /// only their number counts.
    fn push(&mut self, digit: u8, fraction: bool) {
        if self.digits < 10i128.pow(24) {
            self.digits = self.digits * 10 + i128::from(digit);
            self.exponent = self.exponent.saturating_sub(fraction.into());
        } else {
            self.exponent = self.exponent.saturating_add((!fraction).into());
        }
    }

    /// The nearest integer to this number times `factor` times `10^power`, ties away from zero; `None` when
    /// that is out of all bounds.
    pub(super) fn scale(&self, factor: u64, power: i32) -> Option<i128> {
        let exponent = self.exponent.saturating_add(power);
        let ten = 10i128.checked_pow(exponent.unsigned_abs());
        let product = self.digits.checked_mul(factor.into())?;
        let magnitude = match ten {
            _ if product == 0 => 0,
            Some(ten) if exponent >= 0 => product.checked_mul(ten)?,
            None if exponent >= 0 => return None,
            Some(ten) => divide(product, ten),
            // The divisor is past 10^38, the dividend is not.
            None => 0,
        };
        Some(if self.negative { -magnitude } else { magnitude })
    }
}

/// The nearest integer to a quotient of positive numbers, ties upwards.
fn divide(dividend: i128, divisor: i128) -> i128 {
    let quotient = dividend / divisor;
    let remainder = dividend % divisor;
    quotient + i128::from(remainder >= divisor - remainder)
}

fn parse_exponent(text: &str) -> Option<i32> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let magnitude = digits.parse().unwrap_or(i32::MAX);
    Some(if text.starts_with('-') { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::values::tests::{accepts, rejects, rereads};
    use proptest::prelude::*;

    #[test]
    fn integers_have_clicks_notations() {
        accepts("0", 0u8);
        accepts("+255", 255u8);
        accepts("0xfF", 255u8);
        accepts("010", 8u8);
        accepts("0b101", 5u8);
        accepts("1_000", 1000u32);
        accepts("-0x10", -16i32);
        accepts("-128", -128i8);
        accepts("9223372036854775807", i64::MAX);
        accepts("-9223372036854775808", i64::MIN);
        accepts("18446744073709551615", u64::MAX);
        for wrong in ["-1", "08", "0x", "0xg", "1 2", "1.0", "_1", "1_", "1__0", "a", "+", "٣"] {
            rejects::<u32>(wrong, "parse error");
        }
        for wrong in ["--1", "-", "+-1", "- 1"] {
            rejects::<i32>(wrong, "parse error");
        }
    }

    #[test]
    fn integers_have_bounds() {
        rejects::<u8>("256", "out of range, bound 255");
        rejects::<u16>("0x10000", "out of range, bound 65535");
        rejects::<u32>("4294967296", "out of range, bound 4294967295");
        rejects::<i8>("128", "out of range, bound 127");
        rejects::<i8>("-129", "out of range, bound -128");
        rejects::<u64>("18446744073709551616", "out of range, bound 18446744073709551615");
        rejects::<i64>("-9999999999999999999999999", "out of range, bound -9223372036854775808");
        rejects::<u32>(&"9".repeat(10_000), "out of range, bound 4294967295");
    }

    #[test]
    fn truth_has_few_words() {
        for word in ["true", "yes", "t", "y", "1"] {
            accepts(word, true);
        }
        for word in ["false", "no", "f", "n", "0"] {
            accepts(word, false);
        }
        for wrong in ["True", "on", "2", "nope", "\"yes\""] {
            rejects::<bool>(wrong, "parse error");
        }
    }

    #[test]
    fn floating_point_numbers_are_read_whole() {
        accepts("1.5e3", 1500.0);
        accepts("-.5", -0.5);
        rejects::<f64>("1e999", "out of range, bound inf");
        rejects::<f64>("-1e999", "out of range, bound -inf");
        rejects::<f64>("1e-999", "underflow, rounded to 0");
        rejects::<f64>("1.5x", "parse error");
        rejects::<f64>("0x10", "parse error");
    }

    #[test]
    fn fixed_point_numbers_round_to_the_nearest() {
        accepts("0.5", UFixed::<16>(0x8000));
        accepts(".5", UFixed::<16>(0x8000));
        accepts("5e-1", UFixed::<16>(0x8000));
        accepts("1.", UFixed::<16>(0x10000));
        accepts("65535.99999", UFixed::<16>(u32::MAX));
        accepts("0.3", UFixed::<28>(80530637));
        accepts("-1.25", Fixed::<8>(-320));
        accepts("-0.001", Fixed::<8>(0));
        accepts("0.0019531250000000000000000000000000", UFixed::<8>(1));
        accepts("0.0019531249999999999999999999999999", UFixed::<8>(0));
        accepts("1e-400", UFixed::<8>(0));
        accepts("0e400", UFixed::<8>(0));
        accepts("0.5", UFixed::<32>(0x8000_0000));
        rejects::<UFixed<16>>("65536", "out of range, bound 65535.99998");
        rejects::<Fixed<16>>("-32769", "out of range, bound -32768");
        rejects::<UFixed<16>>("1e400", "out of range, bound 65535.99998");
        for wrong in ["", ".", "1..2", "1.2.3", "e5", "1e", "1e+", "-1", "1_.5", "_1", "1 2", "0x1"]
        {
            rejects::<UFixed<16>>(wrong, "parse error");
        }
    }

    #[test]
    fn decimals_round_to_the_nearest() {
        accepts("1.2345", UDecimal::<3>(1235));
        accepts("1.23449999", UDecimal::<3>(1234));
        accepts("-1.2345", Decimal::<3>(-1235));
        accepts("1_000.5", UDecimal::<1>(10005));
        accepts("12e2", UDecimal::<0>(1200));
        rejects::<UDecimal<3>>("4294967.296", "out of range, bound 4294967.295");
        rejects::<Decimal<3>>("-2147483.649", "out of range, bound -2147483.648");
    }

    proptest! {
        #[test]
        fn numbers_print_as_they_are_read(bits: u32) {
            rereads(bits);
            rereads(bits as i32);
            rereads(u64::from(bits) << 31);
            rereads(UFixed::<16>(bits));
            rereads(UFixed::<32>(bits));
            rereads(UFixed::<0>(bits));
            rereads(Fixed::<28>(bits as i32));
            rereads(UDecimal::<9>(bits));
            rereads(Decimal::<3>(bits as i32));
        }

        #[test]
        fn fixed_point_agrees_with_floating_point(value in 0.0..65535.0f64) {
            let text = format!("{value:.12}");
            let read: UFixed<16> = crate::args::parse(&text, &Scope::builtin()).unwrap();
            prop_assert!((f64::from(read.0) - value * 65536.0).abs() <= 0.5 + 1e-6);
        }

        #[test]
        fn no_text_is_too_much(text in "[-+]?[0-9._eExb]{0,60}") {
            let text = text.as_str().into();
            let _ = u64::parse(&text, &Scope::builtin());
            let _ = Fixed::<31>::parse(&text, &Scope::builtin());
            let _ = UDecimal::<9>::parse(&text, &Scope::builtin());
        }
    }
}
