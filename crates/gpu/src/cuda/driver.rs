//! The driver library: finds it, interprets its error codes, and describes a device.

use std::ffi::CStr;
use std::mem::MaybeUninit;

use cudarc::driver::sys;

use crate::device::{DeviceError, WhyNot};

/// The oldest driver that has every function used here.
const OLDEST: i32 = 12_000;

/// Every function that is used. cudarc would panic for a missing one.
const FUNCTIONS: &[&str] = &[
    "cuCtxSetCurrent",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxReset_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventQuery",
    "cuEventRecord",
    "cuFuncGetAttribute",
    "cuGetErrorName",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAlloc_v2",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemHostGetDevicePointer_v2",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuModuleGetFunction",
    "cuModuleLoadDataEx",
    "cuModuleUnload",
    "cuStreamBeginCapture_v2",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamEndCapture",
    "cuStreamQuery",
    "cuStreamSynchronize",
];

/// Properties of a device that are known before it is opened.
pub(super) struct Description {
    pub(super) device: sys::CUdevice,
    pub(super) name: String,
    pub(super) memory: u64,
    /// Its compute capability: 90 for `sm_90`.
    pub(super) architecture: u32,
}

/// Finds a device, or returns what is missing.
pub(super) fn find(ordinal: usize) -> Result<Description, WhyNot> {
    // SAFETY: loads the driver's library, if there is one, as every program that uses it does.
    if !unsafe { sys::is_culib_present() } {
        return Err(WhyNot("no NVIDIA driver: libcuda.so.1 not found".to_owned()));
    }
    for function in FUNCTIONS {
        // SAFETY: the symbol is looked for and not used.
        if unsafe { sys::culib().get::<*const ()>(function.as_bytes()) }.is_err() {
            return Err(WhyNot(format!("the NVIDIA driver is too old: it has no {function}")));
        }
    }
    let why = |error: DeviceError| WhyNot(error.to_string());
    let mut version = 0;
    // SAFETY: may be called at any time; writes an int.
    let result = unsafe { sys::cuDriverGetVersion(&raw mut version) };
    check("cuDriverGetVersion", result).map_err(why)?;
    if version < OLDEST {
        let (major, minor) = (version / 1000, version % 1000 / 10);
        return Err(WhyNot(format!(
            "the NVIDIA driver is too old: it supports CUDA {major}.{minor}, 12.0 is needed"
        )));
    }
    // SAFETY: may be called at any time.
    let initialised = unsafe { sys::cuInit(0) };
    if initialised as u32 == NO_DEVICE {
        return Err(WhyNot("the NVIDIA driver finds no GPU".to_owned()));
    }
    check("cuInit", initialised).map_err(why)?;
    let mut count = 0;
    // SAFETY: the driver is initialised; writes an int.
    let result = unsafe { sys::cuDeviceGetCount(&raw mut count) };
    check("cuDeviceGetCount", result).map_err(why)?;
    let index = i32::try_from(ordinal).unwrap_or(i32::MAX);
    if index >= count {
        return Err(WhyNot(format!("no GPU {ordinal}: the NVIDIA driver finds {count}")));
    }
    describe(index).map_err(why)
}

fn describe(index: i32) -> Result<Description, DeviceError> {
    let mut device = 0;
    // SAFETY: writes an int.
    check("cuDeviceGet", unsafe { sys::cuDeviceGet(&raw mut device, index) })?;
    let mut name = [0; 128];
    // SAFETY: writes at most as many characters as it is told, the last of them 0.
    let result = unsafe { sys::cuDeviceGetName(name.as_mut_ptr(), 128, device) };
    check("cuDeviceGetName", result)?;
    // SAFETY: zero-terminated, since the last byte was never written or is the terminator.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
    let mut memory = MaybeUninit::uninit();
    // SAFETY: writes a size_t.
    check("cuDeviceTotalMem", unsafe { sys::cuDeviceTotalMem_v2(memory.as_mut_ptr(), device) })?;
    // SAFETY: written, since the call succeeded.
    let memory = unsafe { memory.assume_init() } as u64;
    let attribute = |which| {
        let mut value = 0;
        // SAFETY: writes an int.
        let result = unsafe { sys::cuDeviceGetAttribute(&raw mut value, which, device) };
        check("cuDeviceGetAttribute", result).map(|()| value)
    };
    use sys::CUdevice_attribute as Attribute;
    let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    if attribute(Attribute::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY)? == 0 {
        return Err(DeviceError::Unsupported(format!("{name} cannot map memory of the host")));
    }
    Ok(Description { device, name, memory, architecture: (major * 10 + minor) as u32 })
}

