//! The CUDA backend: a GPU through NVIDIA's driver library, which is searched for at run time.
//!
//! * `driver` finds the library and the device. It distinguishes errors of one call from errors of a whole context.
//! * `context` owns everything that is allocated on the device. Each kind of resource is a type that frees itself.
//! * `compile` makes kernels for the device's architecture.
//! * `prove` tests a device that was just opened.
//! * `lane` runs plans: slots in pinned memory, a graph per batch size, and a word in memory for each finished batch.
//! * [`calibrate`] measures the cost of the bus, of a launch and of a submission.
//!
//! Nothing here ends the process. Errors of the driver become a [`DeviceError`]. A context that does not work any more
//! is reset when all its users have released it, so that [`open`] can open the device again.
//!
//! # Tests
//!
//! The tests run all of this with a fake driver library, `tests/fake/libcuda.c`, which works on the processor and
//! checks strictly how it is called. They run again on a GPU, if there is one. Times that are measured with the fake
//! driver have no meaning, and it cannot show whether a real driver behaves as its manual says. The tests also run the
//! kernels' PTX in an interpreter (`kernel/testing/ptx.rs`), which checks each load and store, and finds races. Only a
//! GPU can show, and none has run it so far:
//!
//! * that its driver accepts the PTX and translates it correctly, and the same for machine code that the compiler
//!   library makes at run time;
//! * that the results are in the host's memory when the host sees the word that the last kernel writes, after the
//!   copies. The order of the stream (a copy ends before the kernel begins), the fence in `complete.ptx` (cumulative,
//!   for the whole system) and the host's acquiring load ensure it;
//! * that the driver registers memory of the host, or else allocates it, in the container that it is used in;
//! * that a process can continue with a device after a kernel caused an error. The manual does not promise it. `prove`
//!   tests it, and sections stay on the CPU if it fails;
//! * that a reset ends a kernel that hangs. If the call does not return, the GPU stays closed until the process ends;
//! * what a submission costs, and how many threads should share a text: see [`calibrate`].

#![allow(unsafe_code, reason = "the driver is a C library")]

pub mod calibrate;
mod compile;
mod context;
mod driver;
mod lane;
mod pages;
mod prove;
mod tables;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use millrace_core::Lock;

use context::{Context, Function, Gone, Stream};
use driver::Description;
use lane::{Lane, Step};

use crate::device::slot::check_plan;
use crate::device::{
    Caps, Device, DeviceError, DeviceId, DeviceLane, Old, Table, TableMemory, WhyNot,
};
use crate::kernel::Kernel;
use crate::plan::Plan;

/// The kernel that writes that a batch is done, for every device of compute capability 8.0 or later.
const COMPLETE: &str = concat!(include_str!("complete.ptx"), "\0");

/// The maximum time that a normal release of a context takes.
const GOING: Duration = Duration::from_secs(1);

/// The last opened context of a device.
struct Opened {
    device: Weak<Gpu>,
    context: Weak<Context>,
    gone: Arc<Gone>,
}

/// Opens a GPU by its number, or returns the open one.
///
/// # Errors
/// There is no driver, no such GPU, or no kernel for it; or the GPU was lost, and either some of its resources are
/// still in use or it could not be reset.
pub fn open(ordinal: usize) -> Result<Arc<dyn Device>, WhyNot> {
    open_gpu(ordinal).map(|gpu| gpu as Arc<dyn Device>)
}

fn open_gpu(ordinal: usize) -> Result<Arc<Gpu>, WhyNot> {
    static OPENED: OnceLock<Lock<HashMap<usize, Opened>>> = OnceLock::new();
    let mut all = OPENED.get_or_init(Lock::default).lock();
    let why = |error: DeviceError| WhyNot(error.to_string());
    if let Some(device) = all.get(&ordinal).and_then(|opened| opened.device.upgrade())
        && !device.context.is_lost()
    {
        return Ok(device);
    }
    let mut context = all.get(&ordinal).and_then(|opened| opened.context.upgrade());
    if let Some(held) = &context {
        // A dropped lane may be the only one that still holds the context.
        let _ = held.tidy();
        if held.is_lost() {
            context = None;
        }
    }
    let description = driver::find(ordinal)?;
    let context = match context {
        Some(context) => context,
        None => {
            if let Some(opened) = all.get(&ordinal) {
                opened.is_gone()?;
            }
            Context::retain(description.device).map_err(why)?
        }
    };
    // Stored before anything can fail: a later attempt must wait until the context is released.
    let opened = all.entry(ordinal).insert_entry(Opened {
        device: Weak::new(),
        context: Arc::downgrade(&context),
        gone: context.gone(),
    });
    let device = Arc::new(Gpu::new(&context, description).map_err(why)?);
    opened.into_mut().device = Arc::downgrade(&device);
    Ok(device)
}

