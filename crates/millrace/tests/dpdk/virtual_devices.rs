//! Devices that are nothing but memory or files.

use crate::captures;
use crate::plugin::needs_dpdk;
use crate::run::{Summary, millrace, run, words};

#[test]
fn packets_of_a_source_reach_a_sink_without_a_copy() {
    needs_dpdk!();
    let forward = "FromDPDKDevice(0) -> c :: Counter -> ToDPDKDevice(0)";
    let summary = run(&["net_null0,size=64"], &[], forward);
    let came = summary.packets("0", "in");
    assert!(came > 1000, "{came}");
    assert_eq!((summary.received("c"), summary.packets("0", "out")), (came, came));
    assert_eq!(summary.copies(), 0);
    assert!(
        summary.said.contains("opened by driver net_null: 1 receive queue"),
        "{}",
        summary.said
    );
}

#[test]
fn a_driver_without_interrupts_and_flow_control_is_asked_for_packets() {
    needs_dpdk!();
    let sink = "FromDPDKDevice(0, RX_INTR 0, PAUSE none) -> Discard";
    let came = run(&["net_null0,size=64"], &[], sink).packets("0", "in");
    assert!(came > 1000, "{came}");
}

#[test]
fn each_thread_has_queues_of_its_own() {
    needs_dpdk!();
    let forward = "FromDPDKDevice(net_null0) -> ToDPDKDevice(net_null0)";
    let summary = run(&["net_null0"], &["-j2"], forward);
    assert!(summary.said.contains("2 receive queues of"), "{}", summary.said);
    assert!(summary.said.contains("2 transmit queues of"), "{}", summary.said);
    assert_eq!(summary.packets("net_null0", "in"), summary.packets("net_null0", "out"));
    assert_eq!(summary.copies(), 0);
}

#[test]
fn elements_that_name_a_queue_share_it() {
    needs_dpdk!();
    for (queue, counts) in [("-1", "2 transmit queues of"), ("0", "1 transmit queue of")] {
        let twice = format!(
            "FromDPDKDevice(0) -> t :: Tee;
             t[0] -> ToDPDKDevice(0, {queue}); t[1] -> ToDPDKDevice(0, {queue});"
        );
        let summary = run(&["net_null0"], &[], &twice);
        assert!(summary.said.contains(counts), "{}", summary.said);
        assert!(summary.packets("0", "out") > 0);
    }
}

#[test]
fn dropped_shared_and_kept_packets_return_to_their_pool() {
    needs_dpdk!();
    let all = "DPDKInfo(NB_MBUF 8192);
        FromDPDKDevice(0, BURST 64) -> t :: Tee(3);
        t[0] -> ToDPDKDevice(0);
        t[1] -> Discard;
        t[2] -> Queue(500) -> Idle;";
    let summary = run(&["net_null0"], &[], all);
    assert!(summary.packets("0", "out") > 0);
    assert_eq!(summary.copies(), 0);
}

/// With a page for each they would take 80 MB, and share the sets of the first cache.
#[test]
fn on_ordinary_pages_mbufs_lie_behind_one_another() {
    needs_dpdk!();
    let many = "DPDKInfo(NB_MBUF 20000); FromDPDKDevice(0) -> ToDPDKDevice(0)";
    let options = ["--dpdk", "--no-huge", "-m", "64", "--no-pci", "--vdev=net_null0", "--"];
    let words = [&["run", "--json"], &options[..], &["--for", "200ms", "-e", many]].concat();
    assert!(Summary::of(millrace(&words)).packets("0", "out") > 0);
}

#[test]
fn a_capture_comes_out_as_it_went_in() {
    needs_dpdk!();
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    let frames = captures::frames(700, 60, 1514);
    captures::write(&input, &frames);
    let device = format!("net_pcap0,rx_pcap={},tx_pcap={}", input.display(), output.display());
    let summary = run(&[&device], &[], "FromDPDKDevice(0) -> ToDPDKDevice(0, BLOCKING true)");
    assert_eq!(summary.copies(), 0);
    assert!(captures::read(&output) == frames);
}

