//! The device that a router's GPU sections share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use millrace_core::{Init, Lock, Need, Refused};
use millrace_gpu::cuda;
use millrace_gpu::device::WhyNot;
use millrace_gpu::host::{self, Fast, Simulator};
use millrace_gpu::section::{Open, Section, Source};
use millrace_gpu::{Caps, DeviceError};

/// Which device to use.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Choice {
    /// The first GPU, or else the host.
    Auto,
    /// This GPU, and no other.
    Cuda(u32),
    /// The host itself.
    Host,
    /// A simulated GPU: the probability that a step fails, and the seed of its random numbers.
    Simulator { faults: f64, seed: u64 },
}

impl Choice {
    /// Whether a device of this choice always exists.
    fn is_free(&self) -> bool {
        !matches!(self, Self::Cuda(_))
    }

    /// Opens the device, again after each loss.
    fn opener(&self) -> Open {
        match *self {
            Self::Auto => {
                // After a GPU is lost, wait for it: it cannot be opened while other threads still hold it.
                let has_gpu = AtomicBool::new(false);
                Box::new(move || match cuda::open(0) {
                    Ok(device) => {
                        has_gpu.store(true, Ordering::Relaxed);
                        Ok(device)
                    }
                    Err(why) if has_gpu.load(Ordering::Relaxed) => Err(why.into()),
                    Err(WhyNot(why)) => Ok(Fast::open(&why)),
                })
            }
            Self::Cuda(number) => Box::new(move || Ok(cuda::open(number as usize)?)),
            Self::Host => Box::new(|| Ok(Fast::open("as the configuration says"))),
            Self::Simulator { faults: probability, seed } => {
                let faults = host::Faults::none();
                if probability > 0.0 {
                    faults.random(probability, seed);
                }
                let settings = host::Settings { seed, ..host::Settings::default() };
                Box::new(Simulator::new(settings, faults).opener())
            }
        }
    }
}

/// The options of GPURuntime.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) device: Choice,
    pub(crate) streams: usize,
    /// Bytes.
    pub(crate) host_memory: Option<u64>,
    pub(crate) device_memory: Option<u64>,
    pub(crate) patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            device: Choice::Auto,
            streams: 6,
            host_memory: None,
            device_memory: None,
            patience: Duration::from_millis(100),
        }
    }
}

/// The device of a router, and its options.
#[derive(Default)]
pub(crate) struct Runtime {
    options: OnceLock<Options>,
    source: OnceLock<Arc<Source>>,
    started: Lock<Started>,
}

/// The memory that sections have reserved, and whether the device has been reported.
#[derive(Debug, Default)]
struct Started {
    told: bool,
    host_memory: u64,
    device_memory: u64,
}

impl Runtime {
    /// Sets the options; returns false if another element has already set them.
    pub(crate) fn configure(&self, options: Options) -> bool {
        self.options.set(options).is_ok()
    }

    pub(crate) fn options(&self) -> &Options {
        self.options.get_or_init(Options::default)
    }

    /// The source of the device. Does not open it.
    pub(crate) fn source(&self) -> Arc<Source> {
        let source = || Source::new(self.options().device.opener());
        self.source.get_or_init(source).clone()
    }

    /// Maximum number of a thread's batches on the device at once, unless a Batcher sets it.
    pub(crate) fn streams(&self) -> usize {
        self.options().streams
    }

    /// How long the device may work on a batch.
    pub(crate) fn patience(&self) -> Duration {
        self.options().patience
    }

    /// The properties of the device, while there is one.
    pub(crate) fn caps(&self) -> Option<Caps> {
        self.source.get()?.caps()
    }

    /// Bytes of host memory and of device memory used by batches, and by tables at the start.
    pub(crate) fn memory(&self) -> (u64, u64) {
        let started = self.started.lock();
        (started.host_memory, started.device_memory)
    }

    /// Gets a section ready to run.
    ///
    /// # Errors
    /// It needs more memory than allowed, or the requested device is not available.
    pub(crate) fn start(&self, section: &Arc<Section>, init: &Init<'_>) -> Result<(), Refused> {
        let threads = init.threads().count_ones() as usize;
        self.take_memory(section, threads)?;
        match section.prepare(threads.max(1)) {
            Ok(caps) => {
                init.needs((caps.backend == "cuda").then(driver));
                self.tell(init, &format!("GPU sections run on {}", caps.name));
            }
            Err(error) if self.options().device.is_free() => {
                init.needs([driver()]);
                self.tell(
                    init,
                    &format!(
                        "GPU sections run on the CPU elements until there is a device: {error}"
                    ),
                );
            }
            Err(DeviceError::Unsupported(why)) => return Err(Refused(why)),
            // The device was never available, so it was not lost.
            Err(DeviceError::Lost(why)) => {
                return Err(Refused(format!(
                    "the GPU that GPURuntime asks for is not available: {why} (DEVICE auto uses \
                     what is available)"
                )));
            }
            Err(error) => return Err(Refused(error.to_string())),
        }
        Ok(())
    }

    /// Reserves the memory of a section's batches.
    fn take_memory(&self, section: &Section, threads: usize) -> Result<(), Refused> {
        let slots = (section.settings().slots * threads) as u64;
        let bytes = slots * section.plan().slot_bytes as u64;
        let tables = section.table_bytes();
        let mut started = self.started.lock();
        let Options { host_memory, device_memory, .. } = self.options();
        let bounds = [
            ("HOSTMEMSZ", host_memory, started.host_memory + bytes, 0),
            ("DEVMEMSZ", device_memory, started.device_memory + bytes + tables, tables),
        ];
        for (name, most, needed, tables) in bounds {
            if let Some(most) = most.filter(|&most| needed > most) {
                let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
                let of_tables = match tables {
                    0 => String::new(),
                    tables => format!(", {} of it for tables", mebibytes(tables)),
                };
                return Err(Refused(format!(
                    "{} MiB may be needed{of_tables}, but {name} is {} MiB: make CAPACITY, BYTES or SLOTS smaller, or {name} larger",
                    mebibytes(needed),
                    most >> 20
                )));
            }
        }
        started.host_memory += bytes;
        started.device_memory += bytes + tables;
        Ok(())
    }

    /// Prints a message about the device once.
    fn tell(&self, init: &Init<'_>, message: &str) {
        if !std::mem::replace(&mut self.started.lock().told, true) {
            init.router().chatter(message);
        }
    }
}

/// What a GPU needs.
fn driver() -> Need {
    Need::Unknown("the GPU's driver opens devices and files of its own".to_owned())
}
