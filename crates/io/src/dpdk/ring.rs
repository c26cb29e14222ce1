//! Rings: packets between processes that share one DPDK, or within one.
//!
//! A ring holds pointers to mbufs, so a packet crosses without a copy if it is an mbuf of the shared pool, and is copied
//! into one otherwise: the memory of one process is not that of another.

use std::ffi::CString;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_core::memory::{CopyCause, Limits, copies};
use millrace_core::{Batch, Packet};

use super::abi::{Config, Pool, Ring, Table};
use super::environment::{messages, table};
use super::memory::{HEADROOM, memory};
use super::port::{CACHE, MBUFS, drivers, largest_room};
use super::thread::make_known;
use crate::meter::Meter;
use crate::options::{RxOptions, TxOptions};
use crate::queue::{Capabilities, Opened, RxQueue, TxQueue};

/// What the name of a device that is a ring begins with.
const PREFIX: &str = "ring:";

/// The longest name of a ring (`RTE_RING_NAMESIZE`, with the null byte).
const LONGEST_NAME: usize = 28;

/// The number of packets that a ring holds by default.
const ENTRIES: usize = 1024;

/// How long to wait for the primary process, which may just be starting.
const PATIENCE: Duration = Duration::from_secs(5);

/// The device that is the ring with this name, for [`open_rx`](crate::Backend::open_rx) and
/// [`open_tx`](crate::Backend::open_tx).
///
/// # Errors
/// The name is too long, as a sentence.
pub fn ring_device(name: &str) -> Result<String, String> {
    match name.len() {
        0..=LONGEST_NAME => Ok(format!("{PREFIX}{name}")),
        len => Err(format!("the ring’s name ‘{name}’ has {len} bytes, more than {LONGEST_NAME}")),
    }
}

/// The name of the ring, if the device is one.
pub(super) fn ring_name(device: &str) -> Option<&str> {
    device.strip_prefix(PREFIX)
}

/// Opens the receiving end.
pub(super) fn open_rx(name: &str, options: &RxOptions) -> Result<Opened<dyn RxQueue>, String> {
    let end = End::open(name, options.descriptors, options.numa_node)?;
    let rx = Rx { end, snap_length: options.snap_length };
    Ok(opened(vec![Box::new(rx)], options.numa_node))
}

/// Opens the sending end, once for each thread that sends.
pub(super) fn open_tx(name: &str, options: &TxOptions) -> Result<Opened<dyn TxQueue>, String> {
    let mut queues: Vec<Box<dyn TxQueue>> = Vec::new();
    for _ in 0..options.queues.count.max(1) {
        queues.push(Box::new(Tx(End::open(name, options.descriptors, None)?)));
    }
    Ok(opened(queues, None))
}

fn opened<Q: ?Sized>(queues: Vec<Box<Q>>, numa_node: Option<usize>) -> Opened<Q> {
    Opened {
        queues,
        capabilities: Capabilities {
            backend: "DPDK ring",
            zero_copy: true,
            numa_node,
            ..Capabilities::default()
        },
        changes: Vec::new(),
        needs: vec![drivers()],
    }
}

/// A ring, as one of its ends sees it.
struct End {
    table: &'static Table,
    ring: Ring,
    /// Where packets are copied to that are not in shared memory.
    pool: Pool,
    /// The longest packet that fits in an mbuf of the pool.
    longest: usize,
    meter: Arc<Meter>,
}

// SAFETY: a ring and a pool are memory of DPDK's that threads and processes share under its own rules.
unsafe impl Send for End {}

