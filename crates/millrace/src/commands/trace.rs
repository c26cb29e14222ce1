//! `millrace trace`: the way of single packets through a running router.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use anyhow::Context;
use millrace_io::libpcap::{Start, compile_for};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use super::capture::{NOTHING, new_key};
use super::remote::{Place, explain};
use crate::control::ClientError;
use crate::messages::say;
use crate::output;
use crate::watch::{Hop, Story, TraceWish, Traveller};

/// Follows single packets through a running router: each element and port, what changed, where and why it was dropped
///
/// While packets are traced, each packet goes its whole way before the next one starts, and elements run one by one: the
/// router is slower, and effects of different elements happen in Click's order.
#[derive(clap::Args)]
pub(crate) struct Trace {
    /// Which packets: a pattern in IPFilter's language, such as `src 10.0.0.0/8 && tcp port 80`
    filter: Vec<String>,

    /// Which packets, in tcpdump's language; needs libpcap
    #[arg(long, value_name = "FILTER")]
    pcap_filter: Option<String>,

    /// How many packets
    #[arg(short = 'c', long, value_name = "N", default_value_t = 1)]
    count: u64,

    /// Traces one in so many of them
    #[arg(long, value_name = "N", default_value_t = 1)]
    every: u64,

    /// Begins here instead of where packets come into the router: ELEMENT, ELEMENT[OUTPUT] or [INPUT]ELEMENT
    #[arg(long, value_name = "PLACE", default_value = "")]
    at: String,

    /// Prints a line of JSON for each trace
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: Place,
}

impl Trace {
    /// Runs the sub-command.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let compiled = |start| self.pcap_filter.as_deref().map(|text| compile_for(text, start));
        let program = match (compiled(Start::Ethernet), compiled(Start::Ip)) {
            (Some(ethernet), Some(ip)) => {
                Some([ethernet.context("--pcap-filter")?, ip.unwrap_or_else(|_| vec![NOTHING])])
            }
            _ => None,
        };
        let wish = TraceWish {
            key: new_key()?,
            filter: self.filter.join(" "),
            program,
            at: self.at.clone(),
            count: self.count,
            every: self.every,
        };
        let mut client = self.place.connect()?;
        let stops = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            flag::register_conditional_shutdown(signal, 1, stops.clone())?;
            flag::register(signal, stops.clone())?;
        }
        client.write("trace_start", &serde_json::to_vec(&wish)?).map_err(explain)?;
        let mut told = 0;
        let mut printed = Ok(());
        while printed.is_ok() && told < self.count {
            let ends = stops.load(SeqCst);
            let asked = format!("{}{}", wish.key, if ends { " end" } else { "" });
            let stories = match client.read("trace_read", asked.as_bytes()) {
                Ok(stories) => serde_json::from_slice::<Vec<Story>>(&stories)?,
                Err(ClientError::Io(_)) => {
                    say(format_args!("the router has ended"));
                    break;
                }
                Err(error) => return Err(explain(error)),
            };
            printed = stories.iter().try_for_each(|story| {
                told += 1;
                self.print(story)
            });
            if ends {
                break;
            }
        }
        // If the router has ended, so has the trace.
        let _ = client.read("trace_stop", wish.key.as_bytes());
        printed?;
        Ok(ExitCode::SUCCESS)
    }

    fn print(&self, story: &Story) -> io::Result<()> {
        match self.json {
            true => output::print(serde_json::to_string(story)? + "\n"),
            false => output::print(text_of(story)),
        }
    }
}

/// A story for people.
fn text_of(story: &Story) -> String {
    let mut text = String::new();
    let Some(first) = story.packets.first() else { return text };
    text += &format!("trace {}: {}\n", story.trace, summary(first));
    tell(story, first, 1, &mut text);
    // Those whose parent is not known, because looks were missed.
    let known = |number: u32| story.packets.iter().any(|one| one.packet == number);
    for orphan in story.packets.iter().skip(1) {
        if !orphan.parent.is_some_and(known) {
            text += &format!("  packet {}: {}\n", orphan.packet, summary(orphan));
            tell(story, orphan, 2, &mut text);
        }
    }
    if story.incomplete {
        text += "  (the reader was too slow: parts of the way are missing)\n";
    }
    text
}

fn tell(story: &Story, one: &Traveller, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    for hop in &one.hops {
        tell_hop(hop, &indent, text);
    }
    for child in story.packets.iter().filter(|child| child.parent == Some(one.packet)) {
        let by = child.hops.first().map_or("", |hop| &hop.element);
        *text += &format!("{indent}packet {}, made by {by}: {}\n", child.packet, summary(child));
        tell(story, child, depth + 1, text);
    }
}

fn tell_hop(hop: &Hop, indent: &str, text: &mut String) {
    let Hop { element, class, thread, batch, cycles, .. } = hop;
    for change in &hop.changes {
        let told = match (change.before.as_str(), change.after.as_str()) {
            ("", "") => "changed".to_owned(),
            ("there", "") => "removed".to_owned(),
            ("", "there") => "added".to_owned(),
            (before, "") => format!("{before} removed"),
            ("", after) => after.to_owned(),
            (before, after) => format!("{before} -> {after}"),
        };
        *text += &format!("{indent}    {element}: {} {told}\n", change.field);
    }
    *text += &match hop.dropped.as_str() {
        "" => format!(
            "{indent}{:<40} {class}, thread {thread}, batch of {batch}, {cycles} cycles\n",
            hop.connection
        ),
        reason => format!("{indent}dropped by {element} ({class}): {reason}, thread {thread}\n"),
    };
}

/// What a packet is, in a line.
fn summary(one: &Traveller) -> String {
    let field = |name: &str| {
        let found = one.fields.iter().find(|(own, _)| own == name);
        found.map(|(_, value)| value.as_str())
    };
    let any = |names: &[&str]| names.iter().find_map(|name| field(name));
    let mut text = format!("{} bytes", field("length").unwrap_or("?"));
    let ends = (any(&["ip src", "ip6 src", "ether src"]), any(&["ip dst", "ip6 dst", "ether dst"]));
    if let (Some(from), Some(to)) = ends {
        let port = |name: &str| {
            let port = any(&[&format!("udp {name} port"), &format!("tcp {name} port")]);
            port.map_or(String::new(), |port| format!(" port {port}"))
        };
        text += &format!(", {from}{} > {to}{}", port("src"), port("dst"));
    }
    for name in ["udp", "tcp", "icmp", "arp", "ip6", "ip"] {
        if one.fields.iter().any(|(own, _)| own.split(' ').next() == Some(name)) {
            text += &format!(", {name}");
            break;
        }
    }
    text
}
