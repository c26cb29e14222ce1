//! The interface between the program and the plugin: one table of functions and the structures that they
//! fill.
//!
//! `crates/dpdk/src/shim.c` declares the same in C. A change in one file needs the same change in the other
//! and a higher [`ABI`]; the sizes in the table are a second safeguard. Functions that can fail return 0 or a
//! count, or the negative number of an error (`errno.h`); [`Table::messages`] has DPDK's own messages.

use std::ffi::{c_char, c_int, c_uint, c_void};

use millrace_core::memory::Descriptor;

/// The version of this interface.
pub(super) const ABI: u32 = 2;

/// The function that returns the table.
pub(super) const SYMBOL: &str = "millrace_dpdk";

/// An mbuf, which is a packet's descriptor.
pub(super) type Mbuf = *mut Descriptor;

/// A mempool of mbufs.
pub(super) type Pool = *mut c_void;

/// A ring of mbufs, which may be shared with other processes.
pub(super) type Ring = *mut c_void;

/// What is known about a port before it is opened.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Info {
    /// The device's name: `net_null0`, `0000:03:00.0`.
    pub(super) name: [c_char; 64],
    /// The driver's name.
    pub(super) driver: [c_char; 32],
    pub(super) max_rx_queues: u16,
    pub(super) max_tx_queues: u16,
    /// Flow types that it can hash; 0 when it cannot distribute packets by flow.
    pub(super) spreads: u64,
    /// The NUMA node, or negative.
    pub(super) node: i32,
    pub(super) max_mtu: u32,
    pub(super) mtu: u16,
    pub(super) mac: [u8; 6],
    /// Bits of [`offload`].
    pub(super) offloads: u32,
    /// Whether it is hardware that reads memory itself.
    pub(super) reads_memory: u8,
    pub(super) reserved: [u8; 7],
}

/// Bits of [`Info::offloads`] and [`Config::offloads`].
pub(super) mod offload {
    /// The hash over the flow comes with the packet.
    pub(in super::super) const RSS_HASH: u32 = 1 << 0;
    /// Tags of other VLANs are filtered out.
    pub(in super::super) const VLAN_FILTER: u32 = 1 << 1;
    /// The VLAN tag is removed.
    pub(in super::super) const VLAN_STRIP: u32 = 1 << 2;
    /// Outer VLAN tags are understood.
    pub(in super::super) const VLAN_EXTEND: u32 = 1 << 3;
    /// Mbufs of one pool that are not shared are freed in one go.
    pub(in super::super) const FAST_FREE: u32 = 1 << 4;
}

/// How to open a port, and how it was opened.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    /// Queues requested; returns those opened.
    pub(super) rx_queues: u16,
    pub(super) tx_queues: u16,
    /// Entries of a ring, 0 for the driver's choice; returns the actual number.
    pub(super) rx_ring: u16,
    pub(super) tx_ring: u16,
    /// The MTU; 0 leaves it unchanged.
    pub(super) mtu: u16,
    /// Bytes of an mbuf's buffer, including headroom.
    pub(super) room: u16,
    /// Mbufs of the node's pool, and how many a thread keeps.
    pub(super) mbufs: u32,
    pub(super) cache: u32,
    /// Bits of [`offload`]; returns those that are available.
    pub(super) offloads: u32,
    /// Whether both directions of a connection go to one queue.
    pub(super) symmetric: u8,
    pub(super) promiscuous: u8,
    pub(super) rx_interrupts: u8,
    pub(super) set_mac: u8,
    pub(super) mac: [u8; 6],
    /// Pause frames: 0 leaves them, 1 none, 2 obeys them, 3 sends them, 4 both.
    pub(super) pause: u8,
    /// Whether the driver distributes packets over the queues (returned).
    pub(super) spread: u8,
    /// Prefetch, host and write-back thresholds of receive, then of transmit rings; negative for the driver's
    /// own.
    pub(super) thresholds: [i16; 6],
    /// The maximum number of queues over which packets are distributed by flow; 0 for all.
    pub(super) rss_queues: u16,
    /// Whether only packets of flows with a rule are received.
    pub(super) isolate: u16,
    pub(super) reserved: [u16; 2],
    /// The pool that received packets come from (returned).
    pub(super) pool: Pool,
    /// The pool of mbufs that point to other memory (returned).
    pub(super) shells: Pool,
    /// The step that failed (returned).
    pub(super) failed: *const c_char,
}