const OUT_OF_MEMORY: u32 = 2;
const NO_DEVICE: u32 = 100;
const NOT_READY: u32 = 600;

/// Returns whether a queried operation is done: `CUDA_ERROR_NOT_READY` is not an error.
pub(super) fn check_ready(call: &str, result: sys::CUresult) -> Result<bool, DeviceError> {
    if result as u32 == NOT_READY { Ok(false) } else { check(call, result).map(|()| true) }
}

/// Converts an error code of the driver.
pub(super) fn check(call: &str, result: sys::CUresult) -> Result<(), DeviceError> {
    let code = result as u32;
    if code == 0 {
        return Ok(());
    }
    let message = format!("{call}: {}", name_of(result));
    Err(match code {
        OUT_OF_MEMORY => DeviceError::OutOfMemory(message),
        // Images and PTX that this device or driver does not accept, and missing functions.
        200 | 209 | 218 | 221 | 222 | 223 | 225 | 300 | 500 | 801 => {
            DeviceError::Unsupported(message)
        }
        code if is_final(code) => DeviceError::Lost(message),
        _ => DeviceError::Step(message),
    })
}

/// True if every later call in the context, or in the process, fails too ("sticky" errors).
fn is_final(code: u32) -> bool {
    match code {
        // Deinitialised, device unavailable, no device, invalid device, no context.
        4 | 46 | 100 | 101 | 201 => true,
        // Uncorrectable memory and NVLink errors, and those contained to this process.
        214 | 220 | 226 => true,
        // Illegal address, launch timeout, destroyed context, assertion, and other errors of kernels.
        700 | 702 | 709 | 710 | 714..=719 | 721 => true,
        // Driver and kernel module do not match, or the server of the multi-process service is gone or has ended this
        // process' work.
        802..=810 => true,
        // External device, unknown.
        911 | 999 => true,
        _ => false,
    }
}

fn name_of(result: sys::CUresult) -> String {
    let mut name = std::ptr::null();
    // SAFETY: writes the address of a string that lives as long as the library, or of none.
    let known = unsafe { sys::cuGetErrorName(result, &raw mut name) };
    if known as u32 != 0 || name.is_null() {
        return format!("error {}", result as u32);
    }
    // SAFETY: a zero-terminated string of the library.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If a function were used but not checked for, a driver without it would end the process.
    #[test]
    fn every_used_driver_function_is_checked_for() {
        let sources = concat!(
            include_str!("calibrate.rs"),
            include_str!("context.rs"),
            include_str!("driver.rs"),
            include_str!("lane.rs"),
            include_str!("mod.rs"),
            include_str!("prove.rs"),
            include_str!("tables.rs"),
        );
        let mut used: Vec<&str> = sources
            .split("sys::cu")
            .skip(1)
            .filter_map(|rest| rest.split_once('(').map(|(name, _)| name))
            .filter(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
            .filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase()))
            .collect();
        used.sort_unstable();
        used.dedup();
        let found: Vec<&str> =
            FUNCTIONS.iter().filter_map(|name| name.strip_prefix("cu")).collect();
        assert_eq!(used, found);
    }

    #[test]
    fn errors_that_need_a_new_context_are_distinguished() {
        for (code, is) in [
            (700, true),
            (719, true),
            (810, true),
            (999, true),
            (1, false),
            (2, false),
            (225, false),
            (701, false),
        ] {
            assert_eq!(is_final(code), is, "{code}");
        }
    }
}
