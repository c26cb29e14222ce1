//! The functions that scripts compute with: arithmetic, comparison, text. They are read handlers
//! with parameters of every script.

use std::cmp::Ordering;
use std::fmt::Write;

use millrace_core::element::{IntoText, Text};
use millrace_lang::config::{quote, split_words, unquote};

/// A function of a parameter text.
pub(super) type Function = fn(&str) -> Result<Text, String>;

/// The functions by name.
pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("add", |text| fold(text, |a, b| a.apply(b, i64::checked_add, |a, b| a + b))),
    ("sub", |text| fold(text, |a, b| a.apply(b, i64::checked_sub, |a, b| a - b))),
    ("mul", |text| fold(text, |a, b| a.apply(b, i64::checked_mul, |a, b| a * b))),
    ("min", |text| fold(text, |a, b| if a.real() <= b.real() { a } else { b })),
    ("max", |text| fold(text, |a, b| if a.real() >= b.real() { a } else { b })),
    ("div", |text| Ok(divide(text)?.into_text())),
    ("idiv", |text| Ok(divide(text)?.truncated().into_text())),
    ("mod", modulo),
    ("rem", remainder),
    ("neg", |text| Ok(one(text)?.negated().into_text())),
    ("abs", |text| Ok(one(text)?.absolute().into_text())),
    ("avg", average),
    ("count", |text| Ok(words(text).len().into_text())),
    ("eq", |text| compare(text, Ordering::is_eq)),
    ("ne", |text| compare(text, Ordering::is_ne)),
    ("gt", |text| compare(text, Ordering::is_gt)),
    ("ge", |text| compare(text, Ordering::is_ge)),
    ("lt", |text| compare(text, Ordering::is_lt)),
    ("le", |text| compare(text, Ordering::is_le)),
    ("not", |text| Ok((!truth(text.trim())?).into_text())),
    ("and", |text| all(text).map(IntoText::into_text)),
    ("nand", |text| all(text).map(|all| (!all).into_text())),
    ("or", |text| any(text).map(IntoText::into_text)),
    ("nor", |text| any(text).map(|any| (!any).into_text())),
    ("if", choose),
    ("in", |text| {
        let words = words(text);
        let (first, rest) = words.split_first().ok_or("expected a word and others")?;
        Ok(rest.contains(first).into_text())
    }),
    ("first", |text| Ok(words(text).into_iter().next().unwrap_or_default())),
    ("nth", nth),
    ("sort", sort),
    ("length", |text| Ok(text.len().into_text())),
    ("unquote", |text| Ok(unquote(text))),
    ("sprintf", sprintf),
    ("cat", read_file),
    ("catq", |text| Ok(quote(&read_file(text)?).into_bytes())),
];

/// Reads a truth value.
pub(super) fn truth(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "y" | "t" | "1" => Ok(true),
        "false" | "no" | "n" | "f" | "0" => Ok(false),
        _ => Err(format!("expected a Boolean, not ‘{text}’")),
    }
}

/// An integer as long as it can be one.
#[derive(Clone, Copy, Debug)]
enum Number {
    Integer(i64),
    Real(f64),
}

impl Number {
    fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?.trim();
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let magnitude = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            Some(hex) => i64::from_str_radix(hex, 16).ok(),
            None => digits.parse().ok(),
        };
        let signed = magnitude.filter(|_| digits.starts_with(|c: char| c.is_ascii_digit()));
        match signed {
            Some(magnitude) => Some(Self::Integer(if negative { -magnitude } else { magnitude })),
            None => text.parse().ok().filter(|real: &f64| real.is_finite()).map(Self::Real),
        }
    }

    fn real(self) -> f64 {
        match self {
            Self::Integer(integer) => integer as f64,
            Self::Real(real) => real,
        }
    }

    /// An operation on integers that may overflow into one on reals.
    fn apply(
        self,
        other: Self,
        integers: fn(i64, i64) -> Option<i64>,
        reals: fn(f64, f64) -> f64,
    ) -> Self {
        let exact = match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => integers(a, b),
            _ => None,
        };
        exact.map_or_else(|| Self::Real(reals(self.real(), other.real())), Self::Integer)
    }

    fn truncated(self) -> Self {
        match self {
            Self::Integer(_) => self,
            Self::Real(real) => Self::Integer(real.trunc() as i64),
        }
    }

    fn negated(self) -> Self {
        Self::Integer(0).apply(self, i64::checked_sub, |_, real| -real)
    }

    fn absolute(self) -> Self {
        if self.real() < 0.0 { self.negated() } else { self }
    }
}

