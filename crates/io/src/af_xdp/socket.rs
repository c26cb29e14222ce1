//! The socket of one queue of a device: its four rings and its packets.

#![allow(unsafe_code, reason = "memory that is shared with the kernel")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use libc::c_int;
use millrace_core::{BiasedMutex, Lock, Packet};

use super::frames::{CHUNK, Frames, HEADROOM, Lent};
use super::port::Port;
use super::ring::{Consumer, Layout, Place, Producer};
use super::sys::{self, Shared};

/// The socket of a queue. The receiving and the transmitting side share it, and different threads may use
/// them. Usually one thread uses each side, at no extra cost. Other threads may come to take back transmitted
/// packets, or with another configuration.
#[derive(Debug)]
pub(super) struct Socket {
    // The kernel lets go of all packets before the fields behind it free them.
    kernel: Kernel,
    pub(super) rx: BiasedMutex<Rx>,
    pub(super) tx: BiasedMutex<Tx>,
    /// Packets that the device dropped on transmission.
    dropped: AtomicU64,
    pub(super) queue: u32,
    pub(super) mode: Mode,
    /// Queues that receive from it. A change from or to 0 directs the packets here, or no longer.
    pub(super) receivers: Lock<usize>,
    /// Entries of the receive and the transmit ring.
    pub(super) descriptors: u32,
    /// Whether packets in the transmit ring wait for another call.
    unsent: AtomicBool,
    pub(super) port: Arc<Port>,
}

/// How a socket uses the packet memory. Sockets that share a registration do it in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mode {
    /// Whether the device reads and writes the packets itself.
    pub(super) zero_copy: bool,
    /// Whether packets may span several slots.
    pub(super) fragments: bool,
}

/// The kernel's view of a socket.
#[derive(Debug)]
struct Kernel {
    // The memory of the rings keeps the socket open: it goes first.
    #[expect(dead_code, reason = "held for its drop")]
    rings: [Shared; 4],
    socket: OwnedFd,
    release: Release,
}

/// The receiving side.
#[derive(Debug)]
pub(super) struct Rx {
    pub(super) received: Consumer<Place>,
    fill: Producer<u64>,
    pub(super) lent: Lent,
    /// The maximum number of packets that the kernel has to receive into.
    level: usize,
    /// Set when there was no memory: when to request packets again.
    retry: Option<Instant>,
}

/// The transmitting side.
#[derive(Debug)]
pub(super) struct Tx {
    pub(super) ring: Producer<Place>,
    completed: Consumer<u64>,
    pub(super) lent: Lent,
}

impl Rx {
    /// Whether the kernel has fewer packets than it should, because there was no memory.
    #[inline]
    pub(super) fn is_starving(&self) -> bool {
        self.retry.is_some()
    }
}

/// How long to wait before packets are requested again when there were none.
pub(super) const RETRY: Duration = Duration::from_millis(1);

/// The requested properties of a socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) queue: u32,
    /// The number of opened queues of the device, which share the memory that it is lent.
    pub(super) of_queues: usize,
    /// Entries of the receive and the transmit ring.
    pub(super) descriptors: u32,
    pub(super) zero_copy: Option<bool>,
    pub(super) busy_poll: Option<u32>,
    pub(super) node: Option<usize>,
}

/// `struct sockaddr_xdp`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Address {
    family: u16,
    flags: u16,
    interface: u32,
    queue: u32,
    shared: u32,
}

/// The positions of the parts of the four rings.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Layouts {
    rx: Layout,
    tx: Layout,
    fill: Layout,
    completion: Layout,
}

// SAFETY: numbers without padding.
unsafe impl sys::Plain for Layouts {}

/// `struct xdp_statistics`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Statistics {
    /// Packets for which there was no slot, or that were too long.
    pub(super) rx_dropped: u64,
    pub(super) rx_invalid: u64,
    pub(super) tx_invalid: u64,
    /// Packets for which there was no room in the receive ring.
    pub(super) rx_full: u64,
    pub(super) fill_empty: u64,
    pub(super) tx_empty: u64,
}

// SAFETY: numbers without padding.
unsafe impl sys::Plain for Statistics {}

