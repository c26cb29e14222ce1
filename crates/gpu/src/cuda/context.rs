//! A device's primary context, and everything that is allocated in it.
//!
//! Every resource holds a reference to its context, so the context is released last. Normally each resource has been
//! freed before. If the device was lost, nothing can be freed: the context is reset, which ends all work that still
//! runs, and only then is memory of the host freed that the device might have written to.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::sys;
use millrace_core::Lock;

use super::driver::{check, check_ready};
use super::pages::Pages;
use super::tables::Tables;
use crate::device::{DeviceError, DeviceId};

/// If work of a dropped lane takes longer than this, the device counts as lost.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often resources of dropped lanes are checked.
const LOOK: Duration = Duration::from_millis(20);
/// Maximum number of dropped lanes that still have work in flight.
const MOST_ABANDONED: usize = 4;

/// A primary context, as long as something in it exists.
pub(super) struct Context {
    pub(super) id: DeviceId,
    device: sys::CUdevice,
    handle: sys::CUcontext,
    /// A unique number, by which a thread knows which context is current.
    number: u64,
    lost: OnceLock<String>,
    left: Lock<Left>,
    tables: Lock<Tables>,
    gone: Arc<Gone>,
}

/// The outcome of releasing a context.
#[derive(Default)]
pub(super) struct Gone(OnceLock<Result<(), DeviceError>>);

impl Gone {
    /// `None` as long as the context exists or is being released.
    pub(super) fn get(&self) -> Option<&Result<(), DeviceError>> {
        self.0.get()
    }
}

/// What is left of resources that are no longer used.
#[derive(Default)]
struct Left {
    /// Memory of the host that a lost device may still write to.
    pages: Vec<Pages>,
    /// Resources of lanes with work in flight, and the time when they were dropped.
    abandoned: Vec<(Instant, Box<dyn Abandoned>)>,
    is_looked_after: bool,
}

/// Resources that cannot be freed yet.
pub(super) trait Abandoned: Send {
    /// True if the device is done with them.
    fn is_idle(&self) -> bool;
}

// SAFETY: the handle is used by the driver alone, which is thread-safe; the rest is.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