impl IntoText for Number {
    fn into_text(self) -> Text {
        match self {
            Self::Integer(integer) => integer.into_text(),
            Self::Real(real) => real.into_text(),
        }
    }
}

/// The words of a text, a layer of quotes removed from each.
pub(super) fn words(text: &str) -> Vec<Text> {
    split_words(text).iter().map(|word| unquote(word.text)).collect()
}

fn numbers(text: &str) -> Result<Vec<Number>, String> {
    let number = |word: &Text| {
        Number::parse(word)
            .ok_or_else(|| format!("expected a number, not ‘{}’", String::from_utf8_lossy(word)))
    };
    words(text).iter().map(number).collect()
}

fn one(text: &str) -> Result<Number, String> {
    match numbers(text)?.as_slice() {
        [number] => Ok(*number),
        _ => Err("expected one number".to_owned()),
    }
}

fn two(text: &str) -> Result<(Number, Number), String> {
    match numbers(text)?.as_slice() {
        [a, b] => Ok((*a, *b)),
        _ => Err("expected two numbers".to_owned()),
    }
}

fn fold(text: &str, join: fn(Number, Number) -> Number) -> Result<Text, String> {
    let numbers = numbers(text)?;
    Ok(numbers.into_iter().reduce(join).unwrap_or(Number::Integer(0)).into_text())
}

fn divide(text: &str) -> Result<Number, String> {
    let numbers = numbers(text)?;
    let mut quotient = *numbers.first().ok_or("expected numbers")?;
    for &divisor in &numbers[1..] {
        if divisor.real() == 0.0 {
            return Err("division by zero".to_owned());
        }
        let exact = |a: i64, b: i64| a.checked_rem(b).filter(|rest| *rest == 0).map(|_| a / b);
        quotient = quotient.apply(divisor, exact, |a, b| a / b);
    }
    Ok(quotient)
}

fn modulo(text: &str) -> Result<Text, String> {
    match two(text)? {
        (Number::Integer(_), Number::Integer(0)) => Err("division by zero".to_owned()),
        (Number::Integer(a), Number::Integer(b)) => Ok(a.wrapping_rem(b).into_text()),
        _ => Err("expected two integers".to_owned()),
    }
}

fn remainder(text: &str) -> Result<Text, String> {
    let (a, b) = two(text)?;
    if b.real() == 0.0 {
        return Err("division by zero".to_owned());
    }
    Ok(a.apply(b, i64::checked_rem, |a, b| a % b).into_text())
}

fn average(text: &str) -> Result<Text, String> {
    let numbers = numbers(text)?;
    if numbers.is_empty() {
        return Err("expected numbers".to_owned());
    }
    let sum: f64 = numbers.iter().map(|number| number.real()).sum();
    Ok((sum / numbers.len() as f64).into_text())
}

/// Compares as numbers if both are, else byte by byte.
fn compare(text: &str, holds: fn(Ordering) -> bool) -> Result<Text, String> {
    let words = words(text);
    let [a, b] = words.as_slice() else { return Err("expected two parameters".to_owned()) };
    let order = match (Number::parse(a), Number::parse(b)) {
        (Some(Number::Integer(a)), Some(Number::Integer(b))) => a.cmp(&b),
        (Some(a), Some(b)) => a.real().total_cmp(&b.real()),
        _ => a.cmp(b),
    };
    Ok(holds(order).into_text())
}

fn truths(text: &str) -> Result<Vec<bool>, String> {
    words(text).iter().map(|word| truth(&String::from_utf8_lossy(word))).collect()
}

fn all(text: &str) -> Result<bool, String> {
    Ok(truths(text)?.into_iter().all(|truth| truth))
}

fn any(text: &str) -> Result<bool, String> {
    Ok(truths(text)?.into_iter().any(|truth| truth))
}

fn choose(text: &str) -> Result<Text, String> {
    let words = words(text);
    let [condition, yes, no] = words.as_slice() else {
        return Err("expected a Boolean and two values".to_owned());
    };
    let yes_holds = truth(&String::from_utf8_lossy(condition))?;
    Ok(if yes_holds { yes.clone() } else { no.clone() })
}

