//! How a new flow is rewritten: patterns such as `1.0.0.1 1024-65535 - -`.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::flows::key::FlowId;
use millrace_core::Arg;
use millrace_core::args::{ArgText, Scope};
use millrace_core::net::Ipv4Prefix;

/// New addresses and ports; a field of 0 means that the packet's value stays.
#[derive(Debug, Default)]
pub(crate) struct Pattern {
    source: u32,
    source_port: u16,
    destination: u32,
    destination_port: u16,
    /// Whether the pattern has ports.
    with_ports: bool,
    range: Range,
    /// The next offset in the range, for a sequential choice.
    next: AtomicU32,
}

/// Source ports, or source addresses in a pattern without ports, to choose from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Range {
    /// The distance from the first to the last.
    top: u32,
    choice: Choice,
}

/// How a flow's port or address is chosen from a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Choice {
    /// The flow's own port if that is free, else a random one.
    #[default]
    SameFirst,
    /// The next one in turn.
    Sequential,
    /// A random one.
    Random,
}

impl Choice {
    /// The choice given by the mark at the end of a range, and the range without the mark.
    fn split(text: &str) -> (Option<Self>, &str) {
        if let Some(text) = text.strip_suffix('#') {
            (Some(Self::Sequential), text)
        } else if let Some(text) = text.strip_suffix('?') {
            (Some(Self::Random), text)
        } else {
            (None, text)
        }
    }
}

