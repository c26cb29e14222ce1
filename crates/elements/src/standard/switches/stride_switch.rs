//! StrideSwitch - distributes packets over outputs in proportion to their tickets (stride scheduling)
//!
//! # Synopsis
//! `StrideSwitch(TICKETS0, ..., TICKETSN)`
//!
//! # Description
//! Stride scheduling (Waldspurger and Weihl, 1995): each output has a number of tickets, and receives packets in
//! proportion to its share of all tickets, spread as evenly as possible. An output with no tickets receives none.
//! Each thread schedules its own packets, independently of other threads.
//!
//! # Arguments
//! - TICKETS0, ..., TICKETSN: number of tickets of each output; numbers above 32768 are reduced to 32768.
//!   Positional, mandatory.
//!
//! # Ports
//! One push input, one or more push outputs.
//!
//! # Handlers
//! - `tickets0`, ..., `ticketsN` (read, write): the tickets of one output.
//! - `config` (read): the tickets of all outputs.
//!
//! # Drops
//! - discarded: no output has tickets.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 40) -> s :: StrideSwitch(3, 1);
//! s [0] -> Discard;
//! s [1] -> Discard;
//! ```
//!
//! # See also
//! RoundRobinSwitch, RandomSwitch, HashSwitch

use std::cmp::Reverse;

use millrace_core::element::ANY_HANDLER;
use millrace_core::{
    Class, Element, Failed, HandlerError, Handlers, Moment, PerPacket, Published, Reason, Setup,
    View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct StrideSwitch(Published<Tickets>);

register!(StrideSwitch, "stride_switch.rs");

/// The tickets of all outputs.
struct Tickets {
    /// Number of writes so far.
    writes: u64,
    /// The configured tickets.
    first: Box<[u32]>,
    now: Box<[u32]>,
    /// For each output, the number of the last write that raised its tickets from 0; 0 if there is none.
    entered: Box<[u64]>,
}

/// The schedule of one thread.
#[derive(Default)]
pub struct Outputs {
    each: Vec<Output>,
    /// How often an output's next turn has been set.
    told: u64,
    /// The number of ticket writes that this schedule includes.
    writes: u64,
}

#[derive(Clone, Copy, Default)]
struct Output {
    tickets: u32,
    /// The output with the lowest pass goes next.
    pass: u64,
    /// Sequence number of the last change of `pass`: of outputs with equal passes, the one changed last goes first.
    told: u64,
}

/// The stride of an output with one ticket.
const LONGEST: u32 = 1 << 16;
const MOST_TICKETS: u32 = 1 << 15;

impl Element for StrideSwitch {
    const CLASS: Class = Class::new("StrideSwitch", "1/1-", "h/h");
    type Local = Outputs;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let count = setup.outputs();
        if setup.args.len() != count {
            let message = format!("need {count} arguments, one per output port");
            let help = format!("the numbers of tickets given are {}", setup.args.len());
            setup.args.error_with_help((), message, help);
            return Err(Failed);
        }
        let mut all = Vec::new();
        for at in 0..count {
            let name = format!("TICKETS{at}");
            let tickets: i64 = setup.args.mandatory(&name);
            if tickets < 0 {
                let message = format!("argument {at} (number of tickets) must be >= 0");
                setup.args.error(name.as_str(), message);
            } else if tickets > MOST_TICKETS.into() {
                let message = format!("output {at}'s tickets reduced to {MOST_TICKETS}");
                setup.args.warn(name.as_str(), message);
            }
            all.push(bounded(tickets));
        }
        setup.args.complete()?;
        Ok(Self(Published::new(Tickets {
            writes: 0,
            first: all.clone().into(),
            now: all.into(),
            entered: vec![0; count].into(),
        })))
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("config", |switch, _| {
            let tickets = switch.0.load();
            tickets.now.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
        });
        handlers.try_read(ANY_HANDLER, |switch, call| {
            let tickets = switch.0.load();
            let at = tickets.named(call.handler())?;
            Ok(tickets.now.get(at).copied().unwrap_or(0))
        });
        handlers.write(ANY_HANDLER, |switch, call| {
            let at = switch.0.load().named(call.handler())?;
            let tickets: i64 = call.parse().map_err(|_| "tickets value must be integer")?;
            if tickets < 0 {
                return Err("number of tickets must be >= 0".into());
            }
            switch.0.update(|old| old.with(at, bounded(tickets)));
            Ok(())
        });
    }
}

