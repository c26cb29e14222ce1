//! Captures of a running router, read by independent programs.

use std::io::{BufReader, Read};
use std::process::Stdio;

use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, PcapError};

use crate::control::Running;
use crate::{Done, millrace, millrace_command};

/// UDP packets to ports 80 and 81; those to 81 are dropped behind the queue.
const ROUTER: &str = "
    s :: RatedSource(DATA \\<ffffffffffff 020000000001 0800 45000028 00000000 401166c3 0a000001 0a000002
                            04d20050 00140000 0102030405060708090a0b0c>, RATE 1000) -> e :: MarkMACHeader;
    t :: RatedSource(DATA \\<ffffffffffff 020000000001 0800 45000028 00000000 401166c3 0a000001 0a000002
                            04d20051 00140000 0102030405060708090a0b0c>, RATE 1000) -> e;
    e -> strip :: Strip(14) -> CheckIPHeader -> Paint(3) -> q :: Queue(50) -> Unqueue
      -> f :: IPFilter(drop udp dst port 81, allow all) -> Idle;";

/// A packet of a file: the name and link type of its interface, its bytes, its comment.
type Seen = (String, DataLink, Vec<u8>, String);

fn packets(file: impl Read) -> Vec<Seen> {
    let mut reader = PcapNgReader::new(file).unwrap();
    let mut seen = Vec::new();
    let mut interfaces = Vec::new();
    while let Some(block) = reader.next_block() {
        match block {
            Ok(Block::InterfaceDescription(interface)) => {
                let name = interface.options.iter().find_map(|option| match option {
                    InterfaceDescriptionOption::IfName(name) => Some(name.to_string()),
                    _ => None,
                });
                interfaces.push((name.unwrap(), interface.linktype));
            }
            Ok(Block::EnhancedPacket(packet)) => {
                let (name, link) = interfaces[packet.interface_id as usize].clone();
                let EnhancedPacketOption::Comment(comment) = &packet.options[0] else {
                    panic!("{packet:?}")
                };
                seen.push((name, link, packet.data.to_vec(), comment.to_string()));
            }
            Ok(_) => {}
            Err(PcapError::IncompleteBuffer) => break,
            Err(error) => panic!("{error}"),
        }
    }
    seen
}

fn capture(running: &Running, words: &[&str]) -> (Done, Vec<Seen>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.pcapng");
    let file = path.to_str().unwrap();
    let socket = running.socket();
    let done = millrace(&[&["capture", "-u", &socket, "-w", file], words].concat());
    let seen = std::fs::File::open(&path).map(packets).unwrap_or_default();
    (done, seen)
}

#[test]
fn packets_are_captured_where_they_pass_and_where_they_are_dropped() {
    let running = Running::start(ROUTER);
    let (done, seen) = capture(&running, &["e,[0]q", "-c", "40"]);
    assert_eq!((done.stderr.as_str(), done.status), ("40 packets captured\n", 0));
    assert_eq!(seen.len(), 40);
    for (name, link, data, _) in &seen {
        match name.as_str() {
            "e[0] -> [0]strip" => assert_eq!((*link, data.len()), (DataLink::ETHERNET, 54)),
            "Paint@6[0] -> [0]q" => {
                assert_eq!((*link, data.len(), data[0]), (DataLink::RAW, 40, 0x45))
            }
            other => panic!("{other}"),
        }
    }
    assert!(
        seen.iter().any(|one| one.0.starts_with('e'))
            && seen.iter().any(|one| one.0.starts_with('P'))
    );
    // What was stripped is still in front of the packet.
    let (_, seen) = capture(&running, &["q", "-c", "5", "--link-headers", "-s", "20"]);
    for (name, link, data, comment) in &seen {
        assert_eq!((name.as_str(), *link), ("q[0] -> [0]Unqueue@8", DataLink::ETHERNET));
        assert_eq!((&data[..6], data.len()), (&[0xff; 6][..], 20));
        assert!(comment.ends_with("DST_IP 10.0.0.2; PAINT 3"), "{comment}");
    }
    let (_, seen) = capture(&running, &["--drops", "udp", "dst port 81", "-c", "5"]);
    assert_eq!(seen.len(), 5);
    for (name, _, data, comment) in &seen {
        assert_eq!((name.as_str(), data[23]), ("drops of f", 81));
        assert!(comment.starts_with("dropped by f (IPFilter): filtered; thread 0; "), "{comment}");
    }
    running.stop();
}

#[test]
fn filters_of_both_languages_select_packets() {
    let running = Running::start(ROUTER);
    // Where nobody has looked for headers, and where the link header is gone.
    for place in ["e", "q"] {
        let (done, seen) =
            capture(&running, &[place, "src 10.0.0.0/8 && udp dst port 80", "-c", "9"]);
        assert_eq!(seen.len(), 9, "{done:?}");
        assert!(seen.iter().all(|(_, _, data, _)| data[data.len() - 17] == 80));
        let (done, seen) = capture(&running, &[place, "--pcap-filter", "udp port 81", "-c", "9"]);
        if done.stderr.contains("libpcap") {
            continue;
        }
        assert_eq!(seen.len(), 9, "{done:?}");
        assert!(seen.iter().all(|(_, _, data, _)| data[data.len() - 17] == 81));
    }
    running.stop();
}