thread_local! {
    /// The number of the context that is current on this thread.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

impl Context {
    /// Retains a device's primary context.
    pub(super) fn retain(device: sys::CUdevice) -> Result<Arc<Self>, DeviceError> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let mut handle = ptr::null_mut();
        // SAFETY: writes a handle; the device is one that the driver named.
        let result = unsafe { sys::cuDevicePrimaryCtxRetain(&raw mut handle, device) };
        check("cuDevicePrimaryCtxRetain", result)?;
        let context = Self {
            id: DeviceId::new(),
            device,
            handle,
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            lost: OnceLock::new(),
            left: Lock::default(),
            tables: Lock::default(),
            gone: Arc::default(),
        };
        Ok(Arc::new(context))
    }

    /// Where the outcome of releasing the context is stored.
    pub(super) fn gone(&self) -> Arc<Gone> {
        self.gone.clone()
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.get().is_some()
    }

    /// Marks the device as lost: every later call fails.
    pub(super) fn lose(&self, why: String) {
        let _ = self.lost.set(why);
    }

    /// An error if the device is lost.
    pub(super) fn alive(&self) -> Result<(), DeviceError> {
        self.lost.get().map_or(Ok(()), |why| Err(DeviceError::Lost(why.clone())))
    }

    /// Calls the driver with the context current.
    pub(super) fn call(
        &self,
        what: &'static str,
        function: impl FnOnce() -> sys::CUresult,
    ) -> Result<(), DeviceError> {
        let result = self.current().and_then(|()| check(what, function()));
        self.watch(result)
    }

    /// As [`call`](Self::call), for a query whose answer may be "not ready".
    pub(super) fn ask(
        &self,
        what: &'static str,
        function: impl FnOnce() -> sys::CUresult,
    ) -> Result<bool, DeviceError> {
        let result = self.current().and_then(|()| check_ready(what, function()));
        self.watch(result)
    }

    fn watch<T>(&self, result: Result<T, DeviceError>) -> Result<T, DeviceError> {
        if let Err(DeviceError::Lost(why)) = &result {
            self.lose(why.clone());
        }
        result
    }

    fn current(&self) -> Result<(), DeviceError> {
        self.alive()?;
        if CURRENT.get() != self.number {
            // SAFETY: the handle is good until the context is dropped.
            check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(self.handle) })?;
            CURRENT.set(self.number);
        }
        Ok(())
    }

    /// Frees a resource, unless the whole context is released. Returns true if the device has freed it.
    pub(super) fn free(
        &self,
        what: &'static str,
        function: impl FnOnce() -> sys::CUresult,
    ) -> bool {
        self.call(what, function).is_ok()
    }

    /// Keeps a lane's resources until the device is done with them. A thread checks them, because no other thread may
    /// do so. The thread ends when there are none left, at the latest when the device counts as lost because of them.
    pub(super) fn abandon(self: &Arc<Self>, resources: Box<dyn Abandoned>) {
        let mut left = self.left();
        left.abandoned.push((Instant::now(), resources));
        if mem::replace(&mut left.is_looked_after, true) {
            return;
        }
        let context = Arc::downgrade(self);
        let look_after = move || {
            loop {
                thread::sleep(LOOK);
                let Some(context) = context.upgrade() else { return };
                let _ = context.tidy();
                let mut left = context.left();
                if left.abandoned.is_empty() {
                    left.is_looked_after = false;
                    return;
                }
            }
        };
        // If the thread cannot be started, the next call that opens a lane or loads a table does its work.
        let thread = thread::Builder::new().name("gpu-tidy".to_owned());
        left.is_looked_after = thread.spawn(look_after).is_ok();
    }

    /// Frees what can be freed.
    ///
    /// # Errors
    /// Too many resources are still in use, or the device does not finish with some: then it is lost.
    pub(super) fn tidy(&self) -> Result<(), DeviceError> {
        self.tidy_tables();
        let mut left = self.left();
        let all = mem::take(&mut left.abandoned);
        let (idle, busy): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(_, resources)| resources.is_idle());
        if busy.iter().any(|(since, _)| since.elapsed() > PATIENCE) {
            self.lose("it does not finish work that was given up".to_owned());
        }
        // Dropped resources free themselves, and may need the lock.
        if self.is_lost() {
            drop(left);
            drop((idle, busy));
            return self.alive();
        }
        let count = busy.len();
        left.abandoned = busy;
        drop(left);
        drop(idle);
        if count >= MOST_ABANDONED {
            return Err(DeviceError::Step(
                "it has not released lanes that were closed \
                                          before"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    fn left(&self) -> MutexGuard<'_, Left> {
        self.left.lock()
    }

    pub(super) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let mut left = mem::take(&mut *self.left());
        self.free_tables();
        if CURRENT.get() == self.number {
            CURRENT.set(0);
            // SAFETY: no context is current then; none is harmed.
            let _ = unsafe { sys::cuCtxSetCurrent(ptr::null_mut()) };
        }
        let (device, gone) = (self.device, self.gone.clone());
        if !self.is_lost() {
            // SAFETY: retained once, released once; everything in it was freed.
            let result = unsafe { sys::cuDevicePrimaryCtxRelease_v2(device) };
            let _ = gone.0.set(check("cuDevicePrimaryCtxRelease", result));
            return;
        }
        // A reset may wait for a device that hangs, so it runs on a thread of its own.
        let pages = mem::take(&mut left.pages);
        let reset = move || {
            // SAFETY: nobody has anything of this context any more.
            let result = unsafe { sys::cuDevicePrimaryCtxReset_v2(device) };
            let mut end = check("cuDevicePrimaryCtxReset", result);
            if end.is_ok() {
                // SAFETY: retained once, released once.
                let result = unsafe { sys::cuDevicePrimaryCtxRelease_v2(device) };
                end = check("cuDevicePrimaryCtxRelease", result);
                drop(pages);
            } else {
                // The device may write to them at any time.
                mem::forget(pages);
            }
            let _ = gone.0.set(end);
        };
        let thread = thread::Builder::new().name("gpu-reset".to_owned());
        if thread.spawn(reset).is_err() {
            let why = DeviceError::Lost("no thread to reset it".to_owned());
            let _ = self.gone.0.set(Err(why));
        }
    }
}

/// An ordered queue of work.
pub(super) struct Stream {
    context: Arc<Context>,
    raw: sys::CUstream,
}

// SAFETY: the driver's handles can be used from any thread.
unsafe impl Send for Stream {}

