//! The packet descriptor: 192 bytes in front of every packet buffer.
//!
//! Lines 0 and 1 have the layout of `struct rte_mbuf` in DPDK 22.11 on x86-64 (`rte_mbuf_core.h`), so that an
//! mbuf whose pool has 64 bytes of private area *is* a packet and needs no conversion. Line 2, the private
//! area, is ours: annotations, timestamp, header offsets and flags. The fast path touches lines 0 and 2. Only
//! the kernel-bypass drivers and shared or large packets use line 1.

use std::mem::{offset_of, size_of};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

/// Bytes of a descriptor; its buffer follows directly.
pub(crate) const DESCRIPTOR_LEN: usize = 192;

/// Bytes of the annotation area.
pub const ANNOTATION_LEN: usize = 48;

/// A header offset that means "not set".
pub(super) const NO_HEADER: u16 = u16::MAX;

/// A device number that means "none" (DPDK's `RTE_MBUF_PORT_INVALID`).
pub(super) const NO_DEVICE: u16 = u16::MAX;

/// `buf_len` of a buffer whose length may not fit in 16 bits; `capacity` has the actual length.
pub(super) const LARGE: u16 = u16::MAX;

/// The reference count of a shell: a descriptor without a buffer of its own.
const SHELL: u16 = 0x8000;

/// The count bits of a reference count.
const COUNT: u16 = 0x01ff;

/// The bits for the thread that alone changes the count, without atomic instructions; 0 when every holder may
/// change it, with atomic instructions.
const TAG: u16 = 0x7e00;

/// The number of tags.
pub(super) const TAGS: usize = (TAG / TAG_STEP) as usize;

/// From one tag to the next.
const TAG_STEP: u16 = COUNT + 1;

/// How often one buffer may be shared before `share` copies instead. The remaining range leaves room for all
/// threads to see one share fewer at the same time.
pub(super) const MAX_SHARES: u16 = 0x0180;

/// Low bits of `flags`: the packet type.
pub(super) const FLAG_TYPE_MASK: u16 = 0x7;
/// The slot belongs to a pool that is not ours (a DPDK mempool).
pub(super) const FLAG_EXTERNAL: u16 = 0x8;

/// `ol_flags` bit that means that `rss` has a hash computed by the device (`RTE_MBUF_F_RX_RSS_HASH`).
pub(super) const OL_RSS_HASH: u64 = 1 << 1;

/// `ol_flags` bits of an mbuf that uses another mbuf's buffer (`RTE_MBUF_F_INDIRECT`) or memory outside of
/// its pool (`RTE_MBUF_F_EXTERNAL`).
const OL_INDIRECT: u64 = 1 << 62;
const OL_EXTERNAL: u64 = 1 << 61;

/// One packet's metadata. Fields of lines 0 and 1 have DPDK's names.
#[repr(C, align(64))]
pub struct Descriptor {
    buf_addr: *mut u8,
    buf_iova: u64,
    data_off: u16,
    refcnt: AtomicU16,
    nb_segs: u16,
    port: u16,
    ol_flags: u64,
    packet_type: u32,
    pkt_len: u32,
    data_len: u16,
    vlan_tci: u16,
    rss: u32,
    hash_hi: u32,
    vlan_tci_outer: u16,
    buf_len: u16,
    pool: *const (),

    next: *mut Descriptor,
    tx_offload: u64,
    /// In a shell, the owner of the buffer that it uses (DPDK: shared data of an external buffer).
    owner: *mut Descriptor,
    priv_size: u16,
    timesync: u16,
    /// Bytes of the buffer, for our own slots (DPDK: first word of the dynamic fields).
    capacity: u32,
    dynfield: [u32; 8],

    annotations: [u64; ANNOTATION_LEN / 8],
    timestamp: i64,
    network: u16,
    mac: u16,
    transport: u16,
    flags: u16,
}

