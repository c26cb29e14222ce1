//! Tests a device before it is used.
//!
//! NVIDIA's manual does not promise that a process can continue with a device after a kernel caused an error, even if
//! the context was reset. So a device that was just opened must do what each batch needs.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::context::{Context, DeviceMemory, Function, HostMemory, Stream};
use crate::device::DeviceError;
use crate::device::slot::HEADER;

/// The maximum duration of the test.
const MOST: Duration = Duration::from_secs(2);
/// The word that is copied to the device and back.
const WORD: u32 = 0x6d69_6c6c;

/// Copies a header to the device, and lets the last kernel of every plan write its number to memory of the host.
pub(super) fn works(context: &Arc<Context>, complete: &Function) -> Result<(), DeviceError> {
    let stream = Stream::new(context)?;
    let memory = DeviceMemory::new(context, HEADER)?;
    let host = HostMemory::new(context, HEADER + 64)?;
    let sent = host.host().wrapping_add(4).cast();
    let came = host.host().wrapping_add(HEADER).cast();
    // SAFETY: aligned words of our memory, which the device touches only as atomic words, or after they were written.
    let (sent, came) = unsafe { (AtomicU32::from_ptr(sent), AtomicU32::from_ptr(came)) };
    sent.store(WORD, Ordering::Release);
    let mut header = memory.address();
    let mut word = host.device() + HEADER as u64;
    let mut arguments: [*mut c_void; 2] = [(&raw mut header).cast(), (&raw mut word).cast()];
    let mut run = || {
        // SAFETY: both are as long as that, and stay until the stream is idle, or the context is given up as a whole.
        unsafe { stream.copy_in(memory.address(), host.host(), HEADER) }?;
        // SAFETY: its parameters; it reads the header and writes the word.
        unsafe { stream.launch(complete, 1, 1, &mut arguments) }?;
        wait(&stream)
    };
    if let Err(error) = run() {
        // The memory would be freed by this return while it is in use. In a lost context nothing is in use.
        context.lose(error.to_string());
        return Err(error);
    }
    match came.load(Ordering::Acquire) {
        WORD => Ok(()),
        other => Err(DeviceError::Step(format!("it was sent {WORD:#x} and brought {other:#x}"))),
    }
}

fn wait(stream: &Stream) -> Result<(), DeviceError> {
    let start = Instant::now();
    while !stream.is_idle()? {
        if start.elapsed() > MOST {
            return Err(DeviceError::Step("it does not finish copying a single word".to_owned()));
        }
        thread::sleep(Duration::from_micros(20));
    }
    Ok(())
}