#[test]
fn wrong_words_are_named() {
    let running = Running::start(ROUTER);
    for (words, message) in [
        (&["srtip"][..], "there is no element 'srtip'; did you mean 'strip'?"),
        (&["e[1]"], "'e' has no output 1: its output is 0"),
        (&["[1]e"], "'e' has no input 1: its input is 0"),
        (&["[0]s"], "'s' has no inputs"),
        (&["e[x]"], "expected ELEMENT, ELEMENT[OUTPUT] or [INPUT]ELEMENT, not 'e[x]'"),
        (&["--device", "eth0"], "no element receives from or sends to 'eth0'"),
        (&[], "say where: an element, --device DEVICE, --drops or --all"),
        (&["e", "udp", "prt", "80"], "'udp prt 80' is not a pattern of IPFilter"),
    ] {
        let (done, _) = capture(&running, words);
        let expected = format!("millrace: {message}");
        assert!(done.stderr.starts_with(&expected) && done.status == 1, "{done:?}, not {expected}");
    }
    running.stop();
}

#[test]
fn a_reader_that_ends_ends_the_capture() {
    let running = Running::start(ROUTER);
    let mut child = millrace_command()
        .args(["capture", "--all", "-u", &running.socket(), "-w", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut start = [0; 28];
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_exact(&mut start).unwrap();
    assert_eq!(start[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    drop(stdout);
    let done = Done::from(child.wait_with_output().unwrap());
    assert!(done.status == 0 && done.stderr.contains("packets captured"), "{done:?}");
    running.stop();
}

#[test]
fn files_follow_one_another() {
    let running = Running::start(ROUTER);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ring");
    // A packet takes about 130 bytes, so a megabyte takes long; a file of no size is full at once.
    let done = millrace(&[
        "capture",
        "e",
        "-u",
        &running.socket(),
        "-w",
        path.to_str().unwrap(),
        "-c",
        "6",
        "--file-size",
        "0",
        "--files",
        "2",
    ]);
    assert_eq!(done.status, 0, "{done:?}");
    let mut names: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["ring.5", "ring.6"]);
    for name in names {
        assert_eq!(packets(std::fs::File::open(folder.path().join(name)).unwrap()).len(), 1);
    }
    running.stop();
}

#[test]
fn other_programs_read_captures() {
    let running = Running::start(ROUTER);
    let reads = |program: &str, args: &[&str]| {
        let Some(program) = millrace_testkit::find_program(program) else {
            eprintln!("{program} is not installed");
            return;
        };
        let mut child = millrace_command()
            .args([
                "capture",
                "q",
                "udp dst port 81",
                "-u",
                &running.socket(),
                "-c",
                "7",
                "-w",
                "-",
            ])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let read = std::process::Command::new(program)
            .args(args)
            .stdin(child.stdout.take().unwrap())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&read.stdout).into_owned();
        let lines = text.lines().filter(|line| line.contains("10.0.0.1") && line.contains("81"));
        assert_eq!(lines.count(), 7, "{text}{}", String::from_utf8_lossy(&read.stderr));
        assert!(child.wait().unwrap().success());
    };
    reads("tcpdump", &["-nn", "-r", "-"]);
    reads("tshark", &["-n", "-r", "-"]);
    running.stop();
}

#[test]
fn the_last_drops_are_kept_when_asked_for() {
    let running = Running::start(ROUTER);
    let refused = running.read("drops_kept");
    assert!(refused.stderr.contains("'drops_keep'"), "{refused:?}");
    assert!(running.write(&["drops_keep", "1000"]).stderr.contains("up to 64"));
    assert_eq!(running.write(&["drops_keep", "3"]).status, 0);
    assert_eq!(running.read("drops_keep").stdout, "3\n");
    let kept = || -> Vec<serde_json::Value> {
        serde_json::from_str(&running.read("drops_kept").stdout).unwrap()
    };
    let full = (0..2000).map(|_| kept()).find(|kept| {
        let of = |element| kept.iter().filter(|one| one["element"] == element).count();
        of("f") == 3
    });
    let one = full.unwrap().into_iter().find(|one| one["element"] == "f").unwrap();
    assert_eq!(
        (&one["reason"], &one["link"], &one["length"]),
        (&"filtered".into(), &"IP".into(), &40.into())
    );
    assert_eq!(one["annotations"]["PAINT"], "3");
    assert!(one["data"].as_str().unwrap().starts_with("45000028"));
    assert_eq!(running.write(&["drops_keep", "0"]).status, 0);
    assert_eq!(running.read("drops_kept").status, 1);
    running.stop();
}
