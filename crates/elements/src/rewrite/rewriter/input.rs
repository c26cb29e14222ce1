//! What a rewriter does with a flow that has no mapping: one argument for each input.

use std::collections::HashMap;
use std::sync::Arc;

use millrace_core::args::{ArgText, Scope};
use millrace_core::{Arg, Capability, Lock};
use millrace_lang::nearest;

use super::pattern::Pattern;
use crate::capability::{FlowId, Mapper, Outputs, Request};

/// What an input does with an unknown flow.
#[derive(Clone)]
pub(crate) enum Input {
    Drop,
    /// The packet leaves unchanged.
    Pass(u16),
    /// Makes a mapping that changes nothing.
    Keep(Outputs),
    Pattern(Arc<Pattern>, Outputs),
    Mapper(Arc<dyn Mapper>),
}

/// Why an argument cannot be used.
pub(crate) struct Wrong {
    /// In Click's words.
    pub(crate) message: String,
    pub(crate) help: String,
}

impl From<String> for Wrong {
    fn from(message: String) -> Self {
        Self { message, help: format!("the specification of an input is {SPECIFICATIONS}") }
    }
}

impl From<&str> for Wrong {
    fn from(message: &str) -> Self {
        message.to_owned().into()
    }
}

impl Wrong {
    fn unknown(name: &str) -> Self {
        let mut wrong = Self::from("unknown specification");
        if let Some(near) = nearest(name, WORDS) {
            wrong.help = format!("‘{name}’ is not an element; did you mean ‘{near}’?");
        }
        wrong
    }
}

/// The words that begin an argument.
const WORDS: [&str; 7] = ["drop", "discard", "pass", "passthrough", "nochange", "keep", "pattern"];
const SPECIFICATIONS: &str = "‘drop’, ‘pass OUTPUT’, ‘keep OUTPUT REPLYOUTPUT’, \
    ‘pattern SADDR SPORT DADDR DPORT OUTPUT REPLYOUTPUT’ or the name of a mapper";

impl Request<'_> {
    pub(crate) fn by(&mut self, pattern: &Pattern, flow: FlowId) -> Option<FlowId> {
        pattern.rewrite(flow, self.taken, |top| self.random.between(0, top))
    }
}

/// The patterns of a configuration, by their full names.
#[derive(Default)]
pub(crate) struct Named(Lock<HashMap<String, Arc<Pattern>>>);

impl Named {
    /// The pattern with a name, as seen from `scope`.
    pub(crate) fn pattern(&self, name: &str, scope: &Scope<'_>) -> Option<Arc<Pattern>> {
        let all = self.0.lock();
        scope.prefixes().find_map(|prefix| all.get(&format!("{prefix}{name}")).cloned())
    }

    /// Names a pattern in the compound element of `scope`.
    pub(crate) fn add_pattern(&self, name: &str, pattern: Arc<Pattern>, scope: &Scope<'_>) {
        let full = format!("{}{name}", scope.prefix());
        self.0.lock().insert(full, pattern);
    }
}

impl Input {
    /// Reads an argument of a rewriter that has `outputs` outputs.
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn parse(
        text: &ArgText,
        outputs: usize,
        named: &Named,
        scope: &Scope<'_>,
    ) -> Result<Self, Wrong> {
        let (word, rest) = text.split_first_word();
        let in_range = |ports: Outputs| match ports.iter().all(|&port| usize::from(port) < outputs)
        {
            true => Ok(ports),
            false => Err(Wrong {
                message: "output port out of range".to_owned(),
                help: match outputs {
                    0 | 1 => "there is only output 0".to_owned(),
                    _ => format!("the outputs are 0 to {}", outputs - 1),
                },
            }),
        };
        match word.as_str() {
            "" => Err("empty argument".into()),
            "pass" | "passthrough" | "nochange" => {
                let output = match rest.is_empty() {
                    true => Some(0),
                    false => i32::parse(&rest, scope).ok(),
                };
                let output = output.ok_or("syntax error, expected ‘nochange [OUTPUT]’")?;
                in_range([port_of(output); 2]).map(|[output, _]| Self::Pass(output))
            }
            "keep" => in_range(parse_outputs(&rest.words(), scope)?).map(Self::Keep),
            "drop" | "discard" if rest.is_empty() => Ok(Self::Drop),
            "drop" | "discard" => Err(format!("syntax error, expected ‘{word}’").into()),
            "pattern" | "xpattern" => {
                let (pattern, ports) = parse_pattern(&rest.words(), named, scope)?;
                in_range(ports).map(|ports| Self::Pattern(pattern, ports))
            }
            name => {
                let element = scope.find_element(name);
                let element = element.ok_or_else(|| Wrong::unknown(name))?;
                if !rest.is_empty() {
                    return Err("syntax error, expected element name".into());
                }
                let mapper = scope.offered(element).map(Self::Mapper);
                mapper.ok_or_else(|| <dyn Mapper>::missing(name).into())
            }
        }
    }

    /// The text that the handlers `pattern0` and `patterns` show.
    pub(crate) fn to_text(&self) -> String {
        match self {
            Self::Drop => "<drop>".to_owned(),
            Self::Pass(_) => "<nochange>".to_owned(),
            Self::Keep(_) => "<keep>".to_owned(),
            Self::Pattern(pattern, _) => pattern.to_string(),
            Self::Mapper(_) => "<mapper>".to_owned(),
        }
    }
}

/// Reads a pattern, or the name of one, followed by two outputs.
///
/// # Errors
/// What is wrong.
pub(crate) fn parse_pattern(
    words: &[ArgText],
    named: &Named,
    scope: &Scope<'_>,
) -> Result<(Arc<Pattern>, Outputs), String> {
    let Some((pattern, ports)) = words.split_last_chunk::<2>().filter(|(rest, _)| !rest.is_empty())
    else {
        return Err("syntax error".to_owned());
    };
    let pattern = match pattern {
        [name] => {
            let known = named.pattern(name.as_str(), scope);
            known.ok_or_else(|| format!("no such pattern ‘{name}’"))?
        }
        words => Arc::new(Pattern::parse(words, scope)?),
    };
    Ok((pattern, parse_outputs(ports, scope)?))
}

fn parse_outputs(words: &[ArgText], scope: &Scope<'_>) -> Result<Outputs, String> {
    let port = |text: &ArgText| i32::parse(text, scope).ok().map(port_of);
    match words {
        [forward, reply] => {
            let forward = port(forward).ok_or("bad forward port")?;
            Ok([forward, port(reply).ok_or("bad reply port")?])
        }
        _ => Err("bad forward port".to_owned()),
    }
}

/// The number of an output; `u16::MAX`, which no element has, if `number` is negative or too high.
fn port_of(number: i32) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}
