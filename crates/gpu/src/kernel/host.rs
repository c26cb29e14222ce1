//! The kernels as functions of the host. `build.rs` compiles them from the same files.

#![allow(unsafe_code, reason = "the kernels are C")]

use super::{Kernel, Launch};

/// A kernel as a function. It processes at most `rows` rows from `first` on, and none beyond the header's number of
/// rows. Rows are independent: they can be processed in any order, and by several threads at once.
///
/// # Safety
/// `slot` points to the memory of a slot of the plan that the launch belongs to, at a multiple of 16 bytes. The slot
/// contains the header, all columns of the launch for as many rows as the header says, and as many bytes of packed
/// payload as the header says. No other thread writes the rows' parts of it. If the kernel has a table, the header's
/// `table` of the launch is the address of a table in the kernel's layout, which nobody writes to.
pub type HostFunction =
    unsafe extern "C" fn(launch: *const Launch, slot: *mut u8, first: u32, rows: u32);

unsafe extern "C" {
    fn mr_lpm4(launch: *const Launch, slot: *mut u8, first: u32, rows: u32);
    fn mr_lpm6(launch: *const Launch, slot: *mut u8, first: u32, rows: u32);
    fn mr_classify(launch: *const Launch, slot: *mut u8, first: u32, rows: u32);
    fn mr_aho_corasick(launch: *const Launch, slot: *mut u8, first: u32, rows: u32);
    fn mr_invert(launch: *const Launch, slot: *mut u8, first: u32, rows: u32);
    #[cfg(test)]
    safe fn mr_layout(index: u32) -> u32;
}

impl Kernel {
    /// The kernel for the host.
    pub fn host_function(self) -> HostFunction {
        match self {
            Self::Lpm4 => mr_lpm4,
            Self::Lpm6 => mr_lpm6,
            Self::Classify => mr_classify,
            Self::AhoCorasick => mr_aho_corasick,
            Self::Invert => mr_invert,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;
    use crate::kernel::{
        Column, Condition, DROP, Header, MAX_CONDITIONS, MAX_EXTENSIONS, MAX_INPUTS, MAX_TABLES,
        NONE, TILE,
    };

    /// The size of a structure, then the offset and the size of each of its fields.
    macro_rules! fields {
        ($type:ident: $($field:ident),*) => {{
            let value = $type::default();
            let mut layout = vec![(stringify!($type).to_owned(), size_of::<$type>())];
            $(
                let name = concat!(stringify!($type), ".", stringify!($field));
                layout.push((format!("{name} begins at"), offset_of!($type, $field)));
                layout.push((format!("bytes of {name}"), size_of_val(&value.$field)));
            )*
            layout
        }};
    }

    #[test]
    fn rust_and_c_agree_on_every_field() {
        let mut expected = fields!(Header: rows, sequence, payload, reserved, table);
        expected.extend(fields!(Column: at, tile, stride));
        expected.extend(fields!(Condition: mask, value));
        expected.extend(fields!(Launch: input, valid, offset, length, predicate, result, payload, table, constants,
            conditions, condition, field_shift, field_mask));
        expected.push(("TILE".to_owned(), TILE));
        expected.push(("MAX_INPUTS".to_owned(), MAX_INPUTS));
        expected.push(("MAX_CONDITIONS".to_owned(), MAX_CONDITIONS));
        expected.push(("MAX_TABLES".to_owned(), MAX_TABLES));
        expected.push(("MAX_EXTENSIONS".to_owned(), MAX_EXTENSIONS));
        expected.push(("NONE".to_owned(), NONE as usize));
        expected.push(("DROP".to_owned(), DROP as usize));
        for (index, (what, value)) in expected.iter().enumerate() {
            assert_eq!(mr_layout(index as u32) as usize, *value, "{what}");
        }
        assert_eq!(mr_layout(expected.len() as u32), NONE, "C has more");
    }
}