const _: () = {
    assert!(size_of::<Descriptor>() == DESCRIPTOR_LEN);
    assert!(offset_of!(Descriptor, buf_addr) == 0);
    assert!(offset_of!(Descriptor, buf_iova) == 8);
    assert!(offset_of!(Descriptor, data_off) == 16);
    assert!(offset_of!(Descriptor, refcnt) == 18);
    assert!(offset_of!(Descriptor, nb_segs) == 20);
    assert!(offset_of!(Descriptor, port) == 22);
    assert!(offset_of!(Descriptor, ol_flags) == 24);
    assert!(offset_of!(Descriptor, packet_type) == 32);
    assert!(offset_of!(Descriptor, pkt_len) == 36);
    assert!(offset_of!(Descriptor, data_len) == 40);
    assert!(offset_of!(Descriptor, vlan_tci) == 42);
    assert!(offset_of!(Descriptor, rss) == 44);
    assert!(offset_of!(Descriptor, vlan_tci_outer) == 52);
    assert!(offset_of!(Descriptor, buf_len) == 54);
    assert!(offset_of!(Descriptor, pool) == 56);
    assert!(offset_of!(Descriptor, next) == 64);
    assert!(offset_of!(Descriptor, tx_offload) == 72);
    assert!(offset_of!(Descriptor, owner) == 80);
    assert!(offset_of!(Descriptor, priv_size) == 88);
    assert!(offset_of!(Descriptor, timesync) == 90);
    assert!(offset_of!(Descriptor, capacity) == 92);
    assert!(offset_of!(Descriptor, annotations) == 128);
    assert!(offset_of!(Descriptor, timestamp) == 176);
    assert!(offset_of!(Descriptor, transport) == 188);
    assert!(offset_of!(Descriptor, flags) == 190);
};

/// `data_off` to `port`, written at once. DPDK rearms a received mbuf in the same way.
#[repr(C, align(8))]
struct Rearm {
    data_off: u16,
    refcnt: u16,
    nb_segs: u16,
    port: u16,
}

/// `pkt_len` to `vlan_tci`, written at once.
#[repr(C, align(4))]
struct Lengths {
    pkt_len: u32,
    data_len: u16,
    vlan_tci: u16,
}

/// The length of a segment as drivers see it; no driver accepts a longer one.
#[inline(always)]
fn data_len(len: u32) -> u16 {
    len.min(u16::MAX.into()) as u16
}

/// Line 2, written at once.
#[repr(C, align(64))]
struct Private {
    annotations: [u64; ANNOTATION_LEN / 8],
    timestamp: i64,
    /// Network, link layer, transport.
    headers: [u16; 3],
    flags: u16,
}

/// Bytes in front of the data that a driver leaves free (`RTE_PKTMBUF_HEADROOM`).
const HEADROOM: u16 = 128;

impl Private {
    /// The last word of a received mbuf's line 2, on little-endian machines.
    const PLAIN_HEADERS: u64 = NO_HEADER as u64
        | (HEADROOM as u64) << 16
        | (NO_HEADER as u64) << 32
        | (FLAG_EXTERNAL as u64) << 48;

    const EMPTY: Private = Private {
        annotations: [0; ANNOTATION_LEN / 8],
        timestamp: 0,
        headers: [NO_HEADER; 3],
        flags: 0,
    };
}

const _: () = {
    assert!(size_of::<Rearm>() == 8 && size_of::<Private>() == 64);
    assert!(size_of::<Lengths>() == 8 && offset_of!(Descriptor, pkt_len) % 4 == 0);
    assert!(offset_of!(Descriptor, data_off) % 8 == 0);
    assert!(offset_of!(Descriptor, annotations) + offset_of!(Private, timestamp) == 176);
    assert!(offset_of!(Descriptor, network) == 128 + offset_of!(Private, headers));
    assert!(offset_of!(Descriptor, mac) == offset_of!(Descriptor, network) + 2);
    assert!(offset_of!(Descriptor, network) % 8 == 0);
    assert!(offset_of!(Descriptor, ol_flags) + 32 == offset_of!(Descriptor, pool));
};