impl Socket {
    /// Opens and binds the socket of a queue in the best way that the device and the request allow.
    /// `own_device` tells whether the program runs in the driver of a device that may have zero copy.
    pub(super) fn open(port: &Arc<Port>, wish: &Wish, own_device: bool) -> io::Result<Arc<Self>> {
        let zero_copy: &[bool] = match wish.zero_copy {
            Some(true) => &[true],
            None if own_device => &[true, false],
            _ => &[false],
        };
        let mut refusal = None;
        for &zero_copy in zero_copy {
            for fragments in [true, false] {
                match Self::open_in(port, wish, Mode { zero_copy, fragments }) {
                    Ok(socket) => return Ok(socket),
                    // A taken queue is taken in every mode.
                    Err(error) if error.raw_os_error() == Some(libc::EBUSY) => return Err(error),
                    Err(error) => refusal.get_or_insert(error),
                };
            }
        }
        Err(refusal.unwrap_or_else(|| io::ErrorKind::Unsupported.into()))
    }

    fn open_in(port: &Arc<Port>, wish: &Wish, mode: Mode) -> io::Result<Arc<Self>> {
        let frames = Frames::of_node(wish.node).ok_or(io::ErrorKind::OutOfMemory)?;
        let frames = if mode.zero_copy {
            frames.for_device().ok_or_else(|| io::Error::other("zero copy needs huge pages"))?
        } else {
            frames
        };
        let mut sharers = SHARERS.lock();
        sharers.retain(|sharer| sharer.socket.strong_count() > 0);
        let base = frames.region().base.addr().get();
        let alike = sharers.iter().filter(|sharer| sharer.base == base && sharer.mode == mode);
        for other in alike.filter_map(|sharer| sharer.socket.upgrade()) {
            let unbound = Unbound::new(wish, frames, false)?;
            match sys::while_busy(|| unbound.bind(port.device.index, wish.queue, Err(&other))) {
                Ok(()) => return Ok(unbound.finish(port, wish, mode, &mut sharers)),
                // The other one's device is gone, and so is its part in the memory.
                Err(error) if error.raw_os_error() == Some(libc::EBADF) => {}
                Err(error) => return Err(error),
            }
        }
        let unbound = Unbound::new(wish, frames, true)?;
        sys::while_busy(|| unbound.bind(port.device.index, wish.queue, Ok(mode)))?;
        Ok(unbound.finish(port, wish, mode, &mut sharers))
    }

    pub(super) fn fd(&self) -> &OwnedFd {
        &self.kernel.socket
    }

    /// Packets that should have been transmitted and were not.
    pub(super) fn untransmitted(&self) -> u64 {
        self.statistics().tx_invalid + self.dropped.load(Ordering::Relaxed)
    }

    /// The kernel's counts.
    pub(super) fn statistics(&self) -> Statistics {
        const XDP_STATISTICS: c_int = 7;
        sys::get(self.fd(), libc::SOL_XDP, XDP_STATISTICS).unwrap_or_default()
    }

    /// Gives the kernel packets to receive into, up to the level.
    #[inline]
    pub(super) fn refill(&self, rx: &mut Rx) {
        /// The minimum number that is worth the work.
        const LEAST: usize = 16;
        let wanted = rx.level.saturating_sub(rx.lent.count());
        if wanted >= LEAST.min(rx.level) {
            if rx.retry.is_some_and(|retry| Instant::now() < retry) {
                return;
            }
            self.fill(rx, wanted);
        }
    }

    fn fill(&self, rx: &mut Rx, wanted: usize) {
        let wanted = wanted.min(rx.fill.room(wanted as u32) as usize);
        let node = rx.lent.frames().region().node;
        let mut given = 0;
        rx.retry = None;
        while given < wanted {
            let Some(packet) = Packet::stale_of_node(node, HEADROOM, 0) else {
                rx.retry = Some(Instant::now() + RETRY);
                // Packets that were transmitted long ago may wait to be taken back.
                super::port::reap_everywhere();
                break;
            };
            match rx.lent.lend_to_write(packet) {
                // SAFETY: there is room, and the packet that is there was just lent to be written.
                Ok(start) => unsafe { rx.fill.write(start) },
                Err(packet) => {
                    // It lies across pages; it is not to come again.
                    std::mem::forget(packet);
                    continue;
                }
            }
            given += 1;
        }
        if given > 0 {
            rx.fill.publish();
            // Without zero copy the kernel looks at the ring for each packet and wants no call. To see that
            // it wants none would cost a fence.
            if self.mode.zero_copy && rx.fill.wants_call() {
                // It is tried again with the next packets.
                let _ = sys::kick_receive(self.fd());
            }
        }
    }

