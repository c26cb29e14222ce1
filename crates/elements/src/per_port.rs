//! Arguments of which each port needs one, such as the patterns of Classifier.

use millrace_core::args::{ArgText, Args};

/// Reports an error unless there are as many arguments as ports. `side` is "input" or "output", `what` is what an
/// argument describes, such as "pattern".
pub(crate) fn one_per_port(
    args: &mut Args<'_>,
    texts: &[ArgText],
    ports: usize,
    side: &str,
    what: &str,
) {
    if texts.len() != ports {
        let message = format!("need {ports} arguments, one per {side} port");
        let help = help(texts.len(), ports, side, what);
        match texts.get(ports) {
            Some(surplus) => args.error_with_help(surplus, message, help),
            None => args.error_with_help((), message, help),
        }
    }
}

/// Names the first argument without a port, or the first port without an argument.
fn help(given: usize, ports: usize, side: &str, what: &str) -> String {
    let count = |count: usize, word: &str| match count {
        1 => format!("1 {word}"),
        _ => format!("{count} {word}s"),
    };
    let both = format!("{} for {}", count(given, what), count(ports, side));
    match given > ports {
        true => format!(
            "{both}: {what} {ports} has no {side}; connect {side} {ports}, or remove the {what}"
        ),
        false => format!("{both}: {side} {given} has no {what}; write one for it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_surplus_argument_or_port_is_named() {
        for (given, ports, expected) in [
            (
                3,
                1,
                "3 patterns for 1 output: pattern 1 has no output; connect output 1, or remove the pattern",
            ),
            (1, 3, "1 pattern for 3 outputs: output 1 has no pattern; write one for it"),
        ] {
            assert_eq!(help(given, ports, "output", "pattern"), expected);
        }
    }
}