impl End {
    fn open(name: &str, entries: Option<usize>, node: Option<usize>) -> Result<Self, String> {
        let table = table().ok_or("DPDK does not run")?;
        let c_name = CString::new(name).map_err(|_| "the name has a null byte".to_owned())?;
        let memory = memory();
        // SAFETY: plain numbers and pointers, for which zero is a value.
        let mut config: Config = unsafe { std::mem::zeroed() };
        config.room = memory.room.unwrap_or_else(largest_room);
        config.mbufs = memory.mbufs.unwrap_or(MBUFS);
        config.cache = memory.cache.unwrap_or(CACHE);
        let entries = entries.unwrap_or(ENTRIES) as u32;
        let node = node.map_or(-1, |node| node as i32);
        let _ = messages(table);
        let start = Instant::now();
        let mut ring: Ring = null_mut();
        loop {
            // SAFETY: the environment runs, and the structures are those that the plugin fills.
            let result = unsafe {
                (table.open_ring)(c_name.as_ptr(), entries, node, &raw mut config, &raw mut ring)
            };
            match -result {
                ..=0 => break,
                libc::ENOENT if start.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                libc::ENOENT => {
                    return Err(
                        "the primary process has no packet pool: it must have a port or a \
                                ring open first"
                            .to_owned(),
                    );
                }
                libc::ENOMEM if config.pool.is_null() && memory.mbufs.is_none() => {
                    if config.mbufs < 8192 {
                        return Err("there is no memory for mbufs (`-m MEGABYTES`)".to_owned());
                    }
                    config.mbufs /= 2;
                }
                error => {
                    let error = io::Error::from_raw_os_error(error);
                    return Err(format!("opening the ring ‘{name}’: {error}"));
                }
            }
        }
        Ok(Self {
            table,
            ring,
            pool: config.pool,
            longest: usize::from(config.room) - HEADROOM,
            meter: Arc::default(),
        })
    }
}

/// The receiving end of a ring.
struct Rx {
    end: End,
    snap_length: usize,
}

impl RxQueue for Rx {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> io::Result<usize> {
        let End { table, ring, meter, .. } = &self.end;
        make_known(table);
        // SAFETY: there is room for so many, and what is in the ring are mbufs of the shared pools that their
        // sender gave up.
        let burst = unsafe {
            batch.receive_mbufs(max, |to, room| (table.get)(*ring, to, room as u32) as usize)
        };
        meter.count(burst.packets, burst.bytes);
        let start = batch.len() - burst.packets;
        for packet in batch.iter_mut().skip(start).filter(|packet| packet.len() > self.snap_length)
        {
            packet.truncate(self.snap_length);
        }
        Ok(burst.packets)
    }

    fn meter(&self) -> Option<Arc<Meter>> {
        Some(self.end.meter.clone())
    }
}

/// The sending end of a ring.
struct Tx(End);

impl TxQueue for Tx {
    fn transmit(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let End { table, ring, pool, longest, meter } = &self.0;
        make_known(table);
        let own = pool.cast_const().cast();
        let limits = Limits { longest: *longest, pool: Some(own) };
        let ready = |packet: &mut Packet| {
            packet.len() <= *longest && (packet.is_mbuf_of(own) || copy(packet, table, *pool))
        };
        // SAFETY: `ready` passes mbufs of the shared pool that nobody else has; those that the ring takes are the
        // receiver's.
        let burst = unsafe {
            batch.transmit_mbufs(&limits, ready, |mbufs, count| {
                (table.put)(*ring, mbufs, count as u32) as usize
            })
        };
        meter.count(burst.packets, burst.bytes);
        match batch.first().map(Packet::len).filter(|first| first > longest) {
            Some(first) if burst.packets == 0 => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("a packet of {first} bytes is longer than the {longest} of an mbuf"),
            )),
            _ => Ok(burst.packets),
        }
    }

    fn meter(&self) -> Option<Arc<Meter>> {
        Some(self.0.meter.clone())
    }
}

/// Replaces the packet with an mbuf of the shared pool that has its bytes. Returns false if there is none left.
#[cold]
fn copy(packet: &mut Packet, table: &Table, pool: Pool) -> bool {
    let (bytes, length) = (packet.data().as_ptr().cast(), packet.len() as u32);
    // SAFETY: the pool is DPDK's, and the bytes are so many.
    let mbuf = unsafe { (table.copy)(pool, bytes, length) };
    let Some(mbuf) = NonNull::new(mbuf) else { return false };
    copies::count(CopyCause::Transmit);
    // SAFETY: a fresh mbuf of our pool.
    unsafe { packet.move_to_mbuf(mbuf) };
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_ring_is_limited() {
        assert_eq!(ring_device("a-b").as_deref().map(ring_name), Ok(Some("a-b")));
        assert!(ring_device(&"x".repeat(29)).is_err());
        assert_eq!(ring_name("net_ring0"), None);
    }
}
