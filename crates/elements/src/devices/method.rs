//! METHOD: by which means a device is reached.

use millrace_core::Args;
use millrace_core::args::Word;
use millrace_io::{DpdkOptions, Method, XdpOptions};

/// Reads METHOD. Click's two methods on Linux, PCAP and LINUX, are the same packet sockets here.
pub(super) fn configure(args: &mut Args<'_>, keyword: &str) -> Option<Method> {
    let word: Word = args.optional_keyword(keyword)?;
    Some(match word.as_str() {
        "LINUX" | "PCAP" => Method::Ring,
        "SOCKET" => Method::Socket,
        "XDP" => Method::Xdp(XdpOptions::default()),
        "DPDK" => Method::Dpdk(DpdkOptions::default()),
        "NETMAP" => Method::Best,
        other => {
            let expected = "expected LINUX, PCAP, SOCKET, XDP, DPDK or NETMAP";
            args.error(keyword, format!("bad METHOD ‘{other}’, {expected}"));
            return None;
        }
    })
}