    /// Whether the kernel still knows the socket's device. It permanently forgets one that is deleted, or
    /// moved to another network namespace.
    pub(super) fn is_bound(&self) -> bool {
        self.port.is_there()
            && !sys::kick_receive(self.fd()).is_err_and(|error| self.is_loose(&error))
    }

    /// Whether an error means that the kernel does not know the socket's device. With zero copy, drivers
    /// return the same error while they restart.
    pub(super) fn is_loose(&self, error: &io::Error) -> bool {
        error.raw_os_error() == Some(libc::ENXIO) && !self.mode.zero_copy
    }

    /// Whether packets in the transmit ring wait for [another call](Self::go_on_transmitting).
    #[inline]
    pub(super) fn has_unsent(&self) -> bool {
        self.unsent.load(Ordering::Relaxed)
    }

    /// Takes back transmitted packets, unless another thread is doing so at this moment.
    pub(super) fn try_reap(&self) {
        if let Some(mut tx) = self.tx.try_visit() {
            tx.reap();
        }
    }

    /// Continues to transmit what the device had no room for, if there is anything.
    pub(super) fn go_on_transmitting(&self) {
        if self.unsent.load(Ordering::Relaxed)
            && let Some(mut tx) = self.tx.try_visit()
        {
            // The next transmission will say it.
            let _ = self.kick(&mut tx, Duration::ZERO);
        }
    }

    /// Whether everything that was put into the ring before has been transmitted, or will be without another
    /// call.
    pub(super) fn has_caught_up(&self, tx: &mut Tx) -> io::Result<bool> {
        if self.unsent.load(Ordering::Relaxed) {
            self.kick(tx, Duration::ZERO)?;
        }
        Ok(!self.unsent.load(Ordering::Relaxed))
    }

    /// Makes the kernel transmit what is in the ring. While the device has no room for it, this retries for
    /// as long as `patience` allows, because there may be no other call soon.
    pub(super) fn kick(&self, tx: &mut Tx, patience: Duration) -> io::Result<()> {
        if !tx.ring.wants_call() {
            return Ok(());
        }
        let mut end = None;
        let result = loop {
            let before = tx.ring.unread();
            let result = sys::kick_transmit(self.fd());
            let after = tx.ring.unread();
            match result.as_ref().map_err(io::Error::raw_os_error) {
                // With zero copy the device goes on by itself.
                Ok(()) if after == 0 || self.mode.zero_copy => break Ok(()),
                // The device dropped one packet and could take others.
                Err(Some(libc::EBUSY)) => drop(self.dropped.fetch_add(1, Ordering::Relaxed)),
                Ok(()) | Err(Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR)) => {
                    tx.reap();
                    if after != before {
                        end = None;
                        continue;
                    }
                    let now = Instant::now();
                    if now >= *end.get_or_insert(now + patience) {
                        break Ok(());
                    }
                    std::thread::yield_now();
                }
                Err(_) => break result,
            }
        };
        self.unsent.store(tx.ring.unread() > 0 && !self.mode.zero_copy, Ordering::Relaxed);
        result
    }
}

impl Tx {
    /// Takes back transmitted packets.
    #[inline]
    pub(super) fn reap(&mut self) {
        const MOST: u32 = 1024;
        let count = self.completed.available(MOST);
        for ahead in 0..count {
            if let Some(address) = self.completed.peek(ahead) {
                drop(self.lent.take_back(address));
            }
        }
        if count > 0 {
            self.completed.skip(count);
            self.completed.release();
        }
    }
}

/// A socket with its rings that is not yet bound to a queue.
struct Unbound {
    kernel: Kernel,
    rx: Rx,
    tx: Tx,
}

// Options of `linux/if_xdp.h`.
const XDP_MMAP_OFFSETS: c_int = 1;
const XDP_RX_RING: c_int = 2;
const XDP_TX_RING: c_int = 3;
const XDP_UMEM_REG: c_int = 4;
const XDP_UMEM_FILL_RING: c_int = 5;
const XDP_UMEM_COMPLETION_RING: c_int = 6;
const XDP_MAX_TX_SKB_BUDGET: c_int = 9;

