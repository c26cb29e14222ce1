//! Functions of time in the syntax of FastClick's TIMING_FNT: `10 + min(90, 10 * x)`.
//!
//! The language is TinyExpr's: numbers, `x`, `pi`, `e`, `+ - * / % ^`, parentheses and functions.
//! As in TinyExpr, powers associate to the left and bind less tightly than a sign: `-x^2` is
//! `(-x)^2`.

use std::fmt;

/// A function of `x`.
#[derive(Clone, Debug)]
pub(crate) struct Expression(Term);

#[derive(Clone, Debug)]
enum Term {
    Number(f64),
    X,
    One(fn(f64) -> f64, Box<Term>),
    Two(fn(f64, f64) -> f64, Box<[Term; 2]>),
}

/// A parse error and its position, in bytes from the start of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    what: &'static str,
    at: usize,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at character {}", self.what, self.at + 1)
    }
}

impl Expression {
    /// Parses a function.
    pub(crate) fn parse(text: &str) -> Result<Self, Wrong> {
        let mut parser = Parser { text, at: 0, depth: 0 };
        let term = parser.sum()?;
        match parser.peek() {
            None => Ok(Self(term)),
            Some(_) => Err(parser.wrong("expected an operator")),
        }
    }

    /// The value for `x`.
    pub(crate) fn at(&self, x: f64) -> f64 {
        self.0.at(x)
    }
}

impl Term {
    fn at(&self, x: f64) -> f64 {
        match self {
            Self::Number(number) => *number,
            Self::X => x,
            Self::One(function, term) => function(term.at(x)),
            Self::Two(function, terms) => {
                let [a, b] = terms.as_ref();
                function(a.at(x), b.at(x))
            }
        }
    }
}

type Unary = fn(f64) -> f64;
type Binary = fn(f64, f64) -> f64;

const UNARY: &[(&str, Unary)] = &[
    ("abs", f64::abs),
    ("acos", f64::acos),
    ("asin", f64::asin),
    ("atan", f64::atan),
    ("ceil", f64::ceil),
    ("cos", f64::cos),
    ("cosh", f64::cosh),
    ("exp", f64::exp),
    ("floor", f64::floor),
    ("ln", f64::ln),
    ("log", f64::log10),
    ("log10", f64::log10),
    ("sin", f64::sin),
    ("sinh", f64::sinh),
    ("sqrt", f64::sqrt),
    ("squarewave", |x| if x.sin() < 0.0 { -1.0 } else { 1.0 }),
    ("tan", f64::tan),
    ("tanh", f64::tanh),
];

const BINARY: &[(&str, Binary)] =
    &[("atan2", f64::atan2), ("max", f64::max), ("min", f64::min), ("pow", f64::powf)];

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

/// Maximum nesting of parentheses and functions, far beyond any real expression.
const DEEPEST: usize = 100;

impl<'t> Parser<'t> {
    /// Terms joined by `+` and `-`.
    fn sum(&mut self) -> Result<Term, Wrong> {
        self.chain(Self::product, |operator| {
            Some(match operator {
                '+' => |a, b| a + b,
                '-' => |a, b| a - b,
                _ => return None,
            })
        })
    }

    fn product(&mut self) -> Result<Term, Wrong> {
        self.chain(Self::power, |operator| {
            Some(match operator {
                '*' => |a, b| a * b,
                '/' => |a, b| a / b,
                '%' => |a, b| a % b,
                _ => return None,
            })
        })
    }

    fn power(&mut self) -> Result<Term, Wrong> {
        self.chain(Self::signed, |operator| (operator == '^').then_some(f64::powf as Binary))
    }

    fn chain(
        &mut self,
        part: fn(&mut Self) -> Result<Term, Wrong>,
        function: fn(char) -> Option<Binary>,
    ) -> Result<Term, Wrong> {
        let mut term = part(self)?;
        while let Some(function) = self.peek().and_then(function) {
            self.at += 1;
            let second = part(self)?;
            term = Term::Two(function, Box::new([term, second]));
        }
        Ok(term)
    }

    fn signed(&mut self) -> Result<Term, Wrong> {
        let mut negative = false;
        while let Some(sign @ ('+' | '-')) = self.peek() {
            negative ^= sign == '-';
            self.at += 1;
        }
        let term = self.primary()?;
        Ok(if negative { Term::One(|x| -x, Box::new(term)) } else { term })
    }

