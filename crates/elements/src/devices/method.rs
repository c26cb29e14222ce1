//! METHOD: by which means a device is reached.

use millrace_core::Args;
use millrace_core::args::Word;

/// Reads METHOD. Click's two methods on Linux, PCAP and LINUX, are the same packet sockets here.
pub(super) fn configure(args: &mut Args<'_>, keyword: &str) {
    let method: Option<Word> = args.optional_keyword(keyword);
    let problem = match method.as_ref().map(Word::as_str) {
        None | Some("LINUX" | "PCAP") => return,
        Some(method @ ("XDP" | "NETMAP" | "DPDK" | "DEVBPF" | "PCAPFD")) => {
            format!("METHOD {method} is not available; LINUX reaches every interface")
        }
        Some(method) => format!("bad METHOD ‘{method}’, expected LINUX or PCAP"),
    };
    args.error(keyword, problem);
}
