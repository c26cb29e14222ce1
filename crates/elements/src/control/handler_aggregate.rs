//! HandlerAggregate - sums or averages a read handler over several elements
//!
//! # Synopsis
//! `HandlerAggregate(ELEMENT NAME, ELEMENT NAME, ...)`
//!
//! # Description
//! Reads the same handler of each element, interprets each value as a number, and returns the sum or the average. A
//! value that does not begin with a number counts as 0.
//!
//! # Arguments
//! - ELEMENT: an element. May be repeated.
//!
//! # Ports
//! None.
//!
//! # Handlers
//! - `add` (read): the sum; the parameter names the handler to read, as in `a.add count`.
//! - `avg` (read): the average, with the same parameter; 0 without elements.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 3) -> a :: Counter -> Discard;
//! InfiniteSource(LIMIT 5) -> b :: Counter -> Discard;
//! all :: HandlerAggregate(ELEMENT a, ELEMENT b);
//! DriverManager(wait 1s, print $(all.add count), stop);
//! ```
//!
//! # See also
//! Script, DriverManager, Counter

use millrace_core::args::{ElementRef, HandlerRef};
use millrace_core::element::Call;
use millrace_core::{Class, Element, Failed, HandlerError, Handlers, Setup, register};

/// The element; its manual is at the top of the file.
pub struct HandlerAggregate {
    elements: Vec<usize>,
}

register!(HandlerAggregate, "handler_aggregate.rs");

impl Element for HandlerAggregate {
    const CLASS: Class = Class::new("HandlerAggregate", "0/0", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let elements: Vec<ElementRef> = setup.args.repeated("ELEMENT");
        setup.args.complete()?;
        Ok(Self { elements: elements.into_iter().map(|ElementRef(element)| element).collect() })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.try_read("add", |all, call| all.sum(call));
        handlers.try_read("avg", |all, call| Ok(all.sum(call)? / all.elements.len().max(1) as f64));
    }
}

impl HandlerAggregate {
    /// The sum of the values of the handler that the parameter names.
    fn sum(&self, call: &Call<'_>) -> Result<f64, HandlerError> {
        let text = call.text();
        let (handler, parameter) = text.split_once(char::is_whitespace).unwrap_or((&text, ""));
        let mut sum = 0.0;
        for &element in &self.elements {
            let handler = HandlerRef::Of { element, handler: handler.to_owned() };
            let said = call.router().read_from(call.element(), &handler, parameter.as_bytes())?;
            sum += leading_number(&String::from_utf8_lossy(&said));
        }
        Ok(sum)
    }
}

/// The number at the start of a text, or 0 if there is none, as with `atof`.
fn leading_number(text: &str) -> f64 {
    let text = text.trim_start();
    let digits = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
    let end = text.find(|c| !digits(c)).unwrap_or(text.len());
    (1..=end).rev().find_map(|end| text.get(..end)?.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "read, not computed")]
    fn leading_numbers_are_read() {
        for (text, number) in [
            ("12", 12.0),
            (" 1.5\n", 1.5),
            ("-3x", -3.0),
            ("7e", 7.0),
            ("2e3", 2000.0),
            ("x", 0.0),
            ("", 0.0),
        ] {
            assert_eq!(leading_number(text), number, "{text}");
        }
    }
}