    fn primary(&mut self) -> Result<Term, Wrong> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.wrong("too many functions within each other"));
        }
        let term = self.operand();
        self.depth -= 1;
        term
    }

    fn operand(&mut self) -> Result<Term, Wrong> {
        match self.peek() {
            Some('(') => {
                self.at += 1;
                let term = self.sum()?;
                self.expect(')')?;
                Ok(term)
            }
            Some(first) if first.is_ascii_digit() || first == '.' => self.number(),
            Some(first) if first.is_ascii_alphabetic() => self.name(),
            _ => Err(self.wrong("expected a number, a function, ‘x’ or ‘(’")),
        }
    }

    fn number(&mut self) -> Result<Term, Wrong> {
        let digits =
            |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let rest = self.rest();
        let mut length = digits(rest);
        if rest.get(length..).is_some_and(|rest| rest.starts_with('.')) {
            length += 1;
            length += rest.get(length..).map_or(0, digits);
        }
        if let Some(exponent) = rest.get(length..).and_then(|rest| rest.strip_prefix(['e', 'E'])) {
            let sign = usize::from(exponent.starts_with(['+', '-']));
            match exponent.get(sign..).map_or(0, digits) {
                // Not an exponent but the constant `e` after a number: an operator is missing.
                0 => {}
                count => length += 1 + sign + count,
            }
        }
        let number = rest.get(..length).and_then(|text| text.parse().ok());
        let number = number.ok_or_else(|| self.wrong("bad number"))?;
        self.at += length;
        Ok(Term::Number(number))
    }

    fn name(&mut self) -> Result<Term, Wrong> {
        let rest = self.rest();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let name = rest.split(|c| !is_part(c)).next().unwrap_or_default();
        let start = self.at;
        self.at += name.len();
        match name {
            "x" => return Ok(Term::X),
            "pi" => return Ok(Term::Number(std::f64::consts::PI)),
            "e" => return Ok(Term::Number(std::f64::consts::E)),
            _ => {}
        }
        if let Some((_, function)) = UNARY.iter().find(|(known, _)| *known == name) {
            // As in TinyExpr, the parentheses of a one-argument function are optional.
            return match self.peek() {
                Some('(') => Ok(Term::One(*function, Box::new(self.primary()?))),
                _ => Ok(Term::One(*function, Box::new(self.power()?))),
            };
        }
        if let Some((_, function)) = BINARY.iter().find(|(known, _)| *known == name) {
            self.expect('(')?;
            let first = self.sum()?;
            self.expect(',')?;
            let second = self.sum()?;
            self.expect(')')?;
            return Ok(Term::Two(*function, Box::new([first, second])));
        }
        Err(Wrong { what: "unknown function", at: start })
    }

    /// Skips white space and returns the next character.
    fn peek(&mut self) -> Option<char> {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
        self.rest().chars().next()
    }

    fn expect(&mut self, wanted: char) -> Result<(), Wrong> {
        if self.peek() == Some(wanted) {
            self.at += 1;
            return Ok(());
        }
        Err(self.wrong(match wanted {
            '(' => "expected ‘(’",
            ',' => "expected ‘,’",
            _ => "expected ‘)’",
        }))
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn wrong(&self, what: &'static str) -> Wrong {
        Wrong { what, at: self.at }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn expressions_have_the_expected_values() {
        for (text, x, value) in [
            ("100", 7.0, 100.0),
            ("10 + min(90,10*x)", 3.0, 40.0),
            ("10 + min(90,10*x)", 30.0, 100.0),
            ("2 + 3 * 4 - 1", 0.0, 13.0),
            ("(2 + 3) * 4", 0.0, 20.0),
            ("2^3^2", 0.0, 64.0),
            ("-x^2", 3.0, 9.0),
            ("0 - x^2", 3.0, -9.0),
            ("7 % 4 / 2", 0.0, 1.5),
            ("--x", 2.0, 2.0),
            ("1e2 + 1.5E-1 + .5", 0.0, 100.65),
            ("2 * pi - e", 0.0, 2.0 * std::f64::consts::PI - std::f64::consts::E),
            ("sqrt x * 2", 16.0, 8.0),
            ("max(x, pow(2, 3))", 1.0, 8.0),
            ("squarewave(x)", 4.0, -1.0),
            ("squarewave(x)", 1.0, 1.0),
            (" floor ( x / 2 ) ", 5.0, 2.0),
            (
                "100 * ((sin(-pi/2 + (x/10)^2.5) * (-x/60 + 1) + 1) * ((10 - 1) / 2) + 1)",
                0.0,
                100.0,
            ),
        ] {
            let function =
                Expression::parse(text).unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
            assert!((function.at(x) - value).abs() < 1e-9, "{text}: {}", function.at(x));
        }
    }

    #[test]
    fn errors_name_their_position() {
        for (text, wrong) in [
            ("", "expected a number, a function, ‘x’ or ‘(’ at character 1"),
            ("1 +", "expected a number, a function, ‘x’ or ‘(’ at character 4"),
            ("2 x", "expected an operator at character 3"),
            ("(1", "expected ‘)’ at character 3"),
            ("min 3", "expected ‘(’ at character 5"),
            ("min(3)", "expected ‘,’ at character 6"),
            ("1 + foo(3)", "unknown function at character 5"),
            (".", "bad number at character 1"),
        ] {
            assert_eq!(Expression::parse(text).unwrap_err().to_string(), wrong, "{text}");
        }
        assert!(Expression::parse(&"(".repeat(10_000)).is_err());
        assert!(Expression::parse(&"sin ".repeat(10_000)).is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "[-+*/%^(),. x0-9a-z€]{0,40}") {
            if let Ok(function) = Expression::parse(&text) {
                function.at(3.0);
            }
        }
    }
}
