//! Arguments that several GPU elements have.

use millrace_core::Args;
use millrace_core::args::{Arg, ArgError, ArgText, Kind, Scope};

/// Default annotation for the predicate word: few elements use this one.
pub(crate) const PREDICATE_ANNOTATION: usize = 40;

/// Default of OUTPUTS for an element with one connected output: it needs four bits of the predicate word.
const MANY: u32 = 14;

/// Reads OUTPUTS: the number of outputs that an element decides between, of which `ports` are connected.
pub(crate) fn outputs_of(args: &mut Args<'_>, ports: usize) -> u32 {
    let outputs = args.in_range("OUTPUTS", Kind::Keyword, 1..=1022u32);
    if let Some(outputs) = outputs.filter(|&outputs| ports > 1 && outputs as usize != ports) {
        args.error("OUTPUTS", format!("OUTPUTS is {outputs}, but {ports} outputs are connected"));
    }
    match ports {
        0 | 1 => outputs.unwrap_or(MANY),
        ports => ports as u32,
    }
}

/// A part of the whole: `2%` or `0.02`.
pub(crate) struct Part(pub(crate) f64);

impl Arg for Part {
    const EXPECTS: &'static str = "a part such as ‘2%’ or ‘0.02’";

    fn parse(text: &ArgText, _: &Scope<'_>) -> Result<Self, ArgError> {
        let (number, unit) = match text.as_str().strip_suffix('%') {
            Some(number) => (number.trim_end(), 100.0),
            None => (text.as_str(), 1.0),
        };
        let number: f64 = number.parse().map_err(|_| ArgError::default())?;
        let part = number / unit;
        (0.0..=1.0)
            .contains(&part)
            .then_some(Self(part))
            .ok_or_else(|| ArgError::new("out of range"))
    }

    fn placeholder() -> Self {
        Self(0.0)
    }
}