impl PerPacket for StrideSwitch {
    const ROUTES: bool = true;

    fn treat(&self, outputs: &mut Outputs, _: &mut View, at: &mut Moment) -> Way {
        let tickets = self.0.get(at);
        if outputs.writes != tickets.writes || outputs.each.is_empty() {
            outputs.heed(tickets);
        }
        let Some(next) = outputs.next() else { return Way::drop(Reason::Discarded) };
        outputs.stride(next);
        Way::output(next as u16)
    }
}

fn bounded(tickets: i64) -> u32 {
    u32::try_from(tickets.max(0)).unwrap_or(MOST_TICKETS).min(MOST_TICKETS)
}

impl Tickets {
    /// A copy with the tickets of one output changed.
    fn with(&self, at: usize, tickets: u32) -> Self {
        let writes = self.writes + 1;
        let (mut now, mut entered) = (self.now.clone(), self.entered.clone());
        if let (Some(now), Some(entered)) = (now.get_mut(at), entered.get_mut(at)) {
            if *now == 0 && tickets > 0 {
                *entered = writes;
            }
            *now = tickets;
        }
        Self { writes, first: self.first.clone(), now, entered }
    }

    /// The output of a handler such as `tickets2`.
    fn named(&self, handler: &str) -> Result<usize, HandlerError> {
        let number = handler.strip_prefix("tickets").and_then(|number| number.parse().ok());
        let known = number.filter(|&number| number < self.now.len());
        known.ok_or_else(|| HandlerError::NoHandler(handler.to_owned()))
    }
}

impl Outputs {
    /// Applies the tickets written since the last packet.
    #[cold]
    fn heed(&mut self, tickets: &Tickets) {
        if self.each.is_empty() {
            self.each = vec![Output::default(); tickets.now.len()];
            // In reverse order, so that outputs with equal passes go in port order.
            for (at, tickets) in tickets.first.iter().enumerate().rev() {
                if let Some(output) = self.each.get_mut(at) {
                    output.tickets = *tickets;
                }
                self.stride(at);
            }
        }
        let since = self.writes;
        self.writes = tickets.writes;
        let has_entered = |at: usize| tickets.entered.get(at).is_some_and(|write| *write > since);
        for (at, (output, now)) in self.each.iter_mut().zip(&tickets.now).enumerate() {
            output.tickets = if has_entered(at) { 0 } else { *now };
        }
        let mut entered: Vec<usize> = (0..self.each.len()).filter(|at| has_entered(*at)).collect();
        entered.sort_unstable_by_key(|at| tickets.entered.get(*at));
        entered.into_iter().for_each(|at| self.enter(at, tickets.now.get(at).copied()));
    }

    /// Adds an output that had no tickets, as if it had just had its turn.
    fn enter(&mut self, at: usize, tickets: Option<u32>) {
        let first = self.next().and_then(|first| self.each.get(first)).map(|first| first.pass);
        let Some(output) = self.each.get_mut(at) else { return };
        output.tickets = tickets.unwrap_or(0);
        output.pass = first.unwrap_or(0);
        self.stride(at);
    }

    /// The output whose turn it is.
    fn next(&self) -> Option<usize> {
        let with_tickets = self.each.iter().enumerate().filter(|(_, output)| output.tickets > 0);
        let first = with_tickets.min_by_key(|(_, output)| (output.pass, Reverse(output.told)));
        first.map(|(at, _)| at)
    }