/// The result of releasing a reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LetGo {
    /// Other packets hold the buffer.
    Shared,
    /// No packet holds it any more.
    Last,
    /// Nothing was done: only the thread with this tag may change the count.
    Elsewhere(u16),
}

/// A pointer to a live descriptor.
///
/// Invariant of the module: a `Slot` exists only for memory that [`Slot::carve`] initialised (or that a
/// driver handed over as an mbuf) and that is never unmapped while the process runs, or is a heap slot that
/// its only holder has not freed. Only the holder of the slot (a `Packet`, a free list) writes its plain
/// fields; only the reference count is touched by several threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(crate) struct Slot(NonNull<Descriptor>);

// SAFETY: a slot is a pointer; what may be done with it is said at its type and kept by `Packet` and the
// free lists, each of which moves between threads as a whole.
unsafe impl Send for Slot {}

macro_rules! plain_fields {
    ($($get:ident, $set:ident: $type:ty;)*) => { $(
        #[inline(always)]
        pub(super) fn $get(self) -> $type {
            // SAFETY: the descriptor is live (invariant of `Slot`) and the holder alone writes this field.
            unsafe { (*self.0.as_ptr()).$get }
        }

        #[inline(always)]
        pub(super) fn $set(self, value: $type) {
            // SAFETY: the descriptor is live (invariant of `Slot`) and only its holder calls setters.
            unsafe { (*self.0.as_ptr()).$get = value }
        }
    )* };
}

impl Slot {
    plain_fields! {
        buf_addr, set_buf_addr: *mut u8;
        data_off, set_data_off: u16;
        port, set_port: u16;
        ol_flags, set_ol_flags: u64;
        rss, set_rss: u32;
        timestamp, set_timestamp: i64;
        mac, set_mac: u16;
        network, set_network: u16;
        transport, set_transport: u16;
        flags, set_flags: u16;
    }

    /// `data_off`, read as exactly two bytes. If only its low half matters, the compiler would otherwise read
    /// four bytes, and such a load after the store of two waits until the store has left the processor:
    /// fifteen cycles.
    #[inline(always)]
    pub(super) fn data_off_alone(self) -> u16 {
        // SAFETY: as in `data_off`; nobody else writes the field.
        unsafe { std::ptr::read_volatile(&raw const (*self.0.as_ptr()).data_off) }
    }

    /// The number of bytes of data.
    #[inline(always)]
    pub(super) fn pkt_len(self) -> u32 {
        // SAFETY: live descriptor, written by its holder alone.
        unsafe { (*self.0.as_ptr()).pkt_len }
    }

    /// Sets the length of the data in bytes, in both places where drivers read it.
    #[inline(always)]
    pub(super) fn set_pkt_len(self, len: u32) {
        // SAFETY: live descriptor, called by its one holder.
        unsafe {
            (*self.0.as_ptr()).pkt_len = len;
            (*self.0.as_ptr()).data_len = data_len(len);
        }
    }

    /// The slot whose buffer a shell uses.
    #[inline]
    fn owner(self) -> *mut Descriptor {
        // SAFETY: live descriptor, written by its holder alone.
        unsafe { (*self.0.as_ptr()).owner }
    }

    /// Bytes of the buffer, or [`LARGE`].
    #[inline(always)]
    pub(super) fn buf_len(self) -> u16 {
        // SAFETY: live descriptor, written by its holder alone.
        unsafe { (*self.0.as_ptr()).buf_len }
    }

    /// The pool that carved the slot, of whatever type; null for one on the heap.
    #[inline(always)]
    pub(super) fn pool(self) -> *const () {
        // SAFETY: live descriptor; the field is written once, by `carve`.
        unsafe { (*self.0.as_ptr()).pool }
    }

