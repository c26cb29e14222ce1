//! The filter compiler of libpcap, loaded when first needed.

#![allow(unsafe_code, reason = "calls into a C library")]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};

use libloading::{Library, Symbol};
use millrace_core::Lock;

use crate::bpf::Instruction;

/// Why a filter cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// libpcap is not installed.
    #[error("it needs libpcap, which is not installed (Debian: apt-get install libpcap0.8)")]
    Missing,
    /// The text is not a filter; libpcap's message.
    #[error("{0}")]
    Bad(String),
}

/// What the packets of a filter begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// An Ethernet header (`DLT_EN10MB`).
    Ethernet,
    /// An IPv4 or IPv6 header (`DLT_RAW`).
    Ip,
}
/// Bytes of a frame that an accepting filter returns: all.
const WHOLE: c_int = 0x4_0000;
/// `PCAP_NETMASK_UNKNOWN`.
const NO_NETMASK: c_uint = 0xffff_ffff;
/// The library's file names: the one on systems with only one version installed, and others.
const NAMES: [&str; 3] = ["libpcap.so.0.8", "libpcap.so.1", "libpcap.so"];

/// `struct bpf_program`.
#[repr(C)]
struct Program {
    length: c_uint,
    instructions: *mut libc::sock_filter,
}

type OpenDead = unsafe extern "C" fn(c_int, c_int) -> *mut c_void;
type Compile =
    unsafe extern "C" fn(*mut c_void, *mut Program, *const c_char, c_int, c_uint) -> c_int;
type FreeCode = unsafe extern "C" fn(*mut Program);
type GetError = unsafe extern "C" fn(*mut c_void) -> *mut c_char;
type Close = unsafe extern "C" fn(*mut c_void);

/// Compiles a filter in tcpdump's language (pcap-filter(7)) for Ethernet frames as they are on the wire. An
/// empty filter, which accepts everything, has no instructions.
///
/// # Errors
/// libpcap is not installed, or rejects the filter.
pub fn compile(filter: &str) -> Result<Vec<Instruction>, FilterError> {
    compile_for(filter, Start::Ethernet)
}

/// [`compile`] for packets that begin with a given header.
///
/// # Errors
/// As there.
pub fn compile_for(filter: &str, start: Start) -> Result<Vec<Instruction>, FilterError> {
    if filter.trim().is_empty() {
        return Ok(Vec::new());
    }
    let text = CString::new(filter)
        .map_err(|_| FilterError::Bad("there is a zero byte in the filter".to_owned()))?;
    // Before version 1.8 its parser was not for several threads.
    static ONE_AT_A_TIME: Lock<()> = Lock::new(());
    let _guard = ONE_AT_A_TIME.lock();
    // SAFETY: libpcap does nothing when it is loaded, and these functions have had these types since
    // its first release.
    unsafe {
        let library = NAMES.iter().find_map(|name| Library::new(*name).ok());
        let library = library.ok_or(FilterError::Missing)?;
        let open: Symbol<'_, OpenDead> = symbol(&library, c"pcap_open_dead")?;
        let compile: Symbol<'_, Compile> = symbol(&library, c"pcap_compile")?;
        let free: Symbol<'_, FreeCode> = symbol(&library, c"pcap_freecode")?;
        let error: Symbol<'_, GetError> = symbol(&library, c"pcap_geterr")?;
        let close: Symbol<'_, Close> = symbol(&library, c"pcap_close")?;

        let link = match start {
            Start::Ethernet => 1,
            Start::Ip => 12,
        };
        let handle = open(link, WHOLE);
        if handle.is_null() {
            return Err(FilterError::Bad("libpcap is out of memory".to_owned()));
        }
        let mut program = Program { length: 0, instructions: std::ptr::null_mut() };
        let outcome = match compile(handle, &raw mut program, text.as_ptr(), 1, NO_NETMASK) {
            0 => {
                let length = program.length as usize;
                let code = std::slice::from_raw_parts(program.instructions, length);
                let code = code.iter().map(|i| (i.code, i.jt, i.jf, i.k)).collect();
                free(&raw mut program);
                Ok(code)
            }
            _ => {
                let message = CStr::from_ptr(error(handle)).to_string_lossy();
                Err(FilterError::Bad(message.into_owned()))
            }
        };
        close(handle);
        outcome
    }
}