fn nth(text: &str) -> Result<Text, String> {
    let words = words(text);
    let (index, rest) = words.split_first().ok_or("expected a number and words")?;
    match Number::parse(index) {
        Some(Number::Integer(index)) => {
            let index = usize::try_from(index).map_err(|_| "the number must not be negative")?;
            Ok(rest.get(index).cloned().unwrap_or_default())
        }
        _ => Err("expected a number and words".to_owned()),
    }
}

/// Sorts words: as numbers if all are, else byte by byte.
fn sort(text: &str) -> Result<Text, String> {
    let mut words = words(text);
    let keys: Option<Vec<f64>> =
        words.iter().map(|word| Number::parse(word).map(Number::real)).collect();
    match keys {
        Some(keys) => {
            let mut keyed: Vec<_> = keys.into_iter().zip(words).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            words = keyed.into_iter().map(|(_, word)| word).collect();
        }
        None => words.sort(),
    }
    Ok(words.join(&b' '))
}

fn read_file(text: &str) -> Result<Text, String> {
    let name = String::from_utf8_lossy(&unquote(text.trim())).into_owned();
    std::fs::read(&name).map_err(|error| format!("{name}: {error}"))
}

/// `%d %i %u %x %X %o %c %s %f %e %g %%` with flags, width and precision.
fn sprintf(text: &str) -> Result<Text, String> {
    let words = words(text);
    let (format, values) = words.split_first().ok_or("expected a format")?;
    let format = String::from_utf8_lossy(format);
    let mut values = values.iter();
    let mut out = Text::new();
    let mut rest = format.as_ref();
    while let Some(at) = rest.find('%') {
        out.extend(rest[..at].bytes());
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push(b'%');
            rest = after;
            continue;
        }
        let (directive, after) = Directive::parse(rest)?;
        let value = values.next().ok_or("too few parameters for the format")?;
        out.extend(directive.format(value)?);
        rest = after;
    }
    out.extend(rest.bytes());
    if values.next().is_some() {
        return Err("too many parameters for the format".to_owned());
    }
    Ok(out)
}

/// One `%...` of a format.
struct Directive {
    left: bool,
    zeros: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
    kind: char,
}

impl Directive {
    const WIDEST: usize = 4096;

    fn parse(text: &str) -> Result<(Self, &str), String> {
        let flags_end = text.find(|c| !"-0+ #".contains(c)).unwrap_or(text.len());
        let (flags, rest) = text.split_at(flags_end);
        let (width, rest) = digits(rest);
        let (precision, rest) = match rest.strip_prefix('.') {
            Some(rest) => {
                let (precision, rest) = digits(rest);
                (Some(precision.unwrap_or(0)), rest)
            }
            None => (None, rest),
        };
        let rest = rest.trim_start_matches(['l', 'h', 'q']);
        let kind = rest.chars().next().ok_or("the format ends in a directive")?;
        if !"diuxXocsfeEgG".contains(kind) {
            return Err(format!("bad format directive ‘%{kind}’"));
        }
        let directive = Self {
            left: flags.contains('-'),
            zeros: flags.contains('0'),
            plus: flags.contains('+'),
            space: flags.contains(' '),
            alternate: flags.contains('#'),
            width: width.unwrap_or(0).min(Self::WIDEST),
            precision: precision.map(|precision| precision.min(Self::WIDEST)),
            kind,
        };
        Ok((directive, &rest[kind.len_utf8()..]))
    }

