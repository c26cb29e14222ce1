//! Files: the first byte of the input chooses a reader, the rest is the file.

use std::fs;

use millrace_core::Timestamp;

use crate::bench::Bench;
use crate::guard;

/// Configurations that read a file: `FILE` stands for its name, `LINES` for its lines, as arguments, each quoted or not.
const READERS: &[&str] = &[
    "f :: FromDump(FILE, STOP true) -> CheckIPHeader(14) -> catch0 :: TestCatch",
    "f :: FromDump(FILE, FORCE_IP true, MMAP true, BURST 7) -> catch0 :: TestCatch; f[1] -> Discard",
    "f :: FromDump(FILE, PRELOAD -1, FORCE_LEN 70, TIMING true) -> Queue -> catch0 :: TestCatch",
    "f :: FromIPSummaryDump(FILE, STOP true, CHECKSUM true) -> catch0 :: TestCatch",
    "f :: FromIPSummaryDump(FILE, MULTIPACKET true, ZERO false, CONTENTS ip_src sport payload, PROTO 17) \
     -> ToIPSummaryDump(/dev/null, FIELDS ip_src ip_opt tcp_opt payload, BAD_PACKETS true)",
    "f :: FromCapDump(FILE, CHECKSUM true, AGGREGATE 3) -> catch0 :: TestCatch",
    "f :: FromNetFlowSummaryDump(FILE, MULTIPACKET true, LINK 1) -> catch0 :: TestCatch",
    "f :: FromTcpdump(FILE, CHECKSUM true) -> catch0 :: TestCatch",
    "feed0 :: TestFeed -> f :: SDNClassifier(FILE, CACHE 8) -> catch0 :: TestCatch",
    "feed0 :: TestFeed -> f :: IDSMatcher(FILE, FORMAT SNORT) -> catch0 :: TestCatch",
    "feed0 :: TestFeed -> f :: IDSMatcher(FILE, FORMAT PLAIN, ALL true, FLOW true) -> catch0 :: TestCatch",
    "feed0 :: TestFeed -> f :: IPFilter(LINES) -> catch0 :: TestCatch",
    "feed0 :: TestFeed -> f :: IPClassifier(LINES) -> catch0 :: TestCatch",
    "feed0 :: TestFeed -> f :: Classifier(LINES) -> catch0 :: TestCatch",
    "feed0 :: TestFeed -> f :: RadixIPLookup(LINES) -> catch0 :: TestCatch",
    "feed0 :: TestFeed -> f :: DirectIPLookup(LINES) -> catch0 :: TestCatch",
    "feed0 :: TestFeed -> f :: RangeIPLookup(LINES) -> catch0 :: TestCatch",
    "feed0 :: TestFeed -> f :: LookupIP6Route(LINES) -> catch0 :: TestCatch",
    "feed0 :: TestFeed -> f :: RadixIPsecLookup(LINES) -> catch0 :: TestCatch",
    "feed0 :: TestFeed -> f :: AggregateFilter(LINES) -> catch0 :: TestCatch",
    "feed0 :: TestFeed -> f :: IPRewriter(LINES) -> catch0 :: TestCatch",
    "feed0 :: TestFeed -> f :: WordMatcher(ALERT, LINES) -> catch0 :: TestCatch",
];

/// A packet for what reads rules.
const PACKET: &[u8] = b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x08\0\x45\0\0\x1e\0\x01\0\0\x40\x11\x66\xc8\x0a\0\0\x01\x0a\0\0\x02\
    \0\x35\x04\0\0\x0a\0\0ab";

pub(super) fn run(data: &[u8]) {
    let Some((&choice, file)) = data.split_first() else { return };
    let text = READERS[usize::from(choice) % READERS.len()];
    let text = match text.contains("FILE") {
        true => {
            let Some(name) = put(file) else { return };
            text.replace("FILE", &name)
        }
        false => text.replace("LINES", &lines(file)),
    };
    let Some(mut bench) = Bench::new(&connected(&text, file), 1) else { return };
    for _ in 0..4 {
        let packets = [PACKET, &PACKET[14..], &PACKET[..30]];
        bench.give(0, packets.into_iter().filter_map(millrace_core::Packet::from_bytes).collect());
        bench.pass(Timestamp::from_secs(1));
    }
    bench.end();
}

/// Writes the file, and gives its name.
fn put(file: &[u8]) -> Option<String> {
    let path = guard::folder().ok()?.join("read");
    fs::write(&path, file).ok()?;
    path.to_str().map(str::to_owned)
}

/// Lines as arguments.
fn lines(file: &[u8]) -> String {
    String::from_utf8_lossy(file).lines().collect::<Vec<_>>().join(",\n")
}

/// The same configuration with further outputs connected: classifiers have as many as there are lines.
fn connected(text: &str, file: &[u8]) -> String {
    let outputs = match text.contains("feed0") {
        true => file.split(|&byte| byte == b'\n').count().clamp(1, 64),
        false => 1,
    };
    let further = (1..outputs).map(|output| format!("; f[{output}] -> Discard"));
    text.to_owned() + &further.collect::<String>()
}
