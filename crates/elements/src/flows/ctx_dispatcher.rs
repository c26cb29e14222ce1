//! CTXDispatcher - classifies packets by their bytes, and names the output of each pattern
//!
//! # Synopsis
//! `CTXDispatcher(RULE_1, ..., RULE_N)`
//!
//! # Description
//! Sends each packet by the first rule that it matches. A rule is a pattern and, optionally, an output: `12/0800 0`,
//! `9/06 20/0050 1`, `- drop`. This is the language of FastClick's FlowClassifier and FlowDispatcher.
//!
//! A pattern consists of clauses separated by spaces, all of which must match. A clause `OFFSET/VALUE` matches packets
//! that have the bytes VALUE from byte OFFSET on, `OFFSET/VALUE/MASK` compares only the bits that are 1 in MASK. OFFSET
//! is decimal; VALUE and MASK are hexadecimal. The pattern `-` matches every packet. Marks of FastClick's tables - `!`,
//! `:HASH-N` and `keep` - are accepted without effect.
//!
//! After the pattern stands the output, or `drop`. An output that is not connected drops, too. A rule without an
//! output takes the one after the highest so far. If there is none: `-` drops, and any other rule takes the last output.
//! Packets that match no rule are dropped, but if the last output has no rule, they leave by that.
//!
//! FastClick's manager combines all dispatchers to one table. Here, each classifies where it stands: the way of a packet
//! is the same.
//!
//! # Arguments
//! - RULE: a pattern with its output. None stands for `- 0`.
//!
//! # Ports
//! One push input, any number of push outputs.
//!
//! # Handlers
//! - `program` (read): the decision program, whose outputs are the rules, counted from 0.
//!
//! # Drops
//! - filtered: the rule says `drop`, or names an output that is not there.
//! - no match: the packet matches no rule.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<ffffffffffff 020000000001 0806 0001 0800 06 04 0001>, LIMIT 10)
//!     -> CTXManager
//!     -> d :: CTXDispatcher(12/0800, 12/0806, -);
//! d [0] -> Discard;  // IP
//! d [1] -> Counter -> Discard;  // ARP
//! ```
//!
//! # See also
//! CTXManager, Classifier, IPClassifier

use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PerPacket, Reason, Setup, View, Way, register,
};

use crate::classify::patterns::arguments::Patterns;
use crate::classify::program::PatternProgram;

/// The element; its manual is at the top of the file.
pub struct CtxDispatcher {
    program: PatternProgram,
    /// Where packets that match each rule go.
    ways: Vec<Way>,
    /// Where the others go.
    rest: Way,
}

register!(CtxDispatcher, "ctx_dispatcher.rs");

impl Element for CtxDispatcher {
    const CLASS: Class = Class::new("CTXDispatcher", "1/-", "h/h").aliases(&["FlowDispatcher"]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let outputs = setup.outputs();
        let args = &mut setup.args;
        let mut patterns = Patterns::take(args);
        if patterns.plain.is_empty() {
            match outputs {
                1 => patterns.plain.push("- 0".to_owned()),
                _ => args.error((), "Invalid rule set. There is no rule and not a single output."),
            }
        }
        let (mut rules, mut ways) = (Vec::new(), Vec::new());
        let mut highest = None;
        for text in &patterns.plain {
            match Rule::parse(text) {
                Ok(rule) => {
                    ways.push(rule.way(&mut highest, outputs));
                    rules.push(rule.pattern);
                }
                Err(message) => {
                    let number = rules.len() + 1;
                    args.error((), format!("argument {number} is not a rule ({text}): {message}"));
                    rules.push("-".to_owned());
                }
            }
        }
        let rest = match highest.map_or(0, |highest| highest + 1) < outputs {
            true => Way::output(outputs as u16 - 1),
            false => Way::drop(Reason::NoMatch),
        };
        let program = PatternProgram::compile(&rules, 0);
        if let Err(findings) = &program {
            patterns.report(findings, args);
        }
        args.complete()?;
        Ok(Self { program: program.map_err(|_| Failed)?, ways, rest })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("program", |dispatcher, _| dispatcher.program.to_string());
    }
}

impl PerPacket for CtxDispatcher {
    const ROUTES: bool = true;

    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        match self.program.classify_at_once(packet.data()) {
            Some(rule) => self.way(rule.into()),
            None => Way::MORE,
        }
    }

    fn treat_more(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        self.way(self.program.classify(packet.data()))
    }
}

impl CtxDispatcher {
    #[inline(always)]
    fn way(&self, rule: usize) -> Way {
        self.ways.get(rule).copied().unwrap_or(self.rest)
    }
}

/// A rule of the configuration.
struct Rule {
    /// As Classifier writes it.
    pattern: String,
    target: Target,
}

