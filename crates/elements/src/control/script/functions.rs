//! The functions that scripts compute with: arithmetic, comparison, text. They are read handlers, with parameters, of
//! every script.

use std::cmp::Ordering;
use std::fmt::Write;

use millrace_core::args::{self, Scope};
use millrace_core::element::{IntoText, Text};
use millrace_core::os_error_text;
use millrace_lang::config::{quote, split_words, unquote};

/// A function of a parameter text.
pub(super) type Function = fn(&str) -> Result<Text, String>;

/// The functions by name.
pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("add", |text| fold(text, 0, |a, b| a.apply(b, i64::wrapping_add, |a, b| a + b))),
    ("sub", |text| fold(text, 0, |a, b| a.apply(b, i64::wrapping_sub, |a, b| a - b))),
    ("mul", |text| fold(text, 1, |a, b| a.apply(b, i64::wrapping_mul, |a, b| a * b))),
    ("min", |text| fold(text, 1, |a, b| a.apply(b, i64::min, f64::min))),
    ("max", |text| fold(text, 1, |a, b| a.apply(b, i64::max, f64::max))),
    ("div", |text| Ok(divide(text)?.into_text())),
    ("idiv", |text| Ok(divide(text)?.truncated().into_text())),
    ("mod", modulo),
    ("rem", remainder),
    ("neg", |text| Ok(one(text)?.negated().into_text())),
    ("abs", |text| Ok(one(text)?.absolute().into_text())),
    ("ceil", |text| Ok(one(text)?.rounded(f64::ceil).into_text())),
    ("floor", |text| Ok(one(text)?.rounded(f64::floor).into_text())),
    ("round", |text| Ok(one(text)?.rounded(f64::round).into_text())),
    ("avg", average),
    ("count", |text| Ok(numbers(text)?.len().into_text())),
    ("popcount", |text| {
        let numbers = numbers(text)?;
        Ok(numbers.iter().filter(|number| number.real().abs() > 0.00001).count().into_text())
    }),
    ("gt_vec", greater),
    ("get_vec", at_index),
    ("eq", |text| compare(text, Ordering::is_eq)),
    ("ne", |text| compare(text, Ordering::is_ne)),
    ("gt", |text| compare(text, Ordering::is_gt)),
    ("ge", |text| compare(text, Ordering::is_ge)),
    ("lt", |text| compare(text, Ordering::is_lt)),
    ("le", |text| compare(text, Ordering::is_le)),
    ("not", |text| Ok((!boolean(text)?).into_text())),
    ("and", |text| all(text).map(IntoText::into_text)),
    ("nand", |text| all(text).map(|all| (!all).into_text())),
    ("or", |text| any(text).map(IntoText::into_text)),
    ("nor", |text| any(text).map(|any| (!any).into_text())),
    ("if", choose),
    ("in", |text| {
        let mut words = words(text).into_iter().map(unquote);
        let first = words.next().unwrap_or_default();
        Ok((!first.is_empty() && words.any(|word| word == first)).into_text())
    }),
    ("first", |text| Ok(words(text).first().copied().unwrap_or_default().into_text())),
    ("nth", nth),
    ("sort", sort),
    ("length", |text| Ok(text.len().into_text())),
    ("unquote", |text| Ok(unquote(text))),
    ("sprintf", sprintf),
    ("htons", |text| Ok(integer(text)?.to_be_as_short().into_text())),
    ("ntohs", |text| Ok(integer(text)?.to_be_as_short().into_text())),
    ("htonl", |text| Ok((integer(text)? as u32).to_be().into_text())),
    ("ntohl", |text| Ok((integer(text)? as u32).to_be().into_text())),
];

/// The functions that access the system outside the program, which control sockets do not serve.
pub(super) const PRIVATE_FUNCTIONS: &[(&str, Function)] =
    &[("cat", read_file), ("catq", |text| Ok(quote(&read_file(text)?).into_bytes()))];

/// Reads a truth value.
pub(super) fn truth(text: &str) -> Option<bool> {
    match text {
        "true" | "yes" | "y" | "t" | "1" => Some(true),
        "false" | "no" | "n" | "f" | "0" => Some(false),
        _ => None,
    }
}

/// The message of Click's functions for most invalid parameters.
const SYNTAX: &str = "syntax error";

fn boolean(text: &str) -> Result<bool, String> {
    truth(text.trim()).ok_or_else(|| SYNTAX.to_owned())
}