/// A port's counts since it was opened.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets received.
    pub received: u64,
    /// Packets transmitted.
    pub transmitted: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes transmitted.
    pub transmitted_bytes: u64,
    /// Packets that the device lost because they were not received in time.
    pub missed: u64,
    /// Packets that arrived with errors.
    pub receive_errors: u64,
    /// Packets that could not be transmitted.
    pub transmit_errors: u64,
    /// Packets for which there was no mbuf.
    pub no_mbuf: u64,
}

/// The state of a port's link.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Megabits a second; `u32::MAX` when the driver does not know.
    pub speed: u32,
    /// Whether it is up.
    pub up: u8,
    /// Whether both ends can send at once.
    pub full_duplex: u8,
    /// Whether speed and duplex were negotiated.
    pub autonegotiated: u8,
    pub(super) reserved: u8,
}

/// A header of a rule's pattern.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowItem {
    pub(super) kind: u32,
    pub(super) value: [u8; 40],
    pub(super) mask: [u8; 40],
}

/// An action of a rule: 1 for a queue, 2 to drop, 3 to count, 4 to do nothing.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowAction {
    pub(super) kind: u32,
    pub(super) value: u32,
}

/// A rule for flows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub(super) group: u32,
    pub(super) priority: u32,
    pub(super) items: u32,
    pub(super) actions: u32,
    pub(super) item: *const FlowItem,
    pub(super) action: *const FlowAction,
}

/// A counter of a driver, in addition to [`PortStats`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct XStat {
    pub(super) name: [c_char; 64],
    pub(super) value: u64,
}

/// Sizes of structures and offsets of fields that must be the same on both sides.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) table: u32,
    pub(super) info: u32,
    pub(super) config: u32,
    pub(super) stats: u32,
    pub(super) link: u32,
    pub(super) xstat: u32,
    /// Bytes of an mbuf including its private area.
    pub(super) mbuf: u32,
    pub(super) reserved: u32,
}

impl Layout {
    /// Ours.
    pub(super) const HOST: Layout = Layout {
        table: size_of::<Table>() as u32,
        info: size_of::<Info>() as u32,
        config: size_of::<Config>() as u32,
        stats: size_of::<PortStats>() as u32,
        link: size_of::<Link>() as u32,
        xstat: size_of::<XStat>() as u32,
        mbuf: size_of::<Descriptor>() as u32,
        reserved: 0,
    };
}

/// The plugin.
#[repr(C)]
pub(super) struct Table {
    pub(super) abi: u32,
    pub(super) layout: Layout,
    /// DPDK's version, as text.
    pub(super) version: unsafe extern "C" fn() -> *const c_char,
    /// Starts DPDK's environment, once in a process; `released` gets back what was passed to
    /// [`attach`](Self::attach). With `verbose`, DPDK's messages go to standard error.
    pub(super) start: unsafe extern "C" fn(
        count: c_int,
        options: *const *const c_char,
        verbose: c_int,
        released: unsafe extern "C" fn(*mut c_void),
    ) -> c_int,
    /// Returns DPDK's messages since the last call, and their length in bytes.
    pub(super) messages: unsafe extern "C" fn(to: *mut c_char, room: usize) -> usize,
    /// Closes every port. Returns the number of mbufs that did not come back; if there are none, it ends the
    /// environment, and no other function may be called any more.
    pub(super) finish: unsafe extern "C" fn() -> c_uint,
    /// Registers the calling thread, so that it has its own cache of mbufs.
    pub(super) register: unsafe extern "C" fn() -> c_int,
    pub(super) unregister: unsafe extern "C" fn(),

    /// Writes the numbers of the ports, as many as there is room for; returns how many there are.
    pub(super) ports: unsafe extern "C" fn(to: *mut u16, room: c_uint) -> c_uint,
    /// The port of a device.
    pub(super) find: unsafe extern "C" fn(name: *const c_char) -> c_int,
    pub(super) info: unsafe extern "C" fn(port: u16, to: *mut Info) -> c_int,
    /// Configures a port with all of its queues and starts it.
    pub(super) open: unsafe extern "C" fn(port: u16, config: *mut Config) -> c_int,
    pub(super) close: unsafe extern "C" fn(port: u16) -> c_int,
    /// Lets a port read memory that is not DPDK's.
    pub(super) map:
        unsafe extern "C" fn(port: u16, base: *mut c_void, len: usize, page: usize) -> c_int,