    /// Bytes of the slot's own buffer, for our own slots.
    #[inline]
    pub(super) fn capacity(self) -> u32 {
        // SAFETY: live descriptor; the field is written once, by `carve`.
        unsafe { (*self.0.as_ptr()).capacity }
    }

    /// # Safety
    /// `descriptor` is live according to the type's invariant.
    #[inline(always)]
    pub(super) unsafe fn from_raw(descriptor: NonNull<Descriptor>) -> Slot {
        Slot(descriptor)
    }

    #[inline(always)]
    pub(crate) fn as_ptr(self) -> *mut Descriptor {
        self.0.as_ptr()
    }

    #[inline(always)]
    pub(super) fn as_non_null(self) -> NonNull<Descriptor> {
        self.0
    }

    /// Makes a slot from raw memory.
    ///
    /// # Safety
    /// `memory` is aligned to 64 bytes, initialised, unused, writable for `DESCRIPTOR_LEN + capacity` bytes
    /// and stays mapped as the type's invariant requires.
    pub(super) unsafe fn carve(memory: NonNull<u8>, capacity: u32, pool: *const ()) -> Slot {
        let raw = memory.cast::<Descriptor>();
        // SAFETY: the caller grants the memory; the buffer starts one descriptor further, at most one past
        // the end when the capacity is 0.
        unsafe {
            raw.write(Descriptor {
                buf_addr: memory.as_ptr().add(DESCRIPTOR_LEN),
                buf_iova: 0,
                data_off: 0,
                refcnt: AtomicU16::new(if capacity == 0 { SHELL } else { 1 }),
                nb_segs: 1,
                port: NO_DEVICE,
                ol_flags: 0,
                packet_type: 0,
                pkt_len: 0,
                data_len: 0,
                vlan_tci: 0,
                rss: 0,
                hash_hi: 0,
                vlan_tci_outer: 0,
                buf_len: u16::try_from(capacity).unwrap_or(LARGE),
                pool,
                next: std::ptr::null_mut(),
                tx_offload: 0,
                owner: std::ptr::null_mut(),
                priv_size: (DESCRIPTOR_LEN - 128) as u16,
                timesync: 0,
                capacity,
                dynfield: [0; 8],
                annotations: [0; ANNOTATION_LEN / 8],
                timestamp: 0,
                network: NO_HEADER,
                mac: NO_HEADER,
                transport: NO_HEADER,
                flags: 0,
            });
        }
        Slot(raw)
    }

    /// Starts a packet's life in a slot with a buffer: clears the state of the previous packet, with one
    /// store for each eight bytes of line 0 and four for line 2.
    #[inline(always)]
    pub(super) fn reset(self, data_off: u16, len: u32) {
        let d = self.0.as_ptr();
        // SAFETY: live descriptor, called by its one holder; no reference to it exists meanwhile. The field
        // groups are laid out as the structs written over them (asserted below).
        unsafe {
            let rearm = Rearm { data_off, refcnt: 1, nb_segs: 1, port: NO_DEVICE };
            (&raw mut (*d).data_off).cast::<Rearm>().write(rearm);
            (*d).ol_flags = 0;
            (*d).packet_type = 0;
            let lengths = Lengths { pkt_len: len, data_len: data_len(len), vlan_tci: 0 };
            (&raw mut (*d).pkt_len).cast::<Lengths>().write(lengths);
            (&raw mut (*d).annotations).cast::<Private>().write(Private::EMPTY);
        }
    }

    /// Prepares line 2 of a slot from a foreign pool, whose lines 0 and 1 its driver has filled in.
    #[inline(always)]
    pub(super) fn adopt(self, mac: u16) {
        let headers = [NO_HEADER, mac, NO_HEADER];
        let private = Private { headers, flags: FLAG_EXTERNAL, ..Private::EMPTY };
        // SAFETY: live descriptor, called by its one holder; line 2 is a `Private`.
        unsafe { (&raw mut (*self.0.as_ptr()).annotations).cast::<Private>().write(private) };
    }

