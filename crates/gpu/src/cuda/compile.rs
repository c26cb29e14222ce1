//! Kernels for a device: compiled at run time if NVIDIA's compiler library is installed, otherwise from PTX.

use std::collections::HashMap;
use std::ffi::{CString, c_char};
use std::ptr;
use std::sync::{Arc, LazyLock};

use cudarc::nvrtc::sys;
use millrace_core::Lock;

use super::context::{Context, Function};
use crate::device::DeviceError;
use crate::kernel::{Kernel, TILE};

/// Every function that is used. cudarc would panic for a missing one.
const FUNCTIONS: &[&str] = &[
    "nvrtcCompileProgram",
    "nvrtcCreateProgram",
    "nvrtcDestroyProgram",
    "nvrtcGetCUBIN",
    "nvrtcGetCUBINSize",
    "nvrtcGetProgramLog",
    "nvrtcGetProgramLogSize",
];

/// Machine code followed by a zero byte.
type Image = Arc<[u8]>;
type Cache = HashMap<(Kernel, u32), Image>;

/// Makes a kernel that can be launched on a device of this architecture (90 for `sm_90`). It is compiled to machine
/// code here. If there is no compiler library, or the driver rejects the machine code, the driver compiles the PTX
/// that is part of Millrace.
///
/// # Errors
/// The device is lost or out of memory; or both ways fail, and the error contains both reasons.
pub(super) fn function(
    context: &Arc<Context>,
    kernel: Kernel,
    architecture: u32,
) -> Result<Arc<Function>, DeviceError> {
    let load = |image: &[u8]| Function::load(context, image, kernel.entry(), TILE);
    let compiled = cubin(kernel, architecture).map_err(DeviceError::Unsupported);
    let first = match compiled.and_then(|image| load(&image)) {
        Err(DeviceError::Unsupported(why)) => why,
        loaded => return loaded.map(Arc::new),
    };
    let mut ptx = kernel.ptx().as_bytes().to_vec();
    ptx.push(0);
    match load(&ptx) {
        Err(DeviceError::Unsupported(why)) => {
            let name = kernel.name();
            let why = format!("kernel {name} for sm_{architecture}: {first}; as PTX: {why}");
            Err(DeviceError::Unsupported(why))
        }
        loaded => loaded.map(Arc::new),
    }
}

/// Machine code of a kernel. It is compiled once per process, so that a device that was lost can be reopened soon.
fn cubin(kernel: Kernel, architecture: u32) -> Result<Image, String> {
    static CACHE: LazyLock<Lock<Cache>> = LazyLock::new(Lock::default);
    // SAFETY: loads NVIDIA's compiler library, if there is one, as every program that uses it does.
    if !unsafe { sys::is_culib_present() } {
        return Err("libnvrtc.so not found".to_owned());
    }
    for function in FUNCTIONS {
        // SAFETY: the symbol is looked for and not used.
        if unsafe { sys::culib().get::<*const ()>(function.as_bytes()) }.is_err() {
            return Err(format!("libnvrtc.so is too old: it has no {function}"));
        }
    }
    let mut cache = CACHE.lock();
    if let Some(image) = cache.get(&(kernel, architecture)) {
        return Ok(image.clone());
    }
    let program = Program::new(kernel)?;
    program.compile(architecture)?;
    let image: Image = program.cubin()?.into();
    cache.insert((kernel, architecture), image.clone());
    Ok(image)
}

struct Program(sys::nvrtcProgram);

impl Program {
    fn new(kernel: Kernel) -> Result<Self, String> {
        let text = |text: &str| CString::new(text).map_err(|error| error.to_string());
        let (source, name) = (text(kernel.source())?, text(&format!("{}.cu", kernel.name()))?);
        let mut program = ptr::null_mut();
        // SAFETY: two zero-terminated strings, no headers; writes a handle.
        let result = unsafe {
            sys::nvrtcCreateProgram(
                &raw mut program,
                source.as_ptr(),
                name.as_ptr(),
                0,
                ptr::null(),
                ptr::null(),
            )
        };
        check("nvrtcCreateProgram", result)?;
        Ok(Self(program))
    }

    fn compile(&self, architecture: u32) -> Result<(), String> {
        let options = [format!("--gpu-architecture=sm_{architecture}"), "--std=c++17".to_owned()];
        let options: Vec<CString> =
            options.iter().filter_map(|option| CString::new(option.as_str()).ok()).collect();
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: as many zero-terminated strings as it is told.
        let result =
            unsafe { sys::nvrtcCompileProgram(self.0, pointers.len() as i32, pointers.as_ptr()) };
        check("nvrtcCompileProgram", result).map_err(|error| format!("{error}\n{}", self.log()))
    }

    fn log(&self) -> String {
        let mut bytes = 0;
        // SAFETY: writes a size_t.
        if unsafe { sys::nvrtcGetProgramLogSize(self.0, &raw mut bytes) } as u32 != 0 {
            return String::new();
        }
        let mut log = vec![0u8; bytes];
        // SAFETY: writes as many bytes as it said.
        let _ = unsafe { sys::nvrtcGetProgramLog(self.0, log.as_mut_ptr().cast()) };
        String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned()
    }

    fn cubin(&self) -> Result<Vec<u8>, String> {
        let mut bytes = 0;
        // SAFETY: writes a size_t.
        check("nvrtcGetCUBINSize", unsafe { sys::nvrtcGetCUBINSize(self.0, &raw mut bytes) })?;
        // A zero behind it, as all images have here.
        let mut image = vec![0u8; bytes + 1];
        // SAFETY: writes as many bytes as it said.
        check("nvrtcGetCUBIN", unsafe { sys::nvrtcGetCUBIN(self.0, image.as_mut_ptr().cast()) })?;
        Ok(image)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        let _ = unsafe { sys::nvrtcDestroyProgram(&raw mut self.0) };
    }
}

fn check(call: &str, result: sys::nvrtcResult) -> Result<(), String> {
    match result as u32 {
        0 => Ok(()),
        code => Err(format!("{call}: error {code}")),
    }
}
