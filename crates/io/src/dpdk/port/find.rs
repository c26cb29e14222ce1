//! Which port a name means.

use std::ffi::{CString, c_char};

use crate::dpdk::abi::{Info, Table};
use crate::queue::DeviceError;

/// The number of the port that a number, a name or a PCI address means.
pub(super) fn number_of(table: &Table, device: &str) -> Option<u16> {
    if let Ok(number) = device.parse() {
        return numbers(table).contains(&number).then_some(number);
    }
    // lspci leaves the domain out.
    let names = [device.to_owned(), format!("0000:{device}")];
    names.into_iter().find_map(|name| {
        let name = CString::new(name).ok()?;
        // SAFETY: the environment runs; a string.
        u16::try_from(unsafe { (table.find)(name.as_ptr()) }).ok()
    })
}

fn numbers(table: &Table) -> Vec<u16> {
    let mut numbers = vec![0; 1024];
    // SAFETY: the plugin writes at most so many.
    let count = unsafe { (table.ports)(numbers.as_mut_ptr(), numbers.len() as u32) };
    numbers.truncate(count as usize);
    numbers
}

/// The error for a port that does not exist; lists those that do.
pub(super) fn no_port(table: &Table, device: &str) -> DeviceError {
    let describe = |number: u16| {
        // SAFETY: plain numbers and characters, for which zero is a value.
        let mut info: Info = unsafe { std::mem::zeroed() };
        // SAFETY: the environment runs, and the structure is the one the plugin fills.
        unsafe { (table.info)(number, &raw mut info) };
        format!("{number} ({})", text(&info.name))
    };
    let all: Vec<String> = numbers(table).into_iter().map(describe).collect();
    let what = match all.as_slice() {
        [] => "DPDK has no port: bind a card to vfio-pci (`dpdk-devbind.py`), or name a virtual device \
               (`--dpdk --vdev=... --`)"
            .to_owned(),
        all => format!("DPDK has no such port; there are {}", all.join(", ")),
    };
    DeviceError::unsupported(device, what)
}

/// Characters up to the first null as a string.
pub(super) fn text(characters: &[c_char]) -> String {
    let bytes: Vec<u8> =
        characters.iter().map(|c| *c as u8).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