/// What a rule says about where packets go.
enum Target {
    Unsaid,
    Drop,
    Output(usize),
}

impl Rule {
    fn parse(text: &str) -> Result<Self, String> {
        let mut clauses = Vec::new();
        let mut target = Target::Unsaid;
        for word in text.split_whitespace() {
            if !matches!(target, Target::Unsaid) {
                return Err(format!("‘{word}’ after the output"));
            }
            match word {
                "keep" => {}
                "drop" => target = Target::Drop,
                "-" => clauses.push("-".to_owned()),
                _ if word.contains('/') => clauses.push(clause(word)?),
                _ => match word.parse() {
                    Ok(output) => target = Target::Output(output),
                    Err(_) => return Err(format!("‘{word}’ is neither a clause nor an output")),
                },
            }
        }
        match clauses.is_empty() {
            true => Err("no pattern".to_owned()),
            false => Ok(Self { pattern: clauses.join(" "), target }),
        }
    }

    /// Where packets that match go; `highest` is the highest output that a rule before has.
    fn way(&self, highest: &mut Option<usize>, outputs: usize) -> Way {
        let output = match self.target {
            Target::Drop => return Way::drop(Reason::Filtered),
            Target::Output(output) => {
                *highest = Some(highest.unwrap_or(0).max(output));
                output
            }
            Target::Unsaid => {
                let next = highest.map_or(0, |highest| highest + 1);
                *highest = Some(next);
                match next < outputs || self.pattern == "-" {
                    true => next,
                    false => outputs.saturating_sub(1),
                }
            }
        };
        match u16::try_from(output) {
            Ok(output) if usize::from(output) < outputs => Way::output(output),
            _ => Way::drop(Reason::Filtered),
        }
    }
}

/// A clause in Classifier's form.
fn clause(word: &str) -> Result<String, String> {
    let word = word.trim_end_matches('!');
    let (word, _) = word.split_once(':').unwrap_or((word, ""));
    let mut parts = word.split('/');
    let (offset, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    if offset.is_empty() || !offset.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(format!("the offset ‘{offset}’ is not a number of bytes"));
    }
    match (parts.next(), parts.next()) {
        (None, _) => Ok(format!("{offset}/{value}")),
        (Some(mask), None) => {
            // A value may have fewer digits than its mask: `12/0/ffffffff`.
            Ok(format!("{offset}/{value:0>width$}%{mask}", width = mask.len()))
        }
        _ => Err(format!("‘{word}’ has too many slashes")),
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    fn outputs(rules: &str, outputs: usize, packets: &[&str]) -> Vec<Vec<String>> {
        let mut rig = Rig::new(&format!("CTXDispatcher({rules})"), 1, outputs).unwrap();
        let out = rig.push(0, packets);
        assert!(rig.stats().balanced());
        let text = |bytes: &Vec<u8>| String::from_utf8(bytes.clone()).unwrap();
        out.iter().map(|port| port.iter().map(text).collect()).collect()
    }

    #[test]
    fn rules_name_outputs_or_take_the_next() {
        let all = ["a", "b", "c", "d"];
        for (rules, expected) in [
            ("0/61, 0/62, -", [vec!["a"], vec!["b"], vec!["c", "d"]]),
            ("0/61 2, 0/62 0, - drop", [vec!["b"], vec![], vec!["a"]]),
            ("0/61 1, 0/62, 0/63", [vec![], vec!["a"], vec!["b", "c"]]),
            ("0/61 0, 0/62 0", [vec!["a", "b"], vec![], vec!["c", "d"]]),
            ("0/61 9, - 1", [vec![], vec!["b", "c", "d"], vec![]]),
            ("0/60/fe! keep 0, 0/62:HASH-3 1, -", [vec!["a"], vec!["b"], vec!["c", "d"]]),
            ("0/0/ff 1, 0/0/f0, - 0", [all.to_vec(), vec![], vec![]]),
        ] {
            assert_eq!(outputs(rules, 3, &all), expected, "{rules}");
        }
        assert_eq!(outputs("", 1, &all), [all]);
    }

    #[test]
    fn what_is_dropped_says_why() {
        let mut rig = Rig::new("CTXDispatcher(0/61 0, 0/62 drop, 0/63 7)", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["a", "b", "c", "d", ""])[0], [b"a"]);
        let mut drops = rig.stats().drops;
        drops.sort_by_key(|drop| drop.1);
        assert_eq!(drops, [(Reason::Filtered, 2), (Reason::NoMatch, 2)]);
    }

    #[test]
    fn wrong_rules_are_refused() {
        for rules in ["x", "0/61 0 1", "0", "-1/61", "0/61/ff/f", "agg 0/61 0", "0/6", ""] {
            assert!(Rig::new(&format!("CTXDispatcher({rules})"), 1, 2).is_err(), "{rules}");
        }
    }
}