    /// Receives up to `room` mbufs.
    pub(super) receive:
        unsafe extern "C" fn(port: u16, queue: u16, to: *mut Mbuf, room: u16) -> u16,
    /// Transmits mbufs from the front; returns how many were accepted.
    pub(super) transmit:
        unsafe extern "C" fn(port: u16, queue: u16, mbufs: *mut Mbuf, count: u16) -> u16,
    /// Frees mbufs that are not shared.
    pub(super) release: unsafe extern "C" fn(mbufs: *const Mbuf, count: c_uint),
    /// Copies all segments of an mbuf, `length` bytes in total.
    pub(super) read: unsafe extern "C" fn(mbuf: Mbuf, to: *mut c_void, length: u32) -> c_int,
    /// Makes an mbuf that points to one of our buffers; null when there is none left. `owner` is passed to
    /// `released` when the device is done with it.
    pub(super) attach: unsafe extern "C" fn(
        shells: Pool,
        buffer: *mut c_void,
        room: u16,
        offset: u16,
        length: u16,
        owner: *mut c_void,
    ) -> Mbuf,
    /// Makes an mbuf with a copy of these bytes; null when there is none left or they do not fit.
    pub(super) copy: unsafe extern "C" fn(pool: Pool, bytes: *const c_void, length: u32) -> Mbuf,

    pub(super) stats: unsafe extern "C" fn(port: u16, to: *mut PortStats) -> c_int,
    pub(super) reset_stats: unsafe extern "C" fn(port: u16) -> c_int,
    /// Like [`ports`](Self::ports).
    pub(super) xstats: unsafe extern "C" fn(port: u16, to: *mut XStat, room: c_uint) -> c_int,
    pub(super) link: unsafe extern "C" fn(port: u16, to: *mut Link) -> c_int,
    pub(super) set_mtu: unsafe extern "C" fn(port: u16, mtu: u16) -> c_int,
    pub(super) set_mac: unsafe extern "C" fn(port: u16, mac: *const u8) -> c_int,
    pub(super) add_mac: unsafe extern "C" fn(port: u16, mac: *const u8) -> c_int,
    pub(super) remove_mac: unsafe extern "C" fn(port: u16, mac: *const u8) -> c_int,
    /// Packets that wait in a receive ring.
    pub(super) waiting: unsafe extern "C" fn(port: u16, queue: u16) -> c_int,
    /// The descriptor that a receive queue's interrupts make readable.
    pub(super) interrupt: unsafe extern "C" fn(port: u16, queue: u16) -> c_int,
    /// Turns a receive queue's interrupts on or off.
    pub(super) set_interrupt: unsafe extern "C" fn(port: u16, queue: u16, on: c_int) -> c_int,
    /// Names, sizes and free mbufs of the pools, one line each.
    pub(super) pools: unsafe extern "C" fn(to: *mut c_char, room: usize) -> usize,

    /// Finds or makes the ring with this name, and fills in the pools of the node. Returns its capacity.
    pub(super) open_ring: unsafe extern "C" fn(
        name: *const c_char,
        entries: c_uint,
        socket: c_int,
        config: *mut Config,
        to: *mut Ring,
    ) -> c_int,
    /// Puts mbufs into a ring from the front; returns how many there was room for.
    pub(super) put: unsafe extern "C" fn(ring: Ring, mbufs: *mut Mbuf, count: c_uint) -> c_uint,
    /// Takes up to `room` mbufs out of a ring.
    pub(super) get: unsafe extern "C" fn(ring: Ring, to: *mut Mbuf, room: c_uint) -> c_uint,

    /// Installs a rule for flows; writes DPDK's reason if it cannot.
    pub(super) add_flow: unsafe extern "C" fn(
        port: u16,
        from: *const Flow,
        to: *mut *mut c_void,
        reason: *mut c_char,
        room: usize,
    ) -> c_int,
    pub(super) remove_flow: unsafe extern "C" fn(port: u16, flow: *mut c_void) -> c_int,
    /// Writes the queue of each bucket of the hash table if there is room; returns how many buckets there are.
    pub(super) reta: unsafe extern "C" fn(port: u16, to: *mut u16, room: c_uint) -> c_int,
    pub(super) set_reta: unsafe extern "C" fn(port: u16, from: *const u16, count: c_uint) -> c_int,
}
