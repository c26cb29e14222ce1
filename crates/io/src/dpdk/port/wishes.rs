//! The requests of elements for a port, combined.

use std::sync::atomic::{AtomicUsize, Ordering};

use millrace_core::net::EtherAddress;

use crate::dpdk::abi::{Info, offload};
use crate::dpdk::memory::{FRAME, HEADROOM};
use crate::flow_rule::FlowRule;
use crate::method::{DpdkOptions, Method, Pause};
use crate::options::{RxOptions, TxOptions};

/// The combined requests of the elements that use a port.
#[derive(Default)]
pub(super) struct Wanted {
    pub(super) mtu: Option<u16>,
    pub(super) ether: Option<EtherAddress>,
    pub(super) pause: Option<Pause>,
    pub(super) rss_queues: Option<u16>,
    pub(super) rx_ring: Option<u16>,
    pub(super) tx_ring: Option<u16>,
    pub(super) offloads: u32,
    pub(super) symmetric: bool,
    pub(super) promiscuous: bool,
    pub(super) interrupts: bool,
    pub(super) any_packet: bool,
    pub(super) flow_rules: Vec<(String, FlowRule)>,
    pub(super) flow_isolate: bool,
}

/// Bytes that the buffers of a pool must have so that every port's packets fit in one.
pub(in super::super) fn largest_room() -> u16 {
    // The caller holds the lock of one port, so that cannot be asked for its wishes here.
    let mtu = WIDEST_MTU.load(Ordering::Relaxed) as u32;
    let room = mtu + FRAME + HEADROOM as u32;
    u16::try_from(room.next_multiple_of(64)).unwrap_or(u16::MAX - 1).max(2176)
}

/// The largest MTU that was requested.
static WIDEST_MTU: AtomicUsize = AtomicUsize::new(0);

pub(super) fn ring(descriptors: Option<usize>) -> Result<Option<u16>, String> {
    let ring = |n| u16::try_from(n).map_err(|_| format!("NDESC {n}: rings are smaller"));
    descriptors.filter(|n| *n > 0).map(ring).transpose()
}

/// Sets a value that may be set once, or again to the same value.
pub(super) fn agree<T: PartialEq>(
    place: &mut Option<T>,
    wanted: Option<T>,
    what: &str,
) -> Result<(), String> {
    match (&*place, &wanted) {
        (Some(there), Some(new)) if there != new => {
            Err(format!("elements of this port disagree about {what}"))
        }
        (None, Some(_)) => {
            *place = wanted;
            Ok(())
        }
        _ => Ok(()),
    }
}

pub(super) fn options_from(options: &TxOptions) -> DpdkOptions {
    choices(&options.method)
}

pub(super) fn options_of(
    options: &RxOptions,
    wanted: &mut Wanted,
    info: &Info,
) -> Result<DpdkOptions, String> {
    let own = choices(&options.method);
    merge_options(&own, wanted, info)?;
    wanted.offloads |= if own.rss_aggregate { offload::RSS_HASH } else { 0 };
    Ok(own)
}

/// Combines one element's requests with those of the others.
pub(super) fn merge_options(
    own: &DpdkOptions,
    wanted: &mut Wanted,
    info: &Info,
) -> Result<(), String> {
    if let Some(mtu) = own.mtu.filter(|mtu| u32::from(*mtu) > info.max_mtu && info.max_mtu > 0) {
        return Err(format!("its MTU is at most {}, not {mtu}", info.max_mtu));
    }
    for (on, bit, what) in [
        (own.vlan_filter, offload::VLAN_FILTER, "filter by VLAN"),
        (own.vlan_strip, offload::VLAN_STRIP, "take VLAN tags off"),
        (own.vlan_extend, offload::VLAN_EXTEND, "handle outer VLAN tags"),
    ] {
        if on && info.offloads & bit == 0 {
            return Err(format!("its driver cannot {what}"));
        }
        wanted.offloads |= if on { bit } else { 0 };
    }
    agree(&mut wanted.mtu, own.mtu, "MTU")?;
    agree(&mut wanted.ether, own.ether, "MAC")?;
    agree(&mut wanted.pause, own.pause, "PAUSE")?;
    agree(&mut wanted.rss_queues, own.rss_queues, "MAX_RSS")?;
    WIDEST_MTU.fetch_max(own.mtu.unwrap_or(0).into(), Ordering::Relaxed);
    wanted.interrupts |= own.interrupts;
    wanted.any_packet |= own.any_packet;
    wanted.flow_rules.extend(own.flow_rules.iter().cloned());
    wanted.flow_isolate |= own.flow_isolate;
    Ok(())
}

/// The options of a method that is DPDK.
fn choices(method: &Method) -> DpdkOptions {
    match method {
        Method::Dpdk(options) => options.clone(),
        _ => DpdkOptions::default(),
    }
}
