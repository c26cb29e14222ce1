//! The program has Millrace's elements and this crate's.

#![allow(clippy::expect_used, reason = "a program that does not start fails the test")]

use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_own-elements")).args(args).output();
    output.expect("the program starts")
}

fn output_of(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn runs_a_configuration_with_elements_of_both() {
    let configuration = "InfiniteSource(LIMIT 30, STOP true) -> EveryNth(10) -> Discard";
    let summary = output_of(&["run", "-e", configuration]);
    assert!(summary.contains("27 thinned out"), "{summary}");
    assert!(summary.contains("3 discarded"), "{summary}");
}

/// Twice as many packets arrive as leave, for half a second of virtual time.
#[test]
fn red_watches_the_queue_of_this_crate_and_drops_as_it_fills() {
    let configuration = "RatedSource(RATE 2000)
        -> red :: RED(5, 50, 1)
        -> q :: LIFOQueue(100)
        -> RatedUnqueue(1000)
        -> Discard;
        DriverManager(wait 500ms, print red.queues, print q.length, print red.drops, stop)";
    let Output { stdout, stderr, .. } = run(&["run", "--simtime", "-e", configuration]);
    let [printed, rest] = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let mut lines = printed.lines();
    assert_eq!(lines.next(), Some("q"), "{printed}");
    let mut number = || lines.next().and_then(|line| line.trim().parse::<u32>().ok());
    let (length, drops) = (number(), number());
    assert!(length.is_some_and(|length| (6..50).contains(&length)), "{printed}");
    assert!(drops.is_some_and(|drops| (300..500).contains(&drops)), "{printed}");
    assert!(rest.contains(" limited") && !rest.contains("queue full"), "the summary: {rest}");
}

#[test]
fn names_the_queues_there_are_when_red_is_told_to_watch_something_else() {
    let configuration = "Idle -> c :: Counter -> RED(5, 50, 1, QUEUES c)
        -> q :: LIFOQueue -> Unqueue -> Discard";
    let output = run(&["run", "-e", configuration]);
    let message = String::from_utf8_lossy(&output.stderr).replace(['‘', '’'], "'");
    assert!(message.contains("'c' is not a Storage element"), "{message}");
    let help = "'c :: Counter' does not offer a queue length; these do: 'q :: LIFOQueue'";
    assert!(message.contains(help), "{message}");
}

#[test]
fn prints_the_manual_of_its_own_element() {
    let manual = output_of(&["elements", "EveryNth"]);
    assert!(manual.contains("forwards one packet in N"), "{manual}");
}