fn integer(text: &str) -> Result<i64, String> {
    match Number::parse(text) {
        Some(Number::Integer(integer)) => Ok(integer),
        _ => Err(SYNTAX.to_owned()),
    }
}

trait NetworkOrder {
    fn to_be_as_short(self) -> u16;
}

impl NetworkOrder for i64 {
    fn to_be_as_short(self) -> u16 {
        (self as u16).to_be()
    }
}

/// An integer where possible, else a real number.
#[derive(Clone, Copy, Debug)]
enum Number {
    Integer(i64),
    Real(f64),
}

impl Number {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        match args::parse(text, &Scope::builtin()) {
            Ok(integer) => Some(Self::Integer(integer)),
            Err(_) => text.parse().ok().filter(|real: &f64| real.is_finite()).map(Self::Real),
        }
    }

    fn real(self) -> f64 {
        match self {
            Self::Integer(integer) => integer as f64,
            Self::Real(real) => real,
        }
    }

    /// Applies the integer operation if both are integers, else the real one.
    fn apply(self, other: Self, integers: fn(i64, i64) -> i64, reals: fn(f64, f64) -> f64) -> Self {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => Self::Integer(integers(a, b)),
            _ => Self::Real(reals(self.real(), other.real())),
        }
    }

    fn truncated(self) -> Self {
        match self {
            Self::Integer(_) => self,
            Self::Real(real) => Self::Integer(real.trunc() as i64),
        }
    }

    fn negated(self) -> Self {
        Self::Integer(0).apply(self, i64::wrapping_sub, |_, real| -real)
    }

    fn absolute(self) -> Self {
        if self.real() < 0.0 { self.negated() } else { self }
    }

    fn rounded(self, how: fn(f64) -> f64) -> Self {
        match self {
            Self::Integer(_) => self,
            Self::Real(real) => Self::Real(how(real)),
        }
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

/// The words of a text, with their quotes.
pub(super) fn words(text: &str) -> Vec<&str> {
    split_words(text).iter().map(|word| word.text).collect()
}

fn numbers(text: &str) -> Result<Vec<Number>, String> {
    let number = |word| Number::parse(word).ok_or_else(|| "expected list of numbers".to_owned());
    words(text).into_iter().map(number).collect()
}

fn one(text: &str) -> Result<Number, String> {
    Number::parse(text).ok_or_else(|| "expected one number".to_owned())
}

const TWO: &str = "expected two numbers";

fn two(text: &str) -> Result<(Number, Number), String> {
    let numbers: Option<Vec<Number>> = words(text).into_iter().map(Number::parse).collect();
    match numbers.as_deref() {
        Some([a, b]) => Ok((*a, *b)),
        _ => Err(TWO.to_owned()),
    }
}

fn fold(text: &str, none: i64, join: fn(Number, Number) -> Number) -> Result<Text, String> {
    let numbers = numbers(text)?;
    Ok(numbers.into_iter().reduce(join).unwrap_or(Number::Integer(none)).into_text())
}

fn divide(text: &str) -> Result<Number, String> {
    let numbers = numbers(text)?.into_iter().map(Number::real);
    Ok(Number::Real(numbers.reduce(|a, b| a / b).unwrap_or(1.0)))
}

fn modulo(text: &str) -> Result<Text, String> {
    match two(text)? {
        (Number::Integer(_), Number::Integer(0)) => Err("division by zero".to_owned()),
        (Number::Integer(a), Number::Integer(b)) => Ok(a.wrapping_rem(b).into_text()),
        _ => Err(TWO.to_owned()),
    }
}

fn remainder(text: &str) -> Result<Text, String> {
    match two(text)? {
        (Number::Integer(_), Number::Integer(_)) => modulo(text),
        (a, b) => Ok((a.real() % b.real()).into_text()),
    }
}

/// The mean, truncated if all numbers are integers.
fn average(text: &str) -> Result<Text, String> {
    let numbers = numbers(text)?;
    let count = numbers.len();
    let sum = numbers.into_iter().reduce(|a, b| a.apply(b, i64::wrapping_add, |a, b| a + b));
    Ok(match sum {
        None => i32::MAX.into_text(),
        Some(Number::Integer(sum)) => (sum / i64::try_from(count).unwrap_or(1)).into_text(),
        Some(Number::Real(sum)) => (sum / count as f64).into_text(),
    })
}

/// How many numbers are greater than the first one.
fn greater(text: &str) -> Result<Text, String> {
    let numbers = numbers(text)?;
    let Some((first, rest)) = numbers.split_first() else { return Ok(0u32.into_text()) };
    Ok(rest.iter().filter(|number| number.real() > first.real()).count().into_text())
}

/// The number at the index that comes first, counted from 0; 0 where there is none.
fn at_index(text: &str) -> Result<Text, String> {
    let numbers = numbers(text)?;
    let Some((index, rest)) = numbers.split_first() else { return Ok(0u32.into_text()) };
    let Number::Integer(index) = index.truncated() else { return Ok(0u32.into_text()) };
    let found = usize::try_from(index).ok().and_then(|index| rest.get(index));
    Ok(found.copied().unwrap_or(Number::Integer(0)).into_text())
}

/// Compares as numbers if both are numbers, else byte by byte.
fn compare(text: &str, holds: fn(Ordering) -> bool) -> Result<Text, String> {
    let words = words(text);
    let [a, b] = words.as_slice() else { return Err(TWO.to_owned()) };
    let order = match (Number::parse(a), Number::parse(b)) {
        (Some(Number::Integer(a)), Some(Number::Integer(b))) => a.cmp(&b),
        (Some(a), Some(b)) => a.real().partial_cmp(&b.real()).unwrap_or(Ordering::Greater),
        _ => unquote(a).cmp(&unquote(b)),
    };
    Ok(holds(order).into_text())
}

/// Checks words until one is false.
fn all(text: &str) -> Result<bool, String> {
    for word in words(text) {
        if !boolean(word)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Checks words until one is true.
fn any(text: &str) -> Result<bool, String> {
    for word in words(text) {
        if boolean(word)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn choose(text: &str) -> Result<Text, String> {
    let words = words(text);
    let yes_holds = boolean(words.first().copied().unwrap_or_default())?;
    let chosen = words.get(if yes_holds { 1 } else { 2 });
    Ok(chosen.copied().unwrap_or_default().into_text())
}

fn nth(text: &str) -> Result<Text, String> {
    let words = words(text);
    let (index, rest) = words.split_first().ok_or(SYNTAX)?;
    let index = usize::try_from(integer(index)?).map_err(|_| SYNTAX)?;
    Ok(rest.get(index).copied().unwrap_or_default().into_text())
}

/// Sorts words: as numbers if all are numbers, else byte by byte.
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
        None => words.sort_unstable(),
    }
    Ok(words.join(" ").into_text())
}

fn read_file(text: &str) -> Result<Text, String> {
    let name = String::from_utf8_lossy(&unquote(text.trim())).into_owned();
    std::fs::read(&name).map_err(|error| format!("{name}: {}", os_error_text(&error)))
}

/// `%d %i %u %x %X %o %c %s %f %e %g %%` with flags, width and precision.
fn sprintf(text: &str) -> Result<Text, String> {
    let words = words(text);
    let mut values = words.into_iter();
    let format = unquote(values.next().unwrap_or_default());
    let format = String::from_utf8_lossy(&format);
    let mut out = Text::new();
    let mut rest = format.as_ref();
    while let Some(at) = rest.find('%') {
        out.extend(rest[..at].bytes());
        let (directive, after) = Directive::parse(&rest[at + 1..], &mut values)?;
        match directive.kind {
            '%' => out.push(b'%'),
            _ => out.extend(directive.format(values.next().unwrap_or_default())?),
        }
        rest = after;
    }
    out.extend(rest.bytes());
    if values.next().is_some() {
        return Err(SYNTAX.to_owned());
    }
    Ok(out)
}

/// One `%...` of a format.
struct Directive {
    left: bool,
    /// Whether to use only 16 bits of an integer.
    shorts: bool,
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

    /// Parses what follows a percent sign; a width of `*` comes from `values`.
    fn parse<'t, 'v>(
        text: &'t str,
        values: &mut impl Iterator<Item = &'v str>,
    ) -> Result<(Self, &'t str), String> {
        let flags_end = text.find(|c| !"-0+ #".contains(c)).unwrap_or(text.len());
        let (flags, rest) = text.split_at(flags_end);
        let mut left = flags.contains('-');
        let (width, rest) = match rest.strip_prefix('*') {
            Some(rest) => {
                let width = integer(values.next().unwrap_or_default())?;
                left |= width < 0;
                (usize::try_from(width.unsigned_abs()).ok(), rest)
            }
            None => digits(rest),
        };
        let (precision, rest) = match rest.strip_prefix('.') {
            Some(rest) => match rest.strip_prefix('*') {
                Some(rest) => {
                    let precision = integer(values.next().unwrap_or_default())?;
                    (Some(usize::try_from(precision).map_err(|_| SYNTAX)?), rest)
                }
                None => digits(rest),
            },
            None => (None, rest),
        };
        let shorts = rest.starts_with('h');
        let rest = rest.trim_start_matches(['l', 'h', 'q', 'L']);
        let kind = rest.chars().next().ok_or(SYNTAX)?;
        if !"diuxXocsfeEgG%".contains(kind) {
            return Err(SYNTAX.to_owned());
        }
        let directive = Self {
            left,
            shorts,
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

    fn format(&self, value: &str) -> Result<Text, String> {
        if matches!(self.kind, 's' | 'c') {
            let value = unquote(value);
            let most = if self.kind == 'c' { Some(1) } else { self.precision };
            let kept = most.and_then(|most| value.get(..most)).unwrap_or(&value);
            return Ok(self.pad("", kept, false));
        }
        let number = Number::parse(value).ok_or(SYNTAX)?;
        let is_real = matches!(number, Number::Real(_));
        let negative = number.real() < 0.0;
        if is_real && "diuxXo".contains(self.kind) || negative && "uxXo".contains(self.kind) {
            return Err(SYNTAX.to_owned());
        }
        let integer = || match number.truncated() {
            Number::Integer(integer) if self.shorts && "di".contains(self.kind) => {
                i64::from(integer as i16)
            }
            Number::Integer(integer) if self.shorts => i64::from(integer as u16),
            Number::Integer(integer) => integer,
            Number::Real(real) => real as i64,
        };
        let signed = if is_real || "feEgG".contains(self.kind) { negative } else { integer() < 0 };
        let sign = match (signed, self.plus, self.space) {
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
    fn functions_return_the_expected_values() {
        for (name, text, expected) in [
            ("add", "10 5 2", "17"),
            ("add", "", "0"),
            ("add", "1.5 1", "2.5"),
            ("add", "9223372036854775807 1", "-9223372036854775808"),
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
            ("first", "\"a b\" c", "\"a b\""),
            ("nth", "1 a b c", "b"),
            ("sort", "10 9 1", "1 9 10"),
            ("sort", "b c a", "a b c"),
            ("length", "abcdef", "6"),
            ("add", "0x10 010", "24"),
            ("mul", "", "1"),
            ("div", "1 0", "inf"),
            ("avg", "5 10 2", "5"),
            ("popcount", "5 0 2", "2"),
            ("gt_vec", "5 0 2 7", "1"),
            ("ceil", "1.2", "2"),
            ("floor", "1.8", "1"),
            ("floor", "-1.2", "-2"),
            ("floor", "7", "7"),
            ("round", "1.5", "2"),
            ("round", "17.33", "17"),
            ("get_vec", "1 5 0.5 2", "0.5"),
            ("get_vec", "3 5 0.5 2", "0"),
            ("eq", "\"a b\" 'a b'", "true"),
            ("htons", "1", "256"),
            ("sprintf", "%*d 4 7", "   7"),
            ("sprintf", "'%hd %%' 65535", "-1 %"),
            ("sprintf", "\"%05x\" 127", "0007f"),
            ("sprintf", "'%-5d|%5.2f|%s|%%' 42 3.14159 x", "42   | 3.14|x|%"),
            ("sprintf", "%+d 7", "+7"),
        ] {
            assert_eq!(call(name, text).as_deref(), Ok(expected), "{name} {text}");
        }
    }

    #[test]
    fn invalid_parameters_are_refused() {
        for (name, text) in [
            ("add", "1 x"),
            ("mod", "1.5 2"),
            ("mod", "1 0"),
            ("neg", "1 2"),
            ("eq", "1"),
            ("not", "maybe"),
            ("sprintf", "%d"),
            ("sprintf", "%k 1"),
            ("sprintf", "x 1"),
            ("sprintf", "%x -1"),
        ] {
            assert!(call(name, text).is_err(), "{name} {text}");
        }
    }
}