impl Stream {
    pub(super) fn new(context: &Arc<Context>) -> Result<Self, DeviceError> {
        let mut raw = ptr::null_mut();
        let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: writes a handle.
        context.call("cuStreamCreate", || unsafe { sys::cuStreamCreate(&raw mut raw, flags) })?;
        Ok(Self { context: context.clone(), raw })
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(super) fn raw(&self) -> sys::CUstream {
        self.raw
    }

    /// True if all its work is done.
    pub(super) fn is_idle(&self) -> Result<bool, DeviceError> {
        // SAFETY: a stream of this context.
        self.context.ask("cuStreamQuery", || unsafe { sys::cuStreamQuery(self.raw) })
    }

    /// Waits until all its work is done, without a time limit.
    pub(super) fn synchronize(&self) -> Result<(), DeviceError> {
        // SAFETY: a stream of this context.
        self.context.call("cuStreamSynchronize", || unsafe { sys::cuStreamSynchronize(self.raw) })
    }

    /// Copies bytes from the host to the device.
    ///
    /// # Safety
    /// Both ranges are allocated, and stay allocated and unwritten by others until the copy is done.
    pub(super) unsafe fn copy_in(
        &self,
        to: sys::CUdeviceptr,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), DeviceError> {
        self.context.call("cuMemcpyHtoDAsync", || {
            // SAFETY: as the caller says.
            unsafe { sys::cuMemcpyHtoDAsync_v2(to, from.cast(), bytes, self.raw) }
        })
    }

    /// Copies bytes from the device to the host.
    ///
    /// # Safety
    /// Both ranges are allocated and stay so, and nobody reads the host's range, until the copy is done.
    pub(super) unsafe fn copy_out(
        &self,
        to: *mut u8,
        from: sys::CUdeviceptr,
        bytes: usize,
    ) -> Result<(), DeviceError> {
        self.context.call("cuMemcpyDtoHAsync", || {
            // SAFETY: as the caller says.
            unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), from, bytes, self.raw) }
        })
    }

    /// Copies bytes within the device.
    ///
    /// # Safety
    /// Both ranges are allocated, and stay allocated and unwritten by others until the copy is done.
    pub(super) unsafe fn copy_within(
        &self,
        to: sys::CUdeviceptr,
        from: sys::CUdeviceptr,
        bytes: usize,
    ) -> Result<(), DeviceError> {
        self.context.call("cuMemcpyDtoDAsync", || {
            // SAFETY: as the caller says.
            unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, self.raw) }
        })
    }

    /// Launches blocks of threads.
    ///
    /// # Safety
    /// `arguments` are addresses of values as the kernel declares them. What the kernel does with them is sound until it is
    /// done.
    pub(super) unsafe fn launch(
        &self,
        kernel: &Function,
        blocks: usize,
        threads: usize,
        arguments: &mut [*mut c_void],
    ) -> Result<(), DeviceError> {
        let (blocks, threads) = (blocks as u32, threads as u32);
        self.context.call("cuLaunchKernel", || {
            // SAFETY: as the caller says; the driver copies the arguments before it comes back.
            unsafe {
                sys::cuLaunchKernel(
                    kernel.raw,
                    blocks,
                    1,
                    1,
                    threads,
                    1,
                    1,
                    0,
                    self.raw,
                    arguments.as_mut_ptr(),
                    ptr::null_mut(),
                )
            }
        })
    }

    /// Makes a graph of the work that `enqueue` puts on the stream, instead of executing it.
    pub(super) fn capture(
        &self,
        enqueue: impl FnOnce() -> Result<(), DeviceError>,
    ) -> Result<Graph, DeviceError> {
        // Other threads may allocate memory meanwhile.
        let mode = sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.context.call("cuStreamBeginCapture", || {
            // SAFETY: a stream of this context that captures nothing yet.
            unsafe { sys::cuStreamBeginCapture_v2(self.raw, mode) }
        })?;
        let enqueued = enqueue();
        let mut graph = ptr::null_mut();
        // Also when the device is lost by now: a thread that captures could do nothing else any more.
        // SAFETY: begun above, on this thread; writes a handle, which is null for a capture that failed.
        let ended = unsafe { sys::cuStreamEndCapture(self.raw, &raw mut graph) };
        let ended = self.context.watch(check("cuStreamEndCapture", ended));
        let mut raw = ptr::null_mut();
        let made = enqueued.and(ended).and_then(|()| {
            self.context.call("cuGraphInstantiate", || {
                // SAFETY: the graph is whole; writes a handle.
                unsafe { sys::cuGraphInstantiateWithFlags(&raw mut raw, graph, 0) }
            })
        });
        if !graph.is_null() {
            // SAFETY: made above; what was instantiated of it stands for itself.
            self.context.free("cuGraphDestroy", || unsafe { sys::cuGraphDestroy(graph) });
        }
        made.map(|()| Graph { context: self.context.clone(), raw })
    }

    /// Executes a graph.
    ///
    /// # Safety
    /// As for each of the calls that the graph was made of.
    pub(super) unsafe fn run(&self, graph: &Graph) -> Result<(), DeviceError> {
        // SAFETY: both belong to this context; for the rest as the caller says.
        self.context.call("cuGraphLaunch", || unsafe { sys::cuGraphLaunch(graph.raw, self.raw) })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        self.context.free("cuStreamDestroy", || unsafe { sys::cuStreamDestroy_v2(self.raw) });
    }
}

