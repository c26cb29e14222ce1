//! Information about ports, and small settings.

use std::ffi::c_int;
use std::io;

use millrace_core::net::EtherAddress;

use super::Port;
use super::find::text;
use crate::dpdk::abi::{Info, Link, PortStats, XStat};

/// Information, and small settings. Failures are the driver's.
impl Port {
    /// Its counts.
    ///
    /// # Errors
    /// The driver does not provide them.
    pub fn stats(&self) -> io::Result<PortStats> {
        let mut stats = PortStats::default();
        // SAFETY: the environment runs, and the structure is the one the plugin fills.
        outcome(unsafe { (self.table.stats)(self.number, &raw mut stats) }).map(|_| stats)
    }

    /// Sets its counts to 0.
    ///
    /// # Errors
    /// The driver does not support it.
    pub fn reset_stats(&self) -> io::Result<()> {
        // SAFETY: the environment runs.
        outcome(unsafe { (self.table.reset_stats)(self.number) }).map(drop)
    }

    /// The driver's own counters.
    ///
    /// # Errors
    /// The driver does not provide them.
    pub fn xstats(&self) -> io::Result<Vec<(String, u64)>> {
        // SAFETY: the plugin writes nothing where there is no room.
        let count = outcome(unsafe { (self.table.xstats)(self.number, std::ptr::null_mut(), 0) })?;
        // SAFETY: plain numbers and characters, for which zero is a value.
        let mut all = vec![unsafe { std::mem::zeroed::<XStat>() }; count as usize];
        // SAFETY: the plugin writes at most so many.
        let result = unsafe { (self.table.xstats)(self.number, all.as_mut_ptr(), count) };
        let count = outcome(result)?;
        Ok(all.iter().take(count as usize).map(|one| (text(&one.name), one.value)).collect())
    }

    /// The state of its link.
    ///
    /// # Errors
    /// The driver does not provide it.
    pub fn link(&self) -> io::Result<Link> {
        let mut link = Link::default();
        // SAFETY: the environment runs, and the structure is the one the plugin fills.
        outcome(unsafe { (self.table.link)(self.number, &raw mut link) }).map(|_| link)
    }

    /// Its Ethernet address.
    pub fn ether(&self) -> EtherAddress {
        EtherAddress(self.now().mac)
    }

    /// The maximum packet length after the Ethernet header, in bytes.
    pub fn mtu(&self) -> u16 {
        self.now().mtu
    }

    /// Makes it receive packets for another Ethernet address too.
    ///
    /// # Errors
    /// The driver does not support it.
    pub fn add_ether(&self, address: EtherAddress) -> io::Result<()> {
        // SAFETY: the environment runs; an address has six bytes.
        outcome(unsafe { (self.table.add_mac)(self.number, address.0.as_ptr()) }).map(drop)
    }

    /// Reverts [`add_ether`](Self::add_ether).
    ///
    /// # Errors
    /// The driver does not support it.
    pub fn remove_ether(&self, address: EtherAddress) -> io::Result<()> {
        // SAFETY: the environment runs; an address has six bytes.
        outcome(unsafe { (self.table.remove_mac)(self.number, address.0.as_ptr()) }).map(drop)
    }

    /// How many packets wait in a receive ring.
    ///
    /// # Errors
    /// The driver does not provide it, or there is no such queue.
    pub fn waiting(&self, queue: u16) -> io::Result<u32> {
        // SAFETY: the environment runs.
        outcome(unsafe { (self.table.waiting)(self.number, queue) })
    }

    fn now(&self) -> Info {
        let mut info = self.info;
        // SAFETY: the environment runs, and the structure is the one the plugin fills.
        match unsafe { (self.table.info)(self.number, &raw mut info) } {
            0.. => info,
            _ => self.info,
        }
    }
}

fn outcome(result: c_int) -> io::Result<u32> {
    u32::try_from(result).map_err(|_| io::Error::from_raw_os_error(result.saturating_neg()))
}