    /// Like [`adopt`](Slot::adopt), for a packet that a driver has just received, with the MAC header at the
    /// start of the data as in nearly all packets, the [plain](Slot::is_plain) ones. It is one store where
    /// the compiler may use 64-byte stores.
    #[inline(always)]
    pub(super) fn adopt_plain(self) {
        const LINE: [u64; 8] = [0, 0, 0, 0, 0, 0, 0, Private::PLAIN_HEADERS];
        // SAFETY: live descriptor, called by its one holder; line 2 is a `Private`, whose last word is headers
        // and flags.
        unsafe { (&raw mut (*self.0.as_ptr()).annotations).cast::<[u64; 8]>().write(LINE) };
    }

    /// `data_off`, the reference count, `nb_segs` and `port` of an mbuf that a driver has just handed over.
    #[inline(always)]
    pub(super) fn rearm_word(self) -> u64 {
        // SAFETY: live descriptor; the four fields are a `Rearm`, and a driver that could change the count has
        // handed the mbuf over.
        unsafe { (&raw const (*self.0.as_ptr()).data_off).cast::<u64>().read() }
    }

    /// Whether, by its [rearm word](Slot::rearm_word), a packet's data starts after DPDK's headroom, it is
    /// not shared, and it has one segment.
    #[inline(always)]
    pub(super) fn is_plain(rearm: u64) -> bool {
        const PLAIN: u64 = HEADROOM as u64 | 1 << 16 | 1 << 32;
        const PORT: u64 = 0xffff << 48;
        rearm & !PORT == PLAIN
    }

    /// The positions of all headers and the flags, in one word: the network header in the lowest 16 bits,
    /// then the link-layer header, the transport header, and the flags.
    #[inline(always)]
    pub(super) fn headers(self) -> u64 {
        // SAFETY: live descriptor, written by its holder alone; the four fields are one word (asserted above).
        unsafe { (&raw const (*self.0.as_ptr()).network).cast::<u64>().read() }
    }

    /// Sets the positions of all headers and the flags, in the form that [`headers`](Slot::headers) returns.
    #[inline(always)]
    pub(super) fn set_headers(self, headers: u64) {
        // SAFETY: live descriptor, called by its one holder; the four fields are one word (asserted above).
        unsafe { (&raw mut (*self.0.as_ptr()).network).cast::<u64>().write(headers) };
    }

    /// Sets the start and the length of the data, both of which fit in 16 bits.
    #[inline(always)]
    pub(super) fn set_short_window(self, data_off: u16, len: u16) {
        // SAFETY: live descriptor, called by its one holder.
        unsafe {
            (*self.0.as_ptr()).data_off = data_off;
            (*self.0.as_ptr()).pkt_len = len.into();
            (*self.0.as_ptr()).data_len = len;
        }
    }

    /// The position of the transport header and the flags, in one word.
    #[inline(always)]
    pub(super) fn last_word(self) -> u32 {
        // SAFETY: live descriptor, written by its holder alone; the two fields are one word (asserted above).
        unsafe { (&raw const (*self.0.as_ptr()).transport).cast::<u32>().read() }
    }

    /// The bit of the [last word](Slot::last_word) that is set in every mbuf.
    pub(super) const EXTERNAL_IN_LAST_WORD: u32 = (FLAG_EXTERNAL as u32) << 16;

    /// Like [`adopt`](Slot::adopt), with another slot's line 2.
    pub(super) fn adopt_like(self, other: Slot) {
        // SAFETY: both are live; the caller holds this one alone and borrows the other; line 2 is a `Private`.
        unsafe {
            let mut private = (&raw const (*other.0.as_ptr()).annotations).cast::<Private>().read();
            private.flags = private.flags & FLAG_TYPE_MASK | FLAG_EXTERNAL;
            (&raw mut (*self.0.as_ptr()).annotations).cast::<Private>().write(private);
        }
    }