/// A graph: work that the driver launches with one call.
pub(super) struct Graph {
    context: Arc<Context>,
    raw: sys::CUgraphExec,
}

// SAFETY: the driver's handles can be used from any thread.
unsafe impl Send for Graph {}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; if it runs, the driver waits with that.
        self.context.free("cuGraphExecDestroy", || unsafe { sys::cuGraphExecDestroy(self.raw) });
    }
}

/// Memory of the device.
pub(super) struct DeviceMemory {
    context: Arc<Context>,
    address: sys::CUdeviceptr,
    left: bool,
}

impl DeviceMemory {
    /// Allocates `bytes` bytes, at a multiple of 256.
    pub(super) fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, DeviceError> {
        let mut address = 0;
        context.call("cuMemAlloc", || {
            // SAFETY: writes an address. The driver refuses an allocation of nothing.
            unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes.max(16)) }
        })?;
        Ok(Self { context: context.clone(), address, left: false })
    }

    /// Gives up ownership; the caller frees the memory.
    pub(super) fn leave(mut self) -> sys::CUdeviceptr {
        self.left = true;
        self.address
    }

    pub(super) fn address(&self) -> sys::CUdeviceptr {
        self.address
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if !self.left {
            // SAFETY: allocated once, freed once; its owner sees to it that nothing under way uses it.
            self.context.free("cuMemFree", || unsafe { sys::cuMemFree_v2(self.address) });
        }
    }
}

/// Memory of the host that the device reads and writes.
///
/// It consists of our own pages, which are registered with the driver, because pages that the driver allocates are
/// freed when a context is reset. If the driver cannot register pages, as in some containers, it allocates them.
/// Whoever uses them holds the context, so that they are no longer used when the context is reset.
pub(super) struct HostMemory {
    context: Arc<Context>,
    owner: Owner,
    address: *mut u8,
    device: sys::CUdeviceptr,
}

enum Owner {
    Driver,
    /// `None` after the pages were handed to the context.
    Us(Option<Pages>),
}

// SAFETY: it owns its pages; the addresses are its own.
unsafe impl Send for HostMemory {}

impl HostMemory {
    /// `bytes` zeros.
    pub(super) fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, DeviceError> {
        let mut memory = match Self::register(context, bytes) {
            Err(error @ (DeviceError::Step(_) | DeviceError::Unsupported(_))) => {
                Self::allocate(context, bytes).map_err(|_| error)?
            }
            registered => registered?,
        };
        context.call("cuMemHostGetDevicePointer", || {
            let host = memory.address.cast();
            // SAFETY: registered or allocated with a device mapping; writes an address.
            unsafe { sys::cuMemHostGetDevicePointer_v2(&raw mut memory.device, host, 0) }
        })?;
        Ok(memory)
    }

    fn register(context: &Arc<Context>, bytes: usize) -> Result<Self, DeviceError> {
        let pages = Pages::new(bytes)
            .ok_or_else(|| DeviceError::OutOfMemory(format!("{bytes} bytes of the host")))?;
        let address = pages.address();
        let flags = sys::CU_MEMHOSTREGISTER_PORTABLE | sys::CU_MEMHOSTREGISTER_DEVICEMAP;
        context.call("cuMemHostRegister", || {
            // SAFETY: whole pages that belong to nobody else, and live until they are unregistered or the context is reset.
            unsafe { sys::cuMemHostRegister_v2(address.cast(), pages.bytes(), flags) }
        })?;
        Ok(Self { context: context.clone(), owner: Owner::Us(Some(pages)), address, device: 0 })
    }

    fn allocate(context: &Arc<Context>, bytes: usize) -> Result<Self, DeviceError> {
        let mut address = ptr::null_mut();
        let bytes = bytes.max(1);
        // Cached by the host, which reads results from it.
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        context.call("cuMemHostAlloc", || {
            // SAFETY: writes an address.
            unsafe { sys::cuMemHostAlloc(&raw mut address, bytes, flags) }
        })?;
        let address = address.cast::<u8>();
        // SAFETY: allocated above, as long as that.
        unsafe { address.write_bytes(0, bytes) };
        Ok(Self { context: context.clone(), owner: Owner::Driver, address, device: 0 })
    }