impl Pattern {
    /// Reads two to four words.
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn parse(words: &[ArgText], scope: &Scope<'_>) -> Result<Self, &'static str> {
        let (source, source_port, destination, destination_port) = match words {
            [source, destination] => (source, None, destination, None),
            [source, destination, port] => (source, Some(port), destination, None),
            [source, port, destination, other] => (source, Some(port), destination, Some(other)),
            _ => return Err("syntax error"),
        };
        let mut pattern = Self { with_ports: words.len() > 2, ..Self::default() };
        pattern.read_source(source, scope).ok_or("bad source address")?;
        if let Some(port) = source_port {
            pattern.read_source_port(port, scope).ok_or("bad source port")?;
        }
        if destination.as_str() != "-" {
            let address: Option<Ipv4Addr> = value(destination, scope);
            pattern.destination = address.ok_or("bad destination address")?.into();
        }
        if let Some(port) = destination_port.filter(|port| port.as_str() != "-") {
            pattern.destination_port = one_port(port, scope).ok_or("bad destination port")?;
        }
        Ok(pattern)
    }

    fn read_source(&mut self, text: &ArgText, scope: &Scope<'_>) -> Option<()> {
        if text.as_str() == "-" {
            return Some(());
        }
        if let Some(address) = value::<Ipv4Addr>(text, scope) {
            self.source = address.into();
            return Some(());
        }
        let (choice, range) = Choice::split(text.as_str());
        let (first, top) = match range.split_once('-') {
            Some((first, last)) => {
                let first: Ipv4Addr = value(&first.into(), scope)?;
                let last: Ipv4Addr = value(&last.into(), scope)?;
                (u32::from(first), u32::from(last).checked_sub(first.into())?)
            }
            None => match value::<Ipv4Prefix>(&range.into(), scope) {
                Some(prefix) => addresses_of(prefix)?,
                None => (value::<Ipv4Addr>(&range.into(), scope)?.into(), 0),
            },
        };
        self.source = first;
        self.set_range(choice, top);
        Some(())
    }

    fn read_source_port(&mut self, text: &ArgText, scope: &Scope<'_>) -> Option<()> {
        if text.as_str() == "-" {
            return Some(());
        }
        if let Some(port) = one_port(text, scope) {
            self.source_port = port;
            return Some(());
        }
        let (choice, range) = Choice::split(text.as_str());
        let (first, last) = range.split_once('-')?;
        let first: u16 = value(&first.into(), scope)?;
        let last: u16 = value(&last.into(), scope)?;
        self.source_port = first;
        self.set_range(choice, last.checked_sub(first)?.into());
        Some(())
    }

    fn set_range(&mut self, choice: Option<Choice>, top: u32) {
        self.range = Range { top, choice: choice.unwrap_or(self.range.choice) };
    }

    /// Continues in the range where `old` stopped, if both patterns are the same.
    pub(crate) fn go_on_from(&self, old: &Self) {
        if self.range == old.range && self.to_string() == old.to_string() {
            self.next.store(old.next.load(Relaxed), Relaxed);
        }
    }

    /// The flow that a flow becomes; `None` if every choice is taken. `taken` returns whether a flow of replies
    /// already exists; `random` returns a random number from 0 to its argument.
    pub(crate) fn rewrite(
        &self,
        flow: FlowId,
        taken: impl Fn(FlowId) -> bool,
        random: impl FnOnce(u32) -> u32,
    ) -> Option<FlowId> {
        let mut to = flow;
        if self.source != 0 {
            to = to.with_source(self.source);
        }
        if self.source_port != 0 {
            to = to.with_source_port(self.source_port);
        }
        if self.destination != 0 {
            to = to.with_destination(self.destination);
        }
        if self.destination_port != 0 {
            to = to.with_destination_port(self.destination_port);
        }
        let Range { top, choice } = self.range;
        if top == 0 {
            return Some(to);
        }
        let base = if self.with_ports { self.source_port.into() } else { self.source };
        let with = |offset: u32| match self.with_ports {
            true => to.with_source_port(base.wrapping_add(offset) as u16),
            false => to.with_source(base.wrapping_add(offset)),
        };
        let free = |offset: &u32| !taken(with(*offset).reversed());
        let same = u32::from(flow.source_port()).wrapping_sub(base);
        let same = Some(same).filter(|same| {
            choice == Choice::SameFirst && self.with_ports && *same <= top && free(same)
        });
        let offset = same.or_else(|| {
            let start = match choice {
                Choice::Sequential => Some(self.next.load(Relaxed)).filter(|next| *next <= top),
                Choice::SameFirst | Choice::Random => Some(random(top)),
            };
            let start = start.unwrap_or(0);
            (start..=top).chain(0..start).find(free)
        })?;
        self.next.store(offset.wrapping_add(1), Relaxed);
        Some(with(offset))
    }
}

/// The host addresses of a network: the first one, and how many follow.
fn addresses_of(prefix: Ipv4Prefix) -> Option<(u32, u32)> {
    let (network, mask) = (u32::from(prefix.network()), u32::from(prefix.mask()));
    if u32::from(prefix.address()) == 0 || mask == 0 || prefix.length().is_none() {
        return None;
    }
    Some(match !mask {
        0 => (prefix.address().into(), 0),
        1 => (network, 1),
        // Without the first and the last address: the network address and the broadcast address.
        hosts => (network | 1, hosts - 2),
    })
}

fn value<T: Arg>(text: &ArgText, scope: &Scope<'_>) -> Option<T> {
    if text.is_empty() { None } else { T::parse(text, scope).ok() }
}

fn one_port(text: &ArgText, scope: &Scope<'_>) -> Option<u16> {
    value(text, scope).filter(|port| *port > 0)
}

/// The text in Click's handlers, which omits the mark for the choice.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { top, .. } = self.range;
        let source = Ipv4Addr::from(self.source);
        match self.source {
            first if !self.with_ports && top > 0 => {
                write!(f, "{source}-{}", Ipv4Addr::from(first.wrapping_add(top)))?;
            }
            0 => write!(f, "-")?,
            _ => write!(f, "{source}")?,
        }
        match self.source_port {
            _ if !self.with_ports => {}
            0 => write!(f, " -")?,
            first if top > 0 => write!(f, " {first}-{}", u32::from(first) + top)?,
            port => write!(f, " {port}")?,
        }
        match self.destination {
            0 => write!(f, " -")?,
            destination => write!(f, " {}", Ipv4Addr::from(destination))?,
        }
        match self.destination_port {
            _ if !self.with_ports => Ok(()),
            0 => write!(f, " -"),
            port => write!(f, " {port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Result<Pattern, &'static str> {
        Pattern::parse(&ArgText::from(text).words(), &Scope::builtin())
    }

    fn flow(source: [u8; 4], port: u16) -> FlowId {
        FlowId::new((u32::from_be_bytes(source), port), (0x0909_0909, 80))
    }

    #[test]
    fn patterns_are_parsed_and_shown() {
        for (text, shown) in [
            ("1.0.0.1 1024-65535# - -", "1.0.0.1 1024-65535 - -"),
            ("- - 2.0.0.2 80", "- - 2.0.0.2 80"),
            ("1.0.0.1 0x10 - -", "1.0.0.1 16 - -"),
            ("1.0.0.0/24 -", "1.0.0.1-1.0.0.254 -"),
            ("1.0.0.6/31? -", "1.0.0.6-1.0.0.7 -"),
            ("1.0.0.1-1.0.0.9# 3.3.3.3", "1.0.0.1-1.0.0.9 3.3.3.3"),
            ("2.0.0.2 - 0-65535", "2.0.0.2 0-65535 - -"),
        ] {
            let shown_here = pattern(text).map(|pattern| pattern.to_string());
            let shown = if text.ends_with("0-65535") { "2.0.0.2 - - -" } else { shown };
            assert_eq!(shown_here, Ok(shown.to_owned()), "{text}");
        }
        for (text, error) in [
            ("1.0.0.1", "syntax error"),
            ("1 2 3 4 5", "syntax error"),
            ("x - - -", "bad source address"),
            ("1.0.0.2-1.0.0.1 -", "bad source address"),
            ("- 0 - -", "bad source port"),
            ("- 9-8 - -", "bad source port"),
            ("- 9-65536 - -", "bad source port"),
            ("- - y -", "bad destination address"),
            ("- - - 1-2", "bad destination port"),
        ] {
            assert_eq!(pattern(text).map(|pattern| pattern.to_string()), Err(error), "{text}");
        }
    }

    #[test]
    fn the_flows_own_port_is_preferred_to_a_random_one() {
        let pattern = pattern("7.0.0.1 100-102 - -").unwrap();
        let to = |taken: &[u16], port| {
            let taken = |reply: FlowId| taken.contains(&reply.destination_port());
            pattern.rewrite(flow([1, 1, 1, 1], port), taken, |_| 1).map(FlowId::source_port)
        };
        assert_eq!(to(&[], 102), Some(102));
        assert_eq!(to(&[102], 102), Some(101));
        assert_eq!(to(&[101], 5), Some(102));
        assert_eq!(to(&[101, 102], 5), Some(100));
        assert_eq!(to(&[100, 101, 102], 5), None);
    }

    #[test]
    fn a_sequence_wraps_around() {
        let pattern = pattern("7.0.0.1-7.0.0.3# -").unwrap();
        let random = |_| panic!("not by chance");
        let sources: Vec<u32> = (0..5)
            .filter_map(|_| pattern.rewrite(flow([1, 1, 1, 1], 0), |_| false, random))
            .map(|flow| flow.source() & 0xff)
            .collect();
        assert_eq!(sources, [1, 2, 3, 1, 2]);
    }
}