#[test]
fn packets_that_dpdk_did_not_receive_are_transmitted_where_they_lie() {
    needs_dpdk!();
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    let frames = captures::frames(300, 60, 1514);
    captures::write(&input, &frames);
    let device = format!("net_pcap0,tx_pcap={}", output.display());
    let shared = format!(
        "FromDump({}) -> t :: Tee -> ToDPDKDevice(0, BLOCKING true); t[1] -> Queue(1000) -> Idle;",
        input.display()
    );
    let summary = run(&[&device], &[], &shared);
    // FromDump has copied them out of its file.
    assert_eq!((summary.transmit_copies(), summary.copies()), (0, 300));
    assert!(captures::read(&output) == frames);
}

#[test]
fn frames_of_several_mbufs_are_put_together() {
    needs_dpdk!();
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    let frames = captures::frames(50, 3000, 9000);
    captures::write(&input, &frames);
    let device = format!("net_pcap0,rx_pcap={},tx_pcap={}", input.display(), output.display());
    let forward = "FromDPDKDevice(0) -> ToDPDKDevice(0, BLOCKING true)";
    let summary = run(&[&device], &[], forward);
    assert!(captures::read(&output) == frames);
    assert_eq!(summary.copies(), 50, "one for each");
    // With an MTU that says so they fit in one mbuf.
    let jumbo = "FromDPDKDevice(0, MTU 9000) -> ToDPDKDevice(0, BLOCKING true)";
    let summary = run(&[&device], &[], jumbo);
    assert!(captures::read(&output) == frames);
    assert_eq!(summary.copies(), 0);
}

#[test]
fn what_is_put_into_a_ring_comes_out_of_it() {
    needs_dpdk!();
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out");
    let around = format!(
        "InfiniteSource(LENGTH 100, LIMIT 3000, BURST 32) -> t :: Tee -> ToDPDKDevice(0, BLOCKING true);
         t[1] -> Discard;
         FromDPDKDevice(0) -> ToDump({});",
        output.display()
    );
    let summary = run(&["net_ring0"], &[], &around);
    assert_eq!((summary.packets("0", "out"), summary.packets("0", "in")), (3000, 3000));
    assert_eq!(captures::read(&output).len(), 3000);
}

#[test]
fn missing_queues_are_not_used() {
    needs_dpdk!();
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in");
    captures::write(&input, &captures::frames(10, 60, 60));
    let device = format!("net_pcap0,rx_pcap={},infinite_rx=1", input.display());
    let forward = "FromDPDKDevice(0, N_QUEUES 4) -> ToDPDKDevice(0)";
    let summary = run(&[&device], &["-j2"], forward);
    assert!(summary.said.contains("it has 1 receive queues, not 4"), "{}", summary.said);
    assert!(summary.packets("0", "in") > 100);
    assert_eq!(summary.packets("0", "in"), summary.packets("0", "out"));
}

#[test]
fn impossible_requests_get_a_message() {
    needs_dpdk!();
    let cases = [
        (
            &["--dpdk", "--no-huge", "--zebra", "--"][..],
            "Idle -> Discard",
            "unrecognized option '--zebra'",
        ),
        (&["--dpdk", "--help", "--"], "Idle -> Discard", "`dpdk-testpmd --help`"),
        (
            &["--dpdk", "--no-huge", "--no-pci", "--"],
            "FromDPDKDevice(0) -> Discard",
            "DPDK has no port",
        ),
        (
            &["--dpdk", "--no-huge", "--no-pci", "--vdev=net_pcap0,rx_pcap=/no/such/file", "--"],
            "FromDPDKDevice(0) -> Discard",
            "net_pcap0",
        ),
        (
            &["--dpdk", "--no-huge", "--no-pci", "--vdev=net_null0", "--"],
            "FromDPDKDevice(7) -> Discard",
            "there are 0 (net_null0)",
        ),
        (
            &["--dpdk", "--no-huge", "--no-pci", "--vdev=net_null0", "--"],
            "FromDPDKDevice(0, VLAN_STRIP true) -> Discard",
            "its driver cannot take VLAN tags off",
        ),
        (
            &["--dpdk", "--no-huge", "--no-pci", "--vdev=net_null0", "--"],
            "FromDPDKDevice(0, 0) -> Discard; FromDPDKDevice(net_null0, 0) -> Discard",
            "another element receives from queue 0",
        ),
        (
            &["--dpdk", "--no-huge", "-m", "64", "--no-pci", "--vdev=net_null0", "--"],
            "DPDKInfo(NB_MBUF 100000); FromDPDKDevice(0) -> Discard",
            "there is no memory for 100000 mbufs",
        ),
    ];
    for (options, configuration, sentence) in cases {
        let done =
            millrace(&[&["run", "--for", "100ms"], options, &["-e", configuration]].concat());
        assert_eq!(done.status, 1, "{configuration}: {done:?}");
        assert!(done.stderr.contains(sentence), "{configuration}: {}", done.stderr);
        assert!(!done.stderr.contains("EAL:") && done.stdout.is_empty(), "{done:?}");
    }
}