    /// The address for the host.
    pub(super) fn host(&self) -> *mut u8 {
        self.address
    }

    /// The address for kernels.
    pub(super) fn device(&self) -> sys::CUdeviceptr {
        self.device
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        let address = self.address.cast();
        match &mut self.owner {
            Owner::Driver => {
                // SAFETY: allocated once, freed once, or with the context; its owner sees to it that nothing under way uses it.
                let free = || unsafe { sys::cuMemFreeHost(address) };
                self.context.free("cuMemFreeHost", free);
            }
            Owner::Us(pages) => {
                // SAFETY: registered once, unregistered once; for the rest as above.
                let free = || unsafe { sys::cuMemHostUnregister(address) };
                if !self.context.free("cuMemHostUnregister", free)
                    && let Some(pages) = pages.take()
                {
                    self.context.left().pages.push(pages);
                }
            }
        }
    }
}

/// Code that is loaded on the device.
pub(super) struct Module {
    context: Arc<Context>,
    raw: sys::CUmodule,
}

// SAFETY: the driver's handles can be used from any thread.
unsafe impl Send for Module {}
// SAFETY: as above; nothing is changed by looking functions up.
unsafe impl Sync for Module {}

/// A kernel of a module.
pub(super) struct Function {
    raw: sys::CUfunction,
    /// Keeps the module, and with it the function, loaded.
    _module: Module,
}

// SAFETY: the driver's handles can be used from any thread.
unsafe impl Send for Function {}
// SAFETY: as above; nothing is changed by a launch.
unsafe impl Sync for Function {}

impl Function {
    /// Loads an image, PTX or machine code, that ends with a zero byte, and finds one kernel in it, which must be
    /// able to run in blocks of this many threads.
    pub(super) fn load(
        context: &Arc<Context>,
        image: &[u8],
        name: &CStr,
        threads: usize,
    ) -> Result<Self, DeviceError> {
        debug_assert_eq!(image.last(), Some(&0));
        let module = Module::load(context, image)?;
        let mut function = ptr::null_mut();
        context.call("cuModuleGetFunction", || {
            // SAFETY: a module of this context; the name is zero-terminated; writes a handle.
            unsafe { sys::cuModuleGetFunction(&raw mut function, module.raw, name.as_ptr()) }
        })?;
        let mut most = 0;
        let which = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
        // This also makes a driver with lazy loading load the kernel now, because a capture may not.
        context.call("cuFuncGetAttribute", || {
            // SAFETY: the function was found above; writes an int.
            unsafe { sys::cuFuncGetAttribute(&raw mut most, which, function) }
        })?;
        if usize::try_from(most).is_ok_and(|most| most < threads) {
            let name = name.to_string_lossy();
            let why = format!("{name} runs in blocks of {most} threads at most");
            return Err(DeviceError::Unsupported(why));
        }
        Ok(Self { raw: function, _module: module })
    }
}

impl Module {
    fn load(context: &Arc<Context>, image: &[u8]) -> Result<Self, DeviceError> {
        use sys::CUjit_option as Option;
        let mut raw = ptr::null_mut();
        let mut log = [0_u8; 2048];
        let mut options =
            [Option::CU_JIT_ERROR_LOG_BUFFER, Option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        // A number is passed in place of an address.
        let mut values = [log.as_mut_ptr().cast(), ptr::without_provenance_mut(log.len() - 1)];
        let loaded = context.call("cuModuleLoadDataEx", || {
            // SAFETY: machine code says itself how long it is, PTX ends with a zero; two options and their values, a buffer as
            // long as it is told; writes a handle.
            unsafe {
                sys::cuModuleLoadDataEx(
                    &raw mut raw,
                    image.as_ptr().cast(),
                    2,
                    options.as_mut_ptr(),
                    values.as_mut_ptr(),
                )
            }
        });
        match loaded {
            Ok(()) => Ok(Self { context: context.clone(), raw }),
            // The messages of the driver's compiler.
            Err(DeviceError::Unsupported(why)) => {
                let log = CStr::from_bytes_until_nul(&log).unwrap_or_default().to_string_lossy();
                let log = if log.is_empty() { String::new() } else { format!(": {}", log.trim()) };
                Err(DeviceError::Unsupported(why + &log))
            }
            Err(error) => Err(error),
        }
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: loaded once, unloaded once; nothing under way uses it, since lanes hold it.
        self.context.free("cuModuleUnload", || unsafe { sys::cuModuleUnload(self.raw) });
    }
}
