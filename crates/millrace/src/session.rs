//! From a configuration to an engine: what `millrace run`, its relatives and `click` share.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, bail};
use millrace_core::clock::Clock;
use millrace_core::isa;
use millrace_core::memory::Arena;
use millrace_core::names::DeviceAddresses;
use millrace_core::net::{EtherAddress, Ipv4Prefix};
use millrace_core::run::{Configured, Options, check};
use millrace_core::services::{DeviceBook, Services};
use millrace_core::stats::MAX_THREADS;
use millrace_core::topology::{Topology, parse_list};
use millrace_core::{Registry, Router, Timestamp};
use millrace_io::af_packet::Interfaces;
use millrace_io::memory::Network;
use millrace_io::{Backend, DeviceError, Devices, Machine};
use millrace_lang::{SourceId, Span};

use crate::config::Loaded;
use crate::consent::Guarded;
use crate::model::{Model, Observed};

/// What a router is to run with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choices {
    /// Threads; none is one.
    pub(crate) threads: Option<usize>,
    /// The cores to pin threads to; none to pin none.
    pub(crate) affinity: Option<Affinity>,
    /// Whether elements run one by one on batches, even where packets could pass several in one go.
    pub(crate) no_optimise: bool,
    /// A directory laid out as another machine's `/sys`; none for this machine.
    pub(crate) machine: Option<PathBuf>,
    /// Virtual time, and when it starts, in seconds after the epoch.
    pub(crate) simtime: Option<f64>,
    /// Nanoseconds of virtual time that pass each time the clock is read.
    pub(crate) simtick: u32,
}

impl Choices {
    /// The options of a router with these services.
    ///
    /// # Errors
    /// There are not so many threads or cores, or the environment asks for loops that there are not.
    pub(crate) fn options(&self, services: Services) -> anyhow::Result<Options> {
        let threads = self.threads.unwrap_or(1);
        if threads == 0 || threads > MAX_THREADS {
            bail!("between 1 and {MAX_THREADS} threads are possible, not {threads}");
        }
        isa::asked()?;
        let usable = usable_cores();
        let cores: Vec<usize> = match &self.affinity {
            None | Some(Affinity::Near) => Vec::new(),
            Some(Affinity::From(first)) => (*first..first.saturating_add(threads)).collect(),
            Some(Affinity::Cores(cores)) => cores.clone(),
        };
        let topology = match &self.machine {
            Some(root) => Topology::read(root),
            None => Topology::machine().clone().only(&usable),
        };
        if let Some(missing) = cores.iter().find(|&&core| topology.node_of(core).is_none()) {
            bail!("there is no core {missing} to pin a thread to");
        }
        let pin = self.affinity == Some(Affinity::Near);
        let clock = match self.simtime {
            Some(start) => virtual_clock(start, self.simtick.into())?,
            None => Clock::real(),
        };
        let optimise = !self.no_optimise;
        Ok(Options {
            threads,
            cores,
            pin,
            topology,
            optimise,
            clock,
            services,
            ..Options::default()
        })
    }
}

/// The cores that threads are pinned to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Affinity {
    /// Those near the devices, as the plan finds them.
    Near,
    /// This one for thread 0, the next one for thread 1, and so on.
    From(usize),
    /// These, one for each thread in turn.
    Cores(Vec<usize>),
}

impl FromStr for Affinity {
    type Err = String;

    /// Reads `auto`, a first core (`2`) or a list of cores (`0-3,8`).
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Near);
        }
        if let Ok(first) = text.parse() {
            return Ok(Self::From(first));
        }
        let cores = parse_list(text);
        let well_formed = text.bytes().all(|byte| byte.is_ascii_digit() || b",-".contains(&byte));
        if cores.is_empty() || !well_formed {
            return Err(
                "expected ‘auto’, a first core or a list of cores such as ‘0-3,8’".to_owned()
            );
        }
        Ok(Self::Cores(cores))
    }
}