    /// Segments of a received mbuf; 1 in every slot of our own.
    #[inline(always)]
    pub(super) fn segments(self) -> u16 {
        // SAFETY: live descriptor, written by its holder alone.
        unsafe { (*self.0.as_ptr()).nb_segs }
    }

    /// The VLAN tag that a device removed.
    pub(super) fn vlan_tci(self) -> u16 {
        // SAFETY: live descriptor, written by its holder alone.
        unsafe { (*self.0.as_ptr()).vlan_tci }
    }

    /// Whether an mbuf uses its own buffer.
    #[inline(always)]
    pub(super) fn is_direct(self) -> bool {
        self.ol_flags() & (OL_INDIRECT | OL_EXTERNAL) == 0
    }

    /// Makes a shell use the data of `from`, whose buffer belongs to `owner`.
    #[inline]
    pub(super) fn mirror(self, from: Slot, owner: Slot) {
        let (to, from) = (self.0.as_ptr(), from.0.as_ptr());
        // SAFETY: both are live; the caller holds the shell alone and borrows the other, of which the
        // reference count alone may change meanwhile and is not read. The four words from `ol_flags` on end
        // in front of `pool`, and line 2 is a `Private` (asserted below).
        unsafe {
            (*to).owner = owner.0.as_ptr();
            (*to).buf_addr = (*from).buf_addr;
            (*to).data_off = (*from).data_off;
            (*to).port = (*from).port;
            let words = (&raw const (*from).ol_flags).cast::<[u64; 4]>().read();
            (&raw mut (*to).ol_flags).cast::<[u64; 4]>().write(words);
            let mut private = (&raw const (*from).annotations).cast::<Private>().read();
            private.flags &= FLAG_TYPE_MASK;
            (&raw mut (*to).annotations).cast::<Private>().write(private);
        }
    }

    /// The first byte of the slot's own buffer.
    #[inline(always)]
    pub(super) fn own_buffer(self) -> *mut u8 {
        // SAFETY: the buffer follows the descriptor in the same allocation.
        unsafe { self.0.as_ptr().cast::<u8>().add(DESCRIPTOR_LEN) }
    }

    #[inline(always)]
    fn refcnt(&self) -> &AtomicU16 {
        // SAFETY: live descriptor; all accesses to this field after `carve` are atomic.
        unsafe { &(*self.0.as_ptr()).refcnt }
    }

    /// Whether the slot has its own buffer, and no other slot uses it. One load.
    #[inline(always)]
    pub(super) fn is_sole(self) -> bool {
        self.refcnt().load(Ordering::Acquire) == 1
    }

    /// 1 when the slot has its own buffer, and no other slot uses it; never 0. A caller that relies on it
    /// needs a fence to [acquire](Ordering::Acquire) what the others did with the buffer.
    #[inline(always)]
    pub(super) fn holders_word(self) -> u16 {
        self.refcnt().load(Ordering::Relaxed)
    }

    /// Whether the slot is a descriptor that uses another slot's buffer.
    #[inline(always)]
    pub(super) fn is_shell(self) -> bool {
        self.refcnt().load(Ordering::Relaxed) == SHELL
    }

    /// The slot whose buffer this one uses: itself unless it is a shell.
    #[inline]
    pub(super) fn buffer_owner(self) -> Slot {
        match (self.is_shell(), NonNull::new(self.owner())) {
            (true, Some(owner)) => Slot(owner),
            _ => self,
        }
    }

    /// How many packets use this slot's own buffer; with a tag, at most this many.
    pub(super) fn holders(self) -> u16 {
        self.refcnt().load(Ordering::Acquire) & COUNT
    }

    /// Whether only one thread changes the count, without atomic instructions.
    pub(super) fn is_tagged(self) -> bool {
        self.refcnt().load(Ordering::Relaxed) & TAG != 0
    }

