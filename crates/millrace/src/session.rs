//! From a configuration to an engine: what `millrace run`, its relatives and `click` share.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use anyhow::{Context, bail};
use millrace_core::clock::Clock;
use millrace_core::memory::Arena;
use millrace_core::names::DeviceAddresses;
use millrace_core::net::{EtherAddress, Ipv4Prefix};
use millrace_core::router::{Options, check};
use millrace_core::services::{DeviceBook, Services};
use millrace_core::stats::MAX_THREADS;
use millrace_core::{Registry, Router};
use millrace_io::af_packet::Interfaces;
use millrace_io::{Backend, Devices, Machine};

use crate::config::Loaded;
use crate::report::{Ledger, Observed};

/// What a router is to run with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choices {
    /// Threads; none is one.
    pub(crate) threads: Option<usize>,
    /// Pin thread 0 to this core, thread 1 to the next one, and so on.
    pub(crate) first_core: Option<usize>,
    /// Virtual time, and when it starts, in seconds after the epoch.
    pub(crate) simtime: Option<f64>,
}

impl Choices {
    /// The options of a router with these services.
    ///
    /// # Errors
    /// There are not so many threads or cores.
    pub(crate) fn options(&self, services: Services) -> anyhow::Result<Options> {
        let threads = self.threads.unwrap_or(1);
        if threads == 0 || threads > MAX_THREADS {
            bail!("between 1 and {MAX_THREADS} threads are possible, not {threads}");
        }
        let cores = self.first_core.map(|first| first..first.saturating_add(threads));
        let cores: Vec<usize> = cores.into_iter().flatten().collect();
        if let Some(missing) = cores.iter().find(|&&core| !usable_cores().contains(&core)) {
            bail!("there is no core {missing} to pin a thread to");
        }
        let clock = match self.simtime {
            Some(start) => virtual_clock(start)?,
            None => Clock::real(),
        };
        Ok(Options { threads, cores, clock, services, ..Options::default() })
    }
}

/// A virtual clock that starts `seconds` after the epoch.
fn virtual_clock(seconds: f64) -> anyhow::Result<Clock> {
    let nanos = seconds * 1e9;
    if !(0.0..9.2e18).contains(&nanos) {
        bail!("virtual time cannot start at {seconds} s");
    }
    Ok(Clock::Virtual(AtomicI64::new(nanos as i64)))
}

/// The cores that this process may run on.
pub(crate) fn usable_cores() -> Vec<usize> {
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) => (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect(),
        Err(_) => (0..std::thread::available_parallelism().map_or(1, usize::from)).collect(),
    }
}

/// What elements are given beside the graph: devices, watched by `ledger`, and their addresses.
/// Without a backend the devices are the machine's own.
pub(crate) fn services(backend: Option<Arc<dyn Backend>>, ledger: &Ledger) -> Services {
    let mut services = Services::default();
    services.insert(match &backend {
        Some(backend) => DeviceBook(Box::new(AddressesOf(backend.clone()))),
        None => DeviceBook(Box::new(Interfaces)),
    });
    let backend = backend.unwrap_or_else(|| Arc::new(Machine));
    services.insert(Devices(Box::new(Observed::new(backend, ledger.clone()))));
    services
}

/// The addresses of a backend's devices.
struct AddressesOf(Arc<dyn Backend>);

impl DeviceAddresses for AddressesOf {
    fn ether(&self, device: &str) -> Option<EtherAddress> {
        self.0.ether(device)
    }

    fn ipv4(&self, device: &str) -> Option<Ipv4Prefix> {
        self.0.ipv4(device)
    }
}

/// Configures a router and adds what is wrong with it to the diagnostics. No router when there is
/// an error among them.
pub(crate) fn configure(loaded: &mut Loaded, options: Options) -> Option<Router> {
    let incomplete = loaded.has_errors();
    let written = loaded.map.get(loaded.source).map_or("", |source| &source.text);
    let options = Options { written: written.to_owned(), ..options };
    let (router, found) = check(&loaded.graph, &Registry::linked(), options);
    for diagnostic in found {
        // In a graph with holes ports are unused that would not be; what stands in the elements'
        // own arguments is wrong all the same.
        let sound = !incomplete || diagnostic.context.is_some();
        if sound && !loaded.diagnostics.contains(&diagnostic) {
            loaded.diagnostics.push(diagnostic);
        }
    }
    router.filter(|_| !incomplete)
}

/// Chooses the size of the packet memory, before the first packet is made.
///
/// # Errors
/// The size is nonsense, or packets exist already.
pub(crate) fn set_buffers(buffers: Option<usize>) -> anyhow::Result<()> {
    match buffers {
        Some(0) => bail!("--buffers: at least one packet buffer is needed"),
        Some(n) => Arena::configure(n).context("--buffers"),
        None => Ok(()),
    }
}
