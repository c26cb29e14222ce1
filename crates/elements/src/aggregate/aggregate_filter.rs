//! AggregateFilter - filters packets by aggregate
//!
//! # Synopsis
//! `AggregateFilter(ACTION_1 AGGREGATES, ..., ACTION_N AGGREGATES)`
//!
//! # Description
//! Applies to each packet the action of the first rule that lists the packet's aggregate. Drops packets that no rule
//! lists.
//!
//! An ACTION is an output number; `allow`, which means output 0; or `drop` or `deny`. AGGREGATES are numbers and
//! ranges, such as `3 10-19`, or `all` or `-` for every aggregate. A rule that matches nothing, because earlier rules
//! list all its aggregates, causes a warning.
//!
//! # Arguments
//! - ACTION AGGREGATES: a rule. Any number.
//!
//! # Ports
//! One push input, any number of push outputs.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - filtered: a rule drops the packet, or no rule lists its aggregate.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5)
//!     -> AggregateLength
//!     -> AggregateFilter(drop 0-59, allow 60 64-127)
//!     -> Discard;
//! ```
//!
//! # See also
//! AggregateIP, AggregateIPFlows, IPFilter

use std::collections::BTreeMap;

use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct AggregateFilter {
    /// Keyed by the last aggregate of a range: its first aggregate and the action.
    ranges: BTreeMap<u32, (u32, Action)>,
    others: Action,
}

/// An output, or none.
type Action = Option<usize>;

register!(AggregateFilter, "aggregate_filter.rs");

impl Element for AggregateFilter {
    const CLASS: Class = Class::new("AggregateFilter", "1/1-", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let outputs = setup.outputs();
        let args = &mut setup.args;
        let mut filter = Self { ranges: BTreeMap::new(), others: None };
        let mut all_listed = false;
        for (nth, rule) in args.rest().iter().enumerate() {
            let text = rule.as_str();
            let mut words = text.split_whitespace();
            let Some(action) = words.next() else {
                args.error(rule, format!("empty filter {nth}"));
                continue;
            };
            let action = match action_of(action, outputs) {
                Ok(action) => action,
                Err(message) => {
                    args.error(rule, message);
                    continue;
                }
            };
            let mut matches = false;
            for word in words {
                match word {
                    _ if all_listed => {}
                    "all" | "-" => {
                        (filter.others, all_listed, matches) = (action, true, true);
                    }
                    word => match range_of(word) {
                        Some((first, last)) => matches |= filter.add(first, last, action),
                        None => args.error(rule, format!("bad aggregate ‘{word}’")),
                    },
                }
            }
            if !matches {
                args.warn(rule, format!("filter {nth} matches no packets"));
            }
        }
        args.complete()?;
        Ok(filter)
    }
}

impl PerPacket for AggregateFilter {
    const ROUTES: bool = true;

    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        match self.action(packet.aggregate()) {
            Some(output) => Way::output(output as u16),
            None => Way::drop(Reason::Filtered),
        }
    }
}

fn action_of(word: &str, outputs: usize) -> Result<Action, String> {
    match word {
        "allow" => Ok(Some(0)),
        "deny" | "drop" => Ok(None),
        number => match number.parse() {
            Ok(output) if output < outputs => Ok(Some(output)),
            Ok(_) => Err(format!("slot ‘{number}’ out of range")),
            Err(_) => Err(format!("unknown slot ID ‘{number}’")),
        },
    }
}

fn range_of(word: &str) -> Option<(u32, u32)> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some((first, last))
}

impl AggregateFilter {
    /// Adds the part of a range that no earlier rule lists; returns whether there is any.
    fn add(&mut self, first: u32, last: u32, action: Action) -> bool {
        let mut gaps = Vec::new();
        let mut next = Some(first);
        for (&end, &(start, _)) in self.ranges.range(first..) {
            let Some(from) = next.filter(|from| start <= last && *from <= last) else { break };
            if from < start {
                gaps.push((from, start - 1));
            }
            next = end.checked_add(1).map(|after| after.max(from));
        }
        if let Some(from) = next.filter(|from| *from <= last) {
            gaps.push((from, last));
        }
        let found = !gaps.is_empty();
        self.ranges.extend(gaps.into_iter().map(|(start, end)| (end, (start, action))));
        found
    }

    fn action(&self, aggregate: u32) -> Action {
        match self.ranges.range(aggregate..).next() {
            Some((_, &(first, action))) if first <= aggregate => action,
            _ => self.others,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_rule_that_lists_it_decides(
            rules in prop::collection::vec((0_u32..40, 0_u32..10, 0_usize..3), 0..12),
        ) {
            let mut filter = AggregateFilter { ranges: BTreeMap::new(), others: None };
            for (first, length, output) in &rules {
                filter.add(*first, first + length, Some(*output));
            }
            for aggregate in 0..60 {
                let rule = rules.iter().find(|(first, length, _)| (*first..=first + length).contains(&aggregate));
                prop_assert_eq!(filter.action(aggregate), rule.map(|rule| rule.2));
            }
        }
    }
}