impl Opened {
    /// Waits a moment until the context is released.
    fn is_gone(&self) -> Result<(), WhyNot> {
        if self.context.strong_count() != 0 {
            return Err(WhyNot("the GPU was lost and is still in use".to_owned()));
        }
        let start = Instant::now();
        loop {
            match self.gone.get() {
                Some(Ok(())) => return Ok(()),
                Some(Err(error)) => {
                    return Err(WhyNot(format!("the GPU was lost and cannot be reset: {error}")));
                }
                None if start.elapsed() > GOING => {
                    return Err(WhyNot("the GPU was lost and is being reset".to_owned()));
                }
                None => thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

/// An open GPU.
struct Gpu {
    context: Arc<Context>,
    caps: Caps,
    architecture: u32,
    complete: Arc<Function>,
    kernels: Lock<HashMap<Kernel, Arc<Function>>>,
    uploads: Lock<Stream>,
}

impl Gpu {
    fn new(context: &Arc<Context>, description: Description) -> Result<Self, DeviceError> {
        let gpu = Self {
            context: context.clone(),
            caps: Caps {
                backend: "cuda",
                name: description.name,
                memory: description.memory,
                asynchronous: true,
            },
            architecture: description.architecture,
            complete: Arc::new(Function::load(context, COMPLETE.as_bytes(), c"mr_complete", 1)?),
            kernels: Lock::default(),
            uploads: Lock::new(Stream::new(context)?),
        };
        // A device is rejected if a kernel is missing for it, or if it does not work.
        gpu.kernel(Kernel::Invert)?;
        prove::works(context, &gpu.complete)?;
        Ok(gpu)
    }

    fn kernel(&self, kernel: Kernel) -> Result<Arc<Function>, DeviceError> {
        let mut kernels = self.kernels.lock();
        if let Some(function) = kernels.get(&kernel) {
            return Ok(function.clone());
        }
        let function = compile::function(&self.context, kernel, self.architecture)?;
        kernels.insert(kernel, function.clone());
        Ok(function)
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // Tables are freed with the context, and an upload does not keep the context.
        let (uploads, start) = (self.uploads.lock(), Instant::now());
        while uploads.is_idle() == Ok(false) && start.elapsed() < GOING {
            thread::sleep(Duration::from_micros(100));
        }
    }
}

impl Device for Gpu {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn id(&self) -> DeviceId {
        self.context.id
    }

    fn is_lost(&self) -> bool {
        self.context.is_lost()
    }

    fn load_table(&self, words: &Arc<Vec<u32>>) -> Result<Table, DeviceError> {
        self.load(words, None)
    }

    fn load_changed(&self, words: &Arc<Vec<u32>>, old: Old<'_>) -> Result<Table, DeviceError> {
        self.load(words, Some(old).filter(|old| old.table.device() == self.context.id))
    }

    fn open_lane(
        &self,
        plan: &Arc<Plan>,
        slots: usize,
    ) -> Result<Box<dyn DeviceLane>, DeviceError> {
        Ok(Box::new(self.lane(plan, slots)?))
    }
}

impl Gpu {
    fn load(&self, words: &Arc<Vec<u32>>, old: Option<Old<'_>>) -> Result<Table, DeviceError> {
        self.context.tidy()?;
        let address = self.context.load(&self.uploads.lock(), words, old)?;
        let (id, context) = (self.context.id, Arc::downgrade(&self.context));
        let resident = AtomicBool::new(words.is_empty());
        Ok(Table::new(Arc::new(CudaTable { id, context, address, resident })))
    }

    fn lane(&self, plan: &Arc<Plan>, slots: usize) -> Result<Lane, DeviceError> {
        check_plan(plan)?;
        self.context.tidy()?;
        let step = |step: &crate::plan::Step| {
            let function = self.kernel(step.kernel)?;
            Ok(Step { kernel: step.kernel, function, launch: step.launch })
        };
        let steps = plan.steps.iter().map(step).collect::<Result<_, DeviceError>>()?;
        Lane::open(&self.context, plan, steps, self.complete.clone(), slots)
    }
}

/// A table in a context's memory.
struct CudaTable {
    id: DeviceId,
    context: Weak<Context>,
    address: u64,
    resident: AtomicBool,
}

impl TableMemory for CudaTable {
    fn device(&self) -> DeviceId {
        self.id
    }

    fn address(&self) -> u64 {
        self.address
    }

    fn is_resident(&self) -> Result<bool, DeviceError> {
        // This is checked for every batch: once the table has arrived, it needs neither a lock nor a call.
        if self.resident.load(Ordering::Acquire) {
            return Ok(true);
        }
        let Some(context) = self.context.upgrade() else {
            return Err(DeviceError::Lost("it was closed".to_owned()));
        };
        let arrived = context.has_arrived(self.address)?;
        self.resident.store(arrived, Ordering::Release);
        Ok(arrived)
    }
}

impl Drop for CudaTable {
    fn drop(&mut self) {
        if let Some(context) = self.context.upgrade() {
            context.leave_table(self.address);
        }
    }
}