impl Unbound {
    /// With `register`, it registers the memory; otherwise it must share that of another socket.
    fn new(wish: &Wish, frames: Frames, register: bool) -> io::Result<Self> {
        let size = wish.descriptors;
        let socket = sys::socket(libc::AF_XDP, libc::SOCK_RAW, 0)?;
        if register {
            register_memory(&socket, frames.region().base.addr().get(), frames.region().len)?;
        }
        let rings = [
            (XDP_UMEM_FILL_RING, 2 * size),
            (XDP_UMEM_COMPLETION_RING, 2 * size),
            (XDP_RX_RING, size),
            (XDP_TX_RING, size),
        ];
        for (option, size) in rings {
            sys::set(&socket, libc::SOL_XDP, option, &size)?;
        }
        tune(&socket, wish)?;
        let layouts: Layouts = sys::get(&socket, libc::SOL_XDP, XDP_MMAP_OFFSETS)?;
        let map = |len, which| Shared::map(&socket, len, which);
        let rings = [
            map(layouts.rx.len::<Place>(size), 0)?,
            map(layouts.tx.len::<Place>(size), 0x8000_0000)?,
            map(layouts.fill.len::<u64>(2 * size), 0x1_0000_0000)?,
            map(layouts.completion.len::<u64>(2 * size), 0x1_8000_0000)?,
        ];
        let released = Arc::new(AtomicBool::new(false));
        let lent = || Lent::new(frames, Arc::clone(&released));
        let [rx, tx, fill, completion] = &rings;
        // SAFETY: the rings' memory lives in `Kernel` beside them, and is not dropped while they are
        // used; it is mapped with the sizes and layouts that the kernel was told and tells.
        let sides = unsafe {
            (
                Consumer::new(rx, &layouts.rx, size),
                Producer::new(tx, &layouts.tx, size),
                Producer::new(fill, &layouts.fill, 2 * size),
                Consumer::new(completion, &layouts.completion, 2 * size),
            )
        };
        let (Some(received), Some(ring), Some(fill), Some(completed)) = sides else {
            return Err(io::Error::other(
                "the kernel's rings do not have the size that it reports",
            ));
        };
        let level = level(&frames, wish, size as usize);
        Ok(Self {
            rx: Rx { received, fill, lent: lent(), level, retry: None },
            tx: Tx { ring, completed, lent: lent() },
            kernel: Kernel { rings, socket, release: Release { queue: None, released } },
        })
    }

    /// Binds to a queue, with its own memory or with that of another socket.
    fn bind(
        &self,
        interface: u32,
        queue: u32,
        memory: Result<Mode, &Arc<Socket>>,
    ) -> io::Result<()> {
        const SHARED_UMEM: u16 = 1 << 0;
        const COPY: u16 = 1 << 1;
        const ZERO_COPY: u16 = 1 << 2;
        const USE_NEED_WAKEUP: u16 = 1 << 3;
        const USE_FRAGMENTS: u16 = 1 << 4;
        let (flags, shared) = match memory {
            Ok(mode) => {
                let copy = if mode.zero_copy { ZERO_COPY } else { COPY };
                let fragments = if mode.fragments { USE_FRAGMENTS } else { 0 };
                (copy | fragments | USE_NEED_WAKEUP, 0)
            }
            Err(other) => (SHARED_UMEM, other.fd().as_raw_fd().cast_unsigned()),
        };
        let family = libc::AF_XDP as u16;
        sys::bind(&self.kernel.socket, &Address { family, flags, interface, queue, shared })
    }

    fn finish(
        mut self,
        port: &Arc<Port>,
        wish: &Wish,
        mode: Mode,
        sharers: &mut Vec<Sharer>,
    ) -> Arc<Socket> {
        if mode.zero_copy {
            self.kernel.release.queue = Some((port.device.index, wish.queue));
            // The device itself takes as many again.
            self.rx.level = level(self.rx.lent.frames(), wish, 2 * wish.descriptors as usize);
        }
        let base = self.rx.lent.frames().region().base.addr().get();
        let socket = Arc::new(Socket {
            kernel: self.kernel,
            rx: BiasedMutex::new(self.rx),
            tx: BiasedMutex::new(self.tx),
            dropped: AtomicU64::new(0),
            queue: wish.queue,
            mode,
            receivers: Lock::new(0),
            descriptors: wish.descriptors,
            unsent: AtomicBool::new(false),
            port: Arc::clone(port),
        });
        sharers.push(Sharer { base, mode, socket: Arc::downgrade(&socket) });
        socket
    }
}

/// The maximum number of packets lent to a queue: `wanted`, or its share of a quarter of all.
fn level(frames: &Frames, wish: &Wish, wanted: usize) -> usize {
    (frames.count() / 4 / wish.of_queues.max(1)).clamp(1, wanted)
}