    /// Advances an output's pass by its stride.
    fn stride(&mut self, at: usize) {
        self.told += 1;
        if let Some(output) = self.each.get_mut(at) {
            output.told = self.told;
            output.pass += u64::from(LONGEST.checked_div(output.tickets).unwrap_or(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    fn counts(rig: &mut Rig, packets: usize) -> Vec<usize> {
        rig.push(0, &vec!["a"; packets]).iter().map(Vec::len).collect()
    }

    #[test]
    fn shares_match_the_tickets() {
        let mut rig = Rig::new("StrideSwitch(3, 1, 0, 4)", 1, 4).unwrap();
        let out = counts(&mut rig, 8000);
        for (count, share) in out.iter().zip([3000_usize, 1000, 0, 4000]) {
            assert!(count.abs_diff(share) <= 2, "{out:?}");
        }
        rig.write("tickets0", "0").unwrap();
        rig.write("tickets2", "1").unwrap();
        rig.write("tickets3", "1").unwrap();
        let out = counts(&mut rig, 3000);
        assert_eq!(out[0], 0);
        assert!(out[1..].iter().all(|count| count.abs_diff(1000) <= 2), "{out:?}");
        assert_eq!(rig.read("config").unwrap(), "0, 1, 1, 1");
        assert!(rig.write("tickets4", "1").is_err());
        assert!(rig.write("tickets1", "-1").is_err());
    }

    /// Compares with a sorted list, for bursts of random sizes with ticket writes between them.
    #[test]
    fn outputs_match_those_of_a_sorted_list() {
        let mut random = fastrand::Rng::with_seed(11);
        for _ in 0..40 {
            let mut tickets: Vec<u32> = (0..4).map(|_| random.u32(0..6)).collect();
            let text: Vec<String> = tickets.iter().map(u32::to_string).collect();
            let mut rig = Rig::new(&format!("StrideSwitch({})", text.join(", ")), 1, 4).unwrap();
            let mut row: Vec<(u32, usize)> = Vec::new();
            let enter = |row: &mut Vec<(u32, usize)>, pass: u32, output: usize, tickets: u32| {
                let pass = pass + super::LONGEST.checked_div(tickets).unwrap_or(0);
                row.insert(
                    row.iter().position(|one| one.0 >= pass).unwrap_or(row.len()),
                    (pass, output),
                );
            };
            for output in (0..4).rev().filter(|at| tickets[*at] > 0) {
                enter(&mut row, 0, output, tickets[output]);
            }
            for _ in 0..30 {
                let mut expected = vec![Vec::new(); 4];
                let sent: Vec<_> = (0..random.u8(1..40)).map(|number| vec![number]).collect();
                for packet in &sent {
                    if row.is_empty() {
                        break;
                    }
                    let (pass, output) = row.remove(0);
                    expected[output].push(packet.clone());
                    enter(&mut row, pass, output, tickets[output]);
                }
                assert_eq!(rig.push(0, &sent), expected, "{tickets:?}");
                let (output, new) = (random.usize(0..4), random.u32(0..6));
                rig.write(&format!("tickets{output}"), &new.to_string()).unwrap();
                let first = row.first().map_or(0, |first| first.0);
                match (std::mem::replace(&mut tickets[output], new), new) {
                    (_, 0) => row.retain(|one| one.1 != output),
                    (0, _) => enter(&mut row, first, output, new),
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn without_tickets_all_packets_are_dropped() {
        let mut rig = Rig::new("StrideSwitch(0, 0)", 1, 2).unwrap();
        assert_eq!(counts(&mut rig, 5), [0, 0]);
        assert_eq!(rig.stats().drops, [(Reason::Discarded, 5)]);
        assert!(Rig::new("StrideSwitch(1)", 1, 2).is_err());
        assert!(Rig::new("StrideSwitch(1, -1)", 1, 2).is_err());
    }
}