/// A function of the library.
///
/// # Safety
/// The function has the type `T`.
unsafe fn symbol<'l, T>(library: &'l Library, name: &CStr) -> Result<Symbol<'l, T>, FilterError> {
    // SAFETY: the caller's promise.
    let found = unsafe { library.get(name.to_bytes_with_nul()) };
    found.map_err(|_| {
        FilterError::Bad(format!("the installed libpcap lacks {}", name.to_string_lossy()))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bpf;

    /// The result of libpcap's own interpreter.
    fn judged_by_libpcap(program: &[Instruction], frame: &[u8]) -> Option<u32> {
        type Filter = unsafe extern "C" fn(*const libc::sock_filter, *const u8, u32, u32) -> u32;
        let code: Vec<_> = program
            .iter()
            .map(|&(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k })
            .collect();
        let length = frame.len() as u32;
        // SAFETY: the function has this type; the program is libpcap's own, and both are alive.
        unsafe {
            let library = NAMES.iter().find_map(|name| Library::new(*name).ok())?;
            let filter: Symbol<'_, Filter> = symbol(&library, c"bpf_filter").ok()?;
            Some(filter(code.as_ptr(), frame.as_ptr(), length, length))
        }
    }

    /// Frames whose bytes are likely to match filters.
    fn frame() -> impl Strategy<Value = Vec<u8>> {
        let ether_type =
            prop::sample::select(vec![[8, 0], [8, 6], [0x86, 0xdd], [0x81, 0], [1, 2]]);
        let start = prop::sample::select(vec![0x45, 0x46, 0x60, 0x00]);
        let protocol = prop::sample::select(vec![1u8, 6, 17, 47]);
        let rest =
            prop::collection::vec(prop::sample::select(vec![0u8, 1, 5, 6, 17, 53, 80]), 0..80);
        (ether_type, start, protocol, rest, 0usize..100).prop_map(
            |(ether_type, start, protocol, rest, length)| {
                let mut frame = [&[0; 12][..], &ether_type, &[start], &rest].concat();
                for at in [20, 23] {
                    if let Some(byte) = frame.get_mut(at) {
                        *byte = protocol;
                    }
                }
                frame.truncate(length);
                frame
            },
        )
    }

    proptest! {
        #[test]
        fn frames_are_judged_as_libpcap_judges(
            filter in prop::sample::select(vec![
                "udp port 53",
                "tcp[tcpflags] & tcp-syn != 0 and dst port 80",
                "ip6 proto 17 or icmp[0] = 5",
                "vlan 5 and ip",
                "ip[2:2] > 60 and not (src net 1.5.0.0/16 or len < 40)",
                "(ip[6:2] & 0x1fff) * 8 / 3 - 7 | 1 != udp[4] << 2 ^ 5 % 3",
            ]),
            frame in frame(),
        ) {
            let program = match compile(filter) {
                Err(FilterError::Missing) => return Ok(()),
                program => program.unwrap(),
            };
            let judged = judged_by_libpcap(&program, &frame);
            prop_assert_eq!(Some(bpf::run(&program, &frame)), judged);
            let cut = 20;
            let fitted = bpf::for_kernel(&program, cut, 1518);
            let wanted = if judged > Some(0) { cut } else { 0 };
            prop_assert_eq!(bpf::run(fitted.get(3..).unwrap_or_default(), &frame), wanted);
        }
    }

    #[test]
    fn filters_of_tcpdump_are_compiled() {
        assert_eq!(compile(" "), Ok(Vec::new()));
        let cases = [
            ("arp", 0x806u16, 0, true),
            ("arp", 0x800, 0, false),
            ("ip proto 47", 0x800, 47, true),
            ("ip proto 47", 0x800, 17, false),
            ("vlan 5", 0x8100, 0, true),
            ("not ip6 and greater 30", 0x86dd, 0, false),
        ];
        for (filter, ether_type, protocol, wanted) in cases {
            let mut frame = vec![0; 40];
            frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
            frame[15] = 5;
            frame[23] = protocol;
            match compile(filter) {
                Ok(program) => assert_eq!(bpf::run(&program, &frame) > 0, wanted, "{filter}"),
                // The sentence that the user gets.
                Err(error) => assert!(error.to_string().contains("libpcap0.8"), "{error}"),
            }
        }
    }

    #[test]
    fn libpcap_says_what_is_wrong() {
        if compile("arp") == Err(FilterError::Missing) {
            let test = millrace_testkit::enclosing(libpcap_says_what_is_wrong);
            return millrace_testkit::announce(test, &"needs libpcap, which tcpdump brings");
        }
        for bad in ["tcp prot 80", "port http-of-no-kind", "host \0"] {
            let error = compile(bad).unwrap_err();
            assert!(!error.to_string().is_empty() && error != FilterError::Bad(String::new()));
        }
        assert_ne!(compile("tcp port 80"), compile("tcp port 81"));
    }
}