    fn format(&self, value: &[u8]) -> Result<Text, String> {
        if matches!(self.kind, 's' | 'c') {
            let most = if self.kind == 'c' { Some(1) } else { self.precision };
            let kept = most.and_then(|most| value.get(..most)).unwrap_or(value);
            return Ok(self.pad("", kept, false));
        }
        let number = Number::parse(value).ok_or_else(|| {
            format!("expected a number, not ‘{}’", String::from_utf8_lossy(value))
        })?;
        let integer = || match number.truncated() {
            Number::Integer(integer) => integer,
            Number::Real(real) => real as i64,
        };
        let negative = number.real() < 0.0;
        let sign = match (negative, self.plus, self.space) {
            (true, _, _) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        };
        let mut digits = String::new();
        // Writing to a string cannot fail.
        let (prefix, is_integer) = match self.kind {
            'd' | 'i' => {
                let _ = write!(digits, "{}", integer().unsigned_abs());
                (sign, true)
            }
            'u' => {
                let _ = write!(digits, "{}", integer() as u64);
                ("", true)
            }
            'x' => {
                let _ = write!(digits, "{:x}", integer());
                (if self.alternate { "0x" } else { "" }, true)
            }
            'X' => {
                let _ = write!(digits, "{:X}", integer());
                (if self.alternate { "0X" } else { "" }, true)
            }
            'o' => {
                let _ = write!(digits, "{:o}", integer());
                (if self.alternate { "0" } else { "" }, true)
            }
            'f' => {
                let precision = self.precision.unwrap_or(6);
                let _ = write!(digits, "{:.precision$}", number.real().abs());
                (sign, false)
            }
            'g' | 'G' => {
                digits = String::from_utf8_lossy(&number.real().abs().into_text()).into_owned();
                (sign, false)
            }
            _ => {
                let precision = self.precision.unwrap_or(6);
                let scientific = format!("{:.precision$e}", number.real().abs());
                let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
                let exponent: i32 = exponent.parse().unwrap_or(0);
                let sign_of = if exponent < 0 { '-' } else { '+' };
                let _ = write!(digits, "{mantissa}{}{sign_of}{:02}", self.kind, exponent.abs());
                (sign, false)
            }
        };
        if let Some(least) = self.precision.filter(|_| is_integer) {
            digits.insert_str(0, &"0".repeat(least.saturating_sub(digits.len())));
        }
        let zeros = self.zeros && !(is_integer && self.precision.is_some());
        Ok(self.pad(prefix, digits.as_bytes(), zeros))
    }

    fn pad(&self, prefix: &str, value: &[u8], zeros: bool) -> Text {
        let missing = self.width.saturating_sub(prefix.len() + value.len());
        let (before, between, after) = match (self.left, zeros) {
            (true, _) => (0, 0, missing),
            (false, true) => (0, missing, 0),
            (false, false) => (missing, 0, 0),
        };
        let mut out = vec![b' '; before];
        out.extend(prefix.bytes());
        out.extend(std::iter::repeat_n(b'0', between));
        out.extend(value);
        out.extend(std::iter::repeat_n(b' ', after));
        out
    }
}

fn digits(text: &str) -> (Option<usize>, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (text[..end].parse().ok(), &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, text: &str) -> Result<String, String> {
        let (_, function) = FUNCTIONS.iter().find(|(own, _)| *own == name).unwrap();
        function(text).map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn functions_compute() {
        for (name, text, expected) in [
            ("add", "10 5 2", "17"),
            ("add", "", "0"),
            ("add", "1.5 1", "2.5"),
            ("add", "9223372036854775807 1", "9.22337203685e+18"),
            ("sub", "10 5 2", "3"),
            ("mul", "3 -4", "-12"),
            ("div", "7 2", "3.5"),
            ("div", "8 2 2", "2"),
            ("idiv", "7 2", "3"),
            ("mod", "7 3", "1"),
            ("rem", "7.5 2", "1.5"),
            ("neg", "5", "-5"),
            ("abs", "-2.5", "2.5"),
            ("min", "5 10 2", "2"),
            ("max", "5 10 2", "10"),
            ("eq", "10 0xA", "true"),
            ("eq", "10x 10x", "true"),
            ("le", "9 8", "false"),
            ("lt", "abc abd", "true"),
            ("not", "false", "true"),
            ("and", "true 1 yes", "true"),
            ("nor", "false no", "true"),
            ("if", "true a b", "a"),
            ("in", "foo bar foo", "true"),
            ("first", "\"a b\" c", "a b"),
            ("nth", "1 a b c", "b"),
            ("sort", "10 9 1", "1 9 10"),
            ("sort", "b c a", "a b c"),
            ("length", "abcdef", "6"),
            ("sprintf", "\"%05x\" 127", "0007f"),
            ("sprintf", "'%-5d|%5.2f|%s|%%' 42 3.14159 x", "42   | 3.14|x|%"),
            ("sprintf", "%+d 7", "+7"),
        ] {
            assert_eq!(call(name, text).as_deref(), Ok(expected), "{name} {text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for (name, text) in [
            ("add", "1 x"),
            ("div", "1 0"),
            ("mod", "1.5 2"),
            ("mod", "1 0"),
            ("neg", "1 2"),
            ("eq", "1"),
            ("not", "maybe"),
            ("sprintf", "%d"),
            ("sprintf", "%k 1"),
            ("sprintf", "x 1"),
            ("cat", "/no/such/file"),
        ] {
            assert!(call(name, text).is_err(), "{name} {text}");
        }
    }
}
