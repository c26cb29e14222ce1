//! Numbers and truth values.

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
    /// `None` when it is past all bounds.
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

/// An unsigned fixed-point number with this many bits of fraction, as the integer that holds it:
/// `0.5` is 32768 with 16 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UFixed<const BITS: u32>(pub u32);

/// A signed fixed-point number with this many bits of fraction; see [`UFixed`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fixed<const BITS: u32>(pub i32);

/// An unsigned number with this many decimals, as the integer that holds it: `0.5` is 500 with
/// three decimals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UDecimal<const DIGITS: u32>(pub u32);

/// A signed number with this many decimals; see [`UDecimal`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Decimal<const DIGITS: u32>(pub i32);

impl<const BITS: u32> Arg for UFixed<BITS> {
    const EXPECTS: &'static str = "an unsigned real number";

    fn parse(text: &ArgText, _: &Scope<'_>) -> Result<Self, ArgError> {
        let real = Real::parse(text.as_str(), false).ok_or_else(ArgError::default)?;
        let value = real.scale(1 << BITS, 0).and_then(|v| v.try_into().ok());
        let bound = f64::from(u32::MAX) / 2f64.powi(BITS as i32);
        Ok(Self(value.ok_or_else(|| out_of_range(bound))?))
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

impl<const BITS: u32> Arg for Fixed<BITS> {
    const EXPECTS: &'static str = "a real number";

    fn parse(text: &ArgText, _: &Scope<'_>) -> Result<Self, ArgError> {
        let real = Real::parse(text.as_str(), true).ok_or_else(ArgError::default)?;
        let value = real.scale(1 << BITS, 0).and_then(|v| v.try_into().ok());
        let bound = f64::from(if real.negative { i32::MIN } else { i32::MAX });
        Ok(Self(value.ok_or_else(|| out_of_range(bound / 2f64.powi(BITS as i32)))?))
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
        Ok(Self(value.ok_or_else(|| ArgError::new("out of range"))?))
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
        Ok(Self(value.ok_or_else(|| ArgError::new("out of range"))?))
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

fn out_of_range(bound: f64) -> ArgError {
    ArgError::new(format!("out of range, bound {bound}"))
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

    /// Appends a digit. More than 30 significant digits cannot change a result, but for their
    /// number.
    fn push(&mut self, digit: u8, fraction: bool) {
        if self.digits < 10i128.pow(29) {
            self.digits = self.digits * 10 + i128::from(digit);
            self.exponent = self.exponent.saturating_sub(fraction.into());
        } else {
            self.exponent = self.exponent.saturating_add((!fraction).into());
        }
    }

    /// The nearest integer to this number times `factor` times `10^power`, ties away from zero;
    /// `None` when that is past all bounds.
    pub(super) fn scale(&self, factor: u64, power: i32) -> Option<i128> {
        let exponent = self.exponent.saturating_add(power);
        let ten = |power: u32| 10i128.checked_pow(power);
        let product = || self.digits.checked_mul(factor.into());
        let magnitude = if self.digits == 0 || factor == 0 {
            0
        } else if exponent >= 0 {
            product()?.checked_mul(ten(exponent.unsigned_abs())?)?
        } else {
            match ten(exponent.unsigned_abs()) {
                // The digits are below 10^30: with this divisor, only zero is near.
                None => 0,
                Some(divisor) => match product() {
                    Some(product) => divide(product, divisor),
                    // Too long a mantissa for the factor: give up digits that do not count.
                    None => divide(
                        divide(self.digits, 1_000_000_000).checked_mul(factor.into())?,
                        (divisor / 1_000_000_000).max(1),
                    ),
                },
            }
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
