//! Whole configurations that read and write captures.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

use std::path::{Path, PathBuf};

use millrace_core::Registry;
use millrace_core::clock::Clock;
use millrace_core::run::Outcome;
use millrace_core::run::{Options, check, initialize};
use millrace_elements as _;
use millrace_io::pcap::{self, LinkType, Reader, Resolution, Writer};
use millrace_lang::SourceMap;

/// Runs a configuration to its end, on virtual time.
fn run(config: &str) -> Outcome {
    let mut map = SourceMap::default();
    let source = map.add("config", config);
    let (graph, diagnostics) =
        millrace_lang::compile(&mut map, source, &millrace_lang::Options::default());
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let options = Options { clock: Clock::virtual_(), ..Options::default() };
    let (router, diagnostics) = check(&graph, &Registry::linked(), options);
    let mut engine = initialize(router.unwrap_or_else(|| panic!("{diagnostics:?}")), 1).unwrap();
    engine.stop_when_idle();
    engine.run()
}

/// Time, original length and bytes of each packet.
type Packets = Vec<(u64, u32, Vec<u8>)>;

fn packets(path: &Path) -> Packets {
    let mut reader = Reader::open(path).unwrap();
    let mut packets = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        packets.push((record.timestamp, record.original_len, record.data.to_vec()));
    }
    packets
}

fn example() -> Packets {
    (0..600u32)
        .map(|n| {
            let data: Vec<u8> = (0..14 + n * 3).map(|at| (at * 7 + n) as u8).collect();
            (1_700_000_000_000_000_000 + u64::from(n) * 1_000_001, data.len() as u32 + n % 2, data)
        })
        .collect()
}

fn write(path: &Path, packets: &Packets) {
    let options = pcap::Options { resolution: Resolution::Nanoseconds, ..pcap::Options::default() };
    let mut writer = Writer::create(path, options).unwrap();
    for (time, length, data) in packets {
        writer.write(*time, *length, data).unwrap();
    }
    writer.finish().unwrap();
}

/// A classic capture, big-endian, with timestamps in microseconds.
fn write_big_endian(path: &Path, packets: &Packets) {
    let mut bytes = [&0xa1b2_c3d4_u32.to_be_bytes()[..], &[0, 2, 0, 4], &[0; 8]].concat();
    bytes.extend([65_535_u32, 1].map(u32::to_be_bytes).concat());
    for (time, length, data) in packets {
        let micros = (time % 1_000_000_000 / 1000) as u32;
        let words = [(time / 1_000_000_000) as u32, micros, data.len() as u32, *length];
        bytes.extend(words.map(u32::to_be_bytes).concat());
        bytes.extend(data);
    }
    std::fs::write(path, bytes).unwrap();
}

/// A pcapng capture with one interface whose timestamps are in nanoseconds.
fn write_pcapng(path: &Path, packets: &Packets) {
    let block = |kind: u32, body: &[u8]| {
        let padding = vec![0; body.len().next_multiple_of(4) - body.len()];
        let length = (12 + body.len() + padding.len()) as u32;
        [&kind.to_le_bytes()[..], &length.to_le_bytes(), body, &padding, &length.to_le_bytes()]
            .concat()
    };
    let section = [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
    // Ethernet, no limit; if_tsresol: 10^-9 s.
    let interface = [&[1, 0, 0, 0, 0, 0, 0, 0][..], &[9, 0, 1, 0, 9, 0, 0, 0], &[0; 4]].concat();
    let mut bytes = [block(0x0a0d_0d0a, &section), block(1, &interface)].concat();
    for (time, length, data) in packets {
        let words = [0, (time >> 32) as u32, *time as u32, data.len() as u32, *length];
        bytes.extend(block(6, &[&words.map(u32::to_le_bytes).concat(), &data[..]].concat()));
    }
    std::fs::write(path, bytes).unwrap();
}

fn files() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in.pcap"), folder.path().join("out.pcap"));
    (folder, input, output)
}

#[test]
fn a_trace_keeps_its_bytes_and_times() {
    let (_folder, input, output) = files();
    let (from, to) = (input.display(), output.display());
    let micros = |packets: &Packets| -> Packets {
        packets.iter().map(|(time, len, data)| (time / 1000 * 1000, *len, data.clone())).collect()
    };
    let example = example();
    type Make = fn(&Path, &Packets);
    let formats = [write as Make, write_pcapng, write_big_endian];
    let expectations = [example.clone(), example.clone(), micros(&example)];
    for (make, expected) in formats.into_iter().zip(expectations) {
        make(&input, &example);
        for config in [
            format!("FromDump({from}, STOP true) -> ToDump({to}, SNAPLEN 0, NANO true)"),
            format!("FromDump({from}) -> Queue(5) -> ToDump({to}, 0, NANO true)"),
            format!("FromDump({from}, MMAP true) -> ToDump({to}, 0, NANO true) -> Discard"),
            format!(
                "FromDump({from}, TIMING true) -> Unstrip(0) -> Queue -> Unqueue
                 -> ToDump({to}, 0, NANO true)"
            ),
            // Pulled all the way.
            format!("FromDump({from}) -> ToDump({to}, 0, NANO true) -> Discard(BURST 7)"),
        ] {
            assert_eq!(run(&config), Outcome::default(), "{config}");
            assert!(packets(&output) == expected, "{config}");
        }
        run(&format!("FromDump({from}) -> ToDump({to}, SNAPLEN 0)"));
        assert!(packets(&output) == micros(&expected));
    }
}

#[test]
fn what_was_read_of_a_truncated_file_is_kept() {
    let (_folder, input, output) = files();
    write(&input, &example());
    let whole = std::fs::read(&input).unwrap();
    std::fs::write(&input, &whole[..whole.len() - 1]).unwrap();
    let (from, to) = (input.display(), output.display());
    let outcome = run(&format!("f :: FromDump({from}, STOP true) -> ToDump({to}, 0, NANO true)"));
    let [complaint] = outcome.complaints.as_slice() else { panic!("{outcome:?}") };
    assert!(complaint.starts_with("f: ") && complaint.contains("ends within"), "{complaint}");
    assert!(packets(&output) == example()[..599]);
}

#[test]
fn link_types_are_taken_over() {
    let (_folder, input, output) = files();
    let options = pcap::Options { link_type: LinkType::SLL, ..pcap::Options::default() };
    Writer::create(&input, options).unwrap().finish().unwrap();
    let (from, to) = (input.display(), output.display());
    run(&format!("t :: ToDump({to}, USE_ENCAP_FROM f); f :: FromDump({from}) -> t"));
    assert_eq!(Reader::open(&output).unwrap().link_type(), Some(LinkType::SLL));
}
