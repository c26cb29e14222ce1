//! Shared parts of FromDPDKDevice and ToDPDKDevice: port arguments, and handlers that query the
//! port.

use std::io;
use std::sync::Arc;

use millrace_core::args::{Kind, Word};
use millrace_core::net::EtherAddress;
use millrace_core::{Args, Element, HandlerError, Handlers};
use millrace_io::dpdk::{self, Link, Port, PortStats};
use millrace_io::{DpdkOptions, Pause};

/// The maximum number of entries in a DPDK ring.
const MAX_RING: u32 = 32_768;

/// Reads PORT: a number, a PCI address, or a name.
pub(crate) fn port(args: &mut Args<'_>) -> String {
    let word: Word = args.mandatory("PORT");
    word.as_str().to_owned()
}

/// Reads NDESC; 0 selects the driver's default.
pub(crate) fn ring(args: &mut Args<'_>) -> Option<usize> {
    let entries: Option<u32> = args.in_range("NDESC", Kind::Keyword, 0..=MAX_RING);
    entries.filter(|entries| *entries > 0).map(|entries| entries as usize)
}

/// Reads the arguments that apply to the port as a whole.
pub(crate) fn options(args: &mut Args<'_>) -> DpdkOptions {
    let fast_free = args.keyword("FAST_FREE", true);
    DpdkOptions {
        mtu: args.in_range("MTU", Kind::Keyword, 68..=u16::MAX - 512),
        ether: args.optional_keyword::<EtherAddress>("MAC"),
        pause: pause(args),
        any_packet: !fast_free,
        ..DpdkOptions::default()
    }
}

fn pause(args: &mut Args<'_>) -> Option<Pause> {
    let word: Word = args.optional_keyword("PAUSE")?;
    Some(match word.as_str() {
        "unset" => return None,
        "none" => Pause::Neither,
        "rx" => Pause::Receive,
        "tx" => Pause::Transmit,
        "full" => Pause::Both,
        other => {
            let expected = "expected unset, none, rx, tx or full";
            args.error("PAUSE", format!("bad PAUSE ‘{other}’, {expected}"));
            return None;
        }
    })
}

/// Reads FastClick's IPCO, TCO and UCO, which need not do anything: elements compute and check checksums.
pub(crate) fn checksum_offloads(args: &mut Args<'_>) {
    for keyword in ["IPCO", "TCO", "UCO"] {
        let why = "elements such as CheckIPHeader and ResetIPChecksum check and compute checksums";
        args.ignored::<bool>(keyword, Kind::Keyword, why);
    }
}

/// Reads a FastClick option that must be off, and reports why if it is on.
pub(crate) fn refuse(args: &mut Args<'_>, keyword: &str, why: &str) {
    if args.keyword(keyword, false) {
        args.error(keyword, format!("{keyword}: {why}"));
    }
}

/// An element that uses a port.
pub(crate) trait UsesPort: Element {
    /// The port's name in the configuration.
    fn port_name(&self) -> &str;
}

fn find<E: UsesPort>(element: &E) -> Result<Arc<Port>, HandlerError> {
    let name = element.port_name();
    dpdk::port(name).ok_or_else(|| HandlerError::Refused(format!("DPDK has no port ‘{name}’")))
}

fn failed(error: io::Error) -> HandlerError {
    HandlerError::Refused(error.to_string())
}

/// Registers the handlers for the port and its link.
pub(crate) fn handlers<E: UsesPort>(handlers: &mut Handlers<E>) {
    handlers.try_read("device", |e, _| Ok(find(e)?.number()));
    handlers.try_read("driver", |e, _| Ok(find(e)?.driver().to_owned()));
    handlers.try_read("vendor", |e, _| Ok(find(e)?.vendor()));
    handlers.try_read("mac", |e, _| Ok(find(e)?.ether().to_string()));
    handlers.try_read("mtu", |e, _| Ok(find(e)?.mtu()));
    handlers.try_read("nb_rx_queues", |e, _| Ok(find(e)?.queues().0));
    handlers.try_read("nb_tx_queues", |e, _| Ok(find(e)?.queues().1));
    let link = |e: &E| -> Result<Link, HandlerError> { find(e)?.link().map_err(failed) };
    handlers.try_read("carrier", move |e, _| Ok(link(e)?.up));
    handlers.try_read("duplex", move |e, _| {
        let link = link(e)?;
        Ok(if link.up == 0 { -1 } else { i32::from(link.full_duplex) })
    });
    handlers.try_read("autoneg", move |e, _| Ok(link(e)?.autonegotiated));
    handlers.try_read("speed", move |e, _| Ok(link(e)?.speed));
    handlers.try_read("xstats", |e, call| {
        let all = find(e)?.xstats().map_err(failed)?;
        let wanted = call.text();
        if wanted.is_empty() {
            let lines = all.iter().map(|(name, value)| format!("{name} = {value}\n"));
            return Ok(lines.collect::<String>());
        }
        let found = all.iter().find(|(name, _)| *name == wanted);
        let missing = || HandlerError::Refused(format!("its driver does not count ‘{wanted}’"));
        found.map(|(_, value)| value.to_string()).ok_or_else(missing)
    });
    handlers.write("add_mac", |e, call| {
        let address: EtherAddress = call.parse()?;
        find(e)?.add_ether(address).map_err(failed)
    });
    handlers.write("remove_mac", |e, call| {
        let address: EtherAddress = call.parse()?;
        find(e)?.remove_ether(address).map_err(failed)
    });
}

/// Registers a handler that reads one of the port's counters.
pub(crate) fn counter<E: UsesPort>(
    handlers: &mut Handlers<E>,
    name: &str,
    count: fn(&PortStats) -> u64,
) {
    handlers.try_read(name, move |e, _| Ok(count(&find(e)?.stats().map_err(failed)?)));
}

/// Registers `queue_count`: packets waiting in the receive rings.
pub(crate) fn queue_count<E: UsesPort>(handlers: &mut Handlers<E>) {
    handlers.try_read("queue_count", |e, call| {
        let port = find(e)?;
        if !call.text().is_empty() {
            return Ok(port.waiting(call.parse()?).map_err(failed)?.to_string());
        }
        let mut lines = String::new();
        for queue in 0..port.queues().0 {
            let waiting = port.waiting(queue as u16).map_err(failed)?;
            lines.push_str(&format!("{queue} = {waiting}\n"));
        }
        Ok(lines)
    });
}