/// A virtual clock that starts `seconds` after the epoch and moves on by `tick` nanoseconds each time it is read.
fn virtual_clock(seconds: f64, tick: i64) -> anyhow::Result<Clock> {
    let nanos = seconds * 1e9;
    if !(0.0..9.2e18).contains(&nanos) {
        bail!("virtual time cannot start at {seconds} s");
    }
    Ok(Clock::virtual_from(Timestamp::from_nanos(nanos as i64), tick))
}

/// The cores that this process may run on.
pub(crate) fn usable_cores() -> Vec<usize> {
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) => (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect(),
        Err(_) => (0..std::thread::available_parallelism().map_or(1, usize::from)).collect(),
    }
}

/// By which backend a router reaches its devices.
pub(crate) enum Reach {
    /// These devices stand for the machine's.
    Network(Network),
    /// The machine's own; those that it depends on itself are not taken.
    Guarded,
    /// The machine's own, by consent of the user.
    Unguarded,
}

/// What elements are given beside the graph: devices, watched for the model, their addresses, and the program's handlers.
pub(crate) fn services(reach: Reach, model: &Model) -> Services {
    let mut services = Services::default();
    services.insert(match &reach {
        Reach::Network(network) => DeviceBook(Box::new(AddressesOf(network.clone()))),
        Reach::Guarded | Reach::Unguarded => DeviceBook(Box::new(Interfaces)),
    });
    let backend: Arc<dyn Backend> = match reach {
        Reach::Network(network) => Arc::new(network),
        Reach::Guarded => Arc::new(Guarded(Arc::new(Machine))),
        Reach::Unguarded => Arc::new(Machine),
    };
    services.insert(Devices(Box::new(Observed::new(backend, model.ledger().clone()))));
    services.insert(model.handlers());
    services
}

/// The addresses of a network's devices.
struct AddressesOf(Network);

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
pub(crate) fn configure(loaded: &mut Loaded, options: Options) -> Option<Configured> {
    let incomplete = loaded.has_errors();
    let written = loaded.map.get(loaded.source).map_or("", |source| &source.text);
    // A compact configuration's text is not kept: its handler `config` gives the flat one.
    let compact = loaded.graph.requirements.iter().any(|word| word.text == "compact_config");
    let written = if compact { "" } else { written };
    let options = Options { written: written.to_owned(), ..options };
    let known = loaded.diagnostics.len();
    let unclosed = unclosed(loaded);
    let (router, found) = check(&loaded.graph, &Registry::linked(), options);
    for diagnostic in found {
        // In a graph with holes ports are unused that would not be; what stands in the elements'
        // own arguments is wrong all the same.
        let inside = |text: &Span| {
            let at = diagnostic.span.filter(|it| it.source == text.source);
            at.is_some_and(|it| text.start <= it.start && it.start <= text.end)
        };
        let sound = !incomplete || diagnostic.context.is_some() && !unclosed.iter().any(inside);
        if sound && !loaded.diagnostics.iter().take(known).any(|known| *known == diagnostic) {
            loaded.diagnostics.push(diagnostic);
        }
    }
    router.filter(|_| !incomplete)
}

/// The elements' arguments whose parenthesis is not closed: where they end is guessed, and what is wrong with them follows
/// from that.
fn unclosed(loaded: &Loaded) -> Vec<Span> {
    let errors = loaded.diagnostics.iter().filter(|it| it.is_error());
    let ends: Vec<(SourceId, u32)> =
        errors.filter_map(|it| it.span.map(|at| (at.source, at.end))).collect();
    let texts = loaded.graph.elements.iter().map(|element| element.config.span);
    texts.filter(|text| ends.contains(&(text.source, text.start))).collect()
}

/// Sets up what devices need to know all queues for. What was done, in lines.
///
/// # Errors
/// A device cannot be set up.
pub(crate) fn start_devices(router: &Router) -> Result<Vec<String>, DeviceError> {
    let Some(devices) = router.services().get::<Devices>() else { return Ok(Vec::new()) };
    let changes = devices.0.start()?.into_iter();
    Ok(changes.map(|(device, change)| format!("{device}: {change}")).collect())
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