#[test]
fn a_missing_port_can_be_allowed() {
    needs_dpdk!();
    let forgiving = "FromDPDKDevice(3, ALLOW_NONEXISTENT true) -> Discard;
        InfiniteSource(LIMIT 5) -> ToDPDKDevice(3, ALLOW_NONEXISTENT true);";
    let done = millrace(&[&words(&[])[..], &["--for", "100ms", "-e", forgiving]].concat());
    assert_eq!(done.status, 0, "{done:?}");
    assert!(done.stderr.contains("it drops packets"), "{done:?}");
}

#[test]
fn handlers_tell_of_the_port() {
    needs_dpdk!();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_click"));
    command.args(["--dpdk", "--no-huge", "--no-pci", "--vdev=net_null0", "--", "-e"]);
    command.arg(
        "DPDKInfo(NB_MBUF 8192); d :: FromDPDKDevice(0) -> ToDPDKDevice(0);
         Script(wait 0.1s, print d.driver, print d.device, print d.carrier, print d.nb_rx_queues,
                print d.mtu, print $(gt $(d.hw_count) 0), print $(d.count),
                print $(gt $(d.xstats rx_good_packets) 0), stop);",
    );
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..6], ["net_null", "0", "1", "1", "1500", "true"], "{text}");
    assert!(lines[6].parse::<u64>().unwrap() > 0);
    assert_eq!(lines[7], "true", "{text}");
}

#[test]
fn rules_for_flows_need_a_driver_that_has_them() {
    needs_dpdk!();
    let rules = tempfile::NamedTempFile::new().unwrap();
    let rule =
        "ingress pattern eth / ipv4 / udp dst is 53 / end actions queue index 0 / count / end";
    std::fs::write(&rules, rule).unwrap();
    let name = rules.path().display();
    let text = format!("FromDPDKDevice(0, MODE flow, FLOW_RULES_FILE {name}) -> Discard");
    let words = words(&["net_null0"]);
    let done = millrace(&[&words[..], &["--for", "100ms", "-e", &text]].concat());
    assert_eq!(done.status, 1, "{done:?}");
    let expected = format!("{name}:1: driver net_null refuses the rule: it has no rules for flows");
    assert!(done.stderr.contains(&expected), "{done:?}");
}

#[test]
fn a_balancer_needs_a_port_whose_hash_table_can_be_written() {
    needs_dpdk!();
    let balanced = "
        fd0 :: FromDPDKDevice(0, RSS_AGGREGATE 1, N_QUEUES 2) -> agg :: AggregateCounterVector(MASK 511)
            -> EtherMirror -> ToDPDKDevice(0);
        DeviceBalancer(DEV fd0, METHOD rsspp, TIMER 20, STARTCPU 1, RSSCOUNTER agg, VERBOSE 1);";
    let summary = run(&["net_null0"], &["--threads", "2"], balanced);
    assert!(summary.packets("0", "out") > 0);
    let words = [&words(&["net_ring0"])[..], &["--for", "100ms", "-e", balanced]].concat();
    let done = millrace(&words);
    assert_eq!(done.status, 1, "{done:?}");
    assert!(done.stderr.contains("‘fd0’ has no table from hashes to queues (RETA)"), "{done:?}");
}