/// Registers memory as that of a socket.
fn register_memory(socket: &OwnedFd, base: usize, len: usize) -> io::Result<()> {
    /// Chunks may start anywhere: our slots are an odd number of cache lines long.
    const UNALIGNED_CHUNKS: u32 = 1;
    #[derive(Clone, Copy)]
    #[repr(C)]
    struct Registration {
        base: u64,
        len: u64,
        chunk: u32,
        headroom: u32,
        flags: u32,
        metadata: u32,
    }
    let registration = Registration {
        base: base as u64,
        len: len as u64,
        chunk: CHUNK as u32,
        headroom: 0,
        flags: UNALIGNED_CHUNKS,
        metadata: 0,
    };
    sys::set(socket, libc::SOL_XDP, XDP_UMEM_REG, &registration).map_err(|error| {
        match error.raw_os_error() {
            Some(libc::ENOBUFS) => {
                io::Error::other("the packet memory may not be locked (see ulimit -l)")
            }
            _ => error,
        }
    })
}

/// Sets options for speed and polling.
fn tune(socket: &OwnedFd, wish: &Wish) -> io::Result<()> {
    /// Bytes of packets in flight through the kernel.
    const SEND_BUFFER: c_int = 64 << 20;
    // Kernels before 6.17 transmit 32 packets a call.
    let _ = sys::set(socket, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &wish.descriptors.min(256));
    if sys::set(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER).is_err() {
        let _ = sys::set(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, &SEND_BUFFER);
    }
    wish.busy_poll.map_or(Ok(()), |micros| poll_busily(socket, micros))
}

/// Makes a socket poll its device for this long when it is called.
pub(super) fn poll_busily(socket: &OwnedFd, micros: u32) -> io::Result<()> {
    const SO_PREFER_BUSY_POLL: c_int = 69;
    const SO_BUSY_POLL_BUDGET: c_int = 70;
    /// The maximum number of packets of one call of busy polling.
    const BUDGET: c_int = 64;
    let micros = c_int::try_from(micros).unwrap_or(c_int::MAX);
    sys::set(socket, libc::SOL_SOCKET, SO_PREFER_BUSY_POLL, &1)?;
    sys::set(socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL, &micros)?;
    sys::set(socket, libc::SOL_SOCKET, SO_BUSY_POLL_BUDGET, &BUDGET)
}

/// A socket whose memory other sockets may share.
struct Sharer {
    base: usize,
    mode: Mode,
    socket: Weak<Socket>,
}

static SHARERS: Lock<Vec<Sharer>> = Lock::new(Vec::new());

/// When it is dropped after the socket, it determines when the kernel no longer uses the socket's packets.
#[derive(Debug)]
struct Release {
    /// The interface and queue of a device that writes to the packets itself.
    queue: Option<(u32, u32)>,
    released: Arc<AtomicBool>,
}

impl Drop for Release {
    fn drop(&mut self) {
        // Without zero copy nobody writes to packets once the socket is closed: the kernel waits for
        // those that do.
        let released = self.queue.is_none_or(|(interface, queue)| wait_for(interface, queue));
        self.released.store(released, Ordering::Release);
    }
}

/// Waits until a queue has no socket any more, by binding another one to it. The kernel needs some time after
/// a socket is closed until it makes a device leave the socket's memory alone.
fn wait_for(interface: u32, queue: u32) -> bool {
    const PATIENCE: Duration = Duration::from_secs(2);
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        match probe(interface, queue).map_err(|error| error.raw_os_error()) {
            Ok(()) | Err(Some(libc::ENODEV)) => return true,
            Err(Some(libc::EBUSY)) => std::thread::sleep(Duration::from_millis(5)),
            Err(_) => return false,
        }
    }
    false
}

fn probe(interface: u32, queue: u32) -> io::Result<()> {
    const COPY: u16 = 1 << 1;
    #[repr(align(4096))]
    struct Page(#[expect(dead_code, reason = "memory for the kernel")] [u8; 4096]);
    let page = Box::new(Page([0; 4096]));
    let socket = sys::socket(libc::AF_XDP, libc::SOCK_RAW, 0)?;
    register_memory(&socket, std::ptr::from_ref(&*page).addr(), size_of::<Page>())?;
    for option in [XDP_UMEM_FILL_RING, XDP_UMEM_COMPLETION_RING, XDP_TX_RING] {
        sys::set(&socket, libc::SOL_XDP, option, &1)?;
    }
    let family = libc::AF_XDP as u16;
    sys::bind(&socket, &Address { family, flags: COPY, interface, queue, shared: 0 })
}