    /// Adds a packet that uses this slot's own buffer, on a thread with tag `mine`. Returns false, and counts
    /// nothing, when this thread must not: the count belongs to another thread, or has reached its limit.
    #[inline(always)]
    pub(super) fn retain(self, mine: u16) -> bool {
        let mine = mine * TAG_STEP;
        // A plain store ends the chain of those who let go before; so their release is acquired here.
        let count = self.refcnt().load(Ordering::Acquire);
        if count & COUNT >= MAX_SHARES {
            return false;
        }
        match count & TAG {
            // The caller is the only holder: nobody else can change the count.
            0 if count == 1 => self.refcnt().store(mine | 2, Ordering::Relaxed),
            0 => {
                self.refcnt().fetch_add(1, Ordering::Relaxed);
            }
            tag if tag == mine => self.refcnt().store(count + 1, Ordering::Relaxed),
            _ => return false,
        }
        true
    }

    /// Removes a packet that uses this slot's own buffer, on a thread with tag `mine`. If it was the last,
    /// the slot is ready to be freed.
    #[inline(always)]
    pub(super) fn let_go(self, mine: u16) -> LetGo {
        let count = self.refcnt().load(Ordering::Acquire);
        match count & TAG {
            0 => {
                // No tag can come while this packet and another hold the buffer, and none matters when this
                // one is the last.
                let last = count == 1 || self.refcnt().fetch_sub(1, Ordering::AcqRel) == 1;
                if last {
                    self.refcnt().store(1, Ordering::Relaxed);
                    return LetGo::Last;
                }
            }
            // The one that stays may be with another thread, which then reads the count as told here: what
            // this thread did with the bytes comes before.
            tag if tag == mine * TAG_STEP => {
                let left = count - 1;
                let word = if left & COUNT == 1 { 1 } else { left };
                self.refcnt().store(word, Ordering::Release);
            }
            tag => return LetGo::Elsewhere(tag / TAG_STEP),
        }
        LetGo::Shared
    }

    /// Copies what a copy of a packet keeps: device, offload results, annotations, timestamp, type. The
    /// caller sets the start and length of the data and the header offsets.
    pub(super) fn copy_metadata(self, from: Slot) {
        let (to, from) = (self.0.as_ptr(), from.0.as_ptr());
        // SAFETY: both are live; the caller holds both, so nothing writes these fields meanwhile.
        unsafe {
            (*to).port = (*from).port;
            (*to).ol_flags = (*from).ol_flags;
            (*to).packet_type = (*from).packet_type;
            (*to).vlan_tci = (*from).vlan_tci;
            (*to).rss = (*from).rss;
            (*to).hash_hi = (*from).hash_hi;
            (*to).vlan_tci_outer = (*from).vlan_tci_outer;
            (*to).annotations = (*from).annotations;
            (*to).timestamp = (*from).timestamp;
            (*to).flags = (*from).flags & FLAG_TYPE_MASK;
        }
    }

    /// The annotation area, aligned to a cache line.
    #[inline(always)]
    pub(super) fn annotations(self) -> *mut [u8; ANNOTATION_LEN] {
        // SAFETY: live descriptor; only the field's address is taken.
        unsafe { (&raw mut (*self.0.as_ptr()).annotations).cast() }
    }

    /// Prefetches the lines that the fast path touches.
    #[inline(always)]
    pub(super) fn prefetch(self) {
        let line = self.0.as_ptr().cast::<u8>();
        prefetch(line);
        prefetch(line.wrapping_add(128));
    }
}

/// Prefetches the cache line at `address`; has no effect on memory, whatever the address. Does nothing in a
/// build with the feature `no-prefetch`, which the benchmarks use to find the gain.
#[inline(always)]
pub(super) fn prefetch(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(feature = "no-prefetch")))]
    // SAFETY: a prefetch never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(feature = "no-prefetch"))))]
    let _ = address;
}
