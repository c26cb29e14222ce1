//! The word replacer and the stream IDS of the examples between curl or many connections and nginx, beside the same
//! without inspection, and the kernel's bridge.
//!
//! Client, box and server share the machine's cores ([`middlebox`]), and run where the system puts them.
//! Every answer is compared with what it should be.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use millrace_testkit::Namespace;
use serde_json::{Value, json};

use crate::machine::{self, Machine};
use crate::middlebox::client::{Client, Question};
use crate::middlebox::cost::Spent;
use crate::middlebox::hosts::{Family, Hosts};
use crate::middlebox::router::{Configuration, Kind, Source};
use crate::middlebox::server::{Server, in_memory};
use crate::middlebox::table::Table;
use crate::middlebox::{self, memory};
use crate::report;

/// How to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often each case is measured; the report has medians.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// The duration of each measurement of connections in milliseconds
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(100..=60_000))]
    window: u64,

    /// The size of the large page in megabytes
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=4096))]
    megabytes: u32,

    /// Connections that are open at the same time
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=50_000))]
    open: u32,

    /// The method of Millrace's devices: LINUX, SOCKET, XDP
    #[arg(long, value_name = "METHOD", default_value = "LINUX", value_parser = ["LINUX", "SOCKET", "XDP"])]
    method: String,

    /// Measures only these: download, connections, open
    #[arg(long, value_name = "PART")]
    only: Vec<String>,

    /// Writes the report for programs to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const PARTS: [&str; 3] = ["download", "connections", "open"];

/// The examples without inspection.
const FORWARDER: &str = "left :: Queue(4096) -> ToDevice(eth0);
    right :: Queue(4096) -> ToDevice(eth1);
    FromDevice(eth0, PROMISC true) -> right;
    FromDevice(eth1, PROMISC true) -> left;";

/// The word in the pages that are changed, once in each line of [`LINE`] bytes, and what takes its place.
const WORD: &str = "secret";
const NEW: &str = "a longer word";
const LINE: usize = 1000;

const SMALL: &[u8] = b"a small answer\n";
/// Connections that wait for their answers at a time.
const CONCURRENT: usize = 64;

/// A box, and what it is asked for.
struct Case {
    name: &'static str,
    kind: Kind,
    /// Whether the large page has words to be replaced.
    has_words: bool,
}

impl Options {
    /// The boxes; the first one is what the others are compared with.
    fn cases(&self) -> Vec<Case> {
        let method = match self.method.as_str() {
            "XDP" => "XDP",
            "SOCKET" => "SOCKET",
            _ => "LINUX",
        };
        let kind = |source, word: &str| {
            let sides = ["LEFT=eth0", "RIGHT=eth1"].map(str::to_owned);
            let words = [format!("WORD={word}"), format!("NEW=\"{NEW}\"")];
            // The IDS has no NEW.
            let words = words.into_iter().take(if word == WORD { 2 } else { 1 });
            let variables = sides.into_iter().chain(words).collect();
            Kind::Millrace(Configuration { source, variables, method, core: None })
        };
        let replacer = kind(Source::Example("word-replacer.click"), WORD);
        let ids = kind(Source::Example("stream-ids.click"), "ATTACK");
        let case = |name, kind, has_words| Case { name, kind, has_words };
        vec![
            case("forward", kind(Source::Text(FORWARDER), WORD), false),
            case("stream-ids", ids, false),
            case("word-replacer, no words", replacer.clone(), false),
            case("word-replacer, words", replacer, true),
            case("the kernel's bridge", Kind::Bridge, false),
        ]
    }

    /// Measures and reports.
    ///
    /// # Errors
    /// There are no privileges, programs are missing, or an answer is wrong.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        middlebox::require(&["ip", "sysctl", "nginx", "curl"])?;
        middlebox::allow_connections(self.open)?;
        Namespace::delete_abandoned();
        let known = |part: &String| PARTS.contains(&part.as_str());
        ensure!(self.only.iter().all(known), "--only: the parts are {}", PARTS.join(", "));
        let cores = machine::cores()?.len();
        let machine = Machine::look();
        println!(
            "{}, {cores} cores for client, box and server; commit {}\n{} rounds",
            machine.cpu, machine.commit, self.rounds
        );
        let mut download = Table::new("download by curl", &["Gb/s", "box ns/KB", "all ns/KB"]);
        let mut connections =
            Table::new("connections", &["per second", "box us each", "all us each"]);
        let mut open = Table::new(
            "open connections",
            &["bytes each", "MB without", "opened per s", "asked per s"],
        );
        let pages = [self.page(false), self.page(true)];
        for round in 0..self.rounds {
            for case in self.cases() {
                let context = |part: &str| format!("{part}: {}", case.name);
                if self.wants("download") {
                    let figures = download_through(&case, &pages);
                    download.add("", case.name, figures.with_context(|| context("download"))?);
                }
                // Small answers have no words.
                if self.wants("connections") && !case.has_words {
                    let figures = self.connections(&case);
                    let figures = figures.with_context(|| context("connections"))?;
                    connections.add("", case.name, figures);
                }
                if self.wants("open") && !case.has_words && round < 3 {
                    let figures = self.open_at_once(&case);
                    open.add("", case.name, figures.with_context(|| context("open"))?);
                }
            }
        }
        let tables = [download, connections, open];
        tables.iter().for_each(|table| print!("{}", table.tell()));
        let options = json!({
            "suite": "streams", "rounds": self.rounds, "window_ms": self.window,
            "megabytes": self.megabytes, "open": self.open, "method": self.method, "cores": cores,
        });
        let rows: Vec<Value> = tables.iter().flat_map(Table::json).collect();
        report::write(self.json.as_deref(), &machine, options, rows)
    }

    fn wants(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == part)
    }

    /// The large page, of numbered lines, with words to be replaced or without.
    fn page(&self, has_words: bool) -> Vec<u8> {
        let word = if has_words { WORD } else { "public" };
        let lines = self.megabytes as usize * 1_000_000 / LINE;
        let mut page = String::with_capacity(lines * LINE);
        for n in 0..lines {
            let line = format!("{n:09} a {word} line of ");
            page.push_str(&line);
            page.extend(FILLING.chars().cycle().skip(n % 26).take(LINE - 1 - line.len()));
            page.push('\n');
        }
        page.into()
    }

    /// New connections, each of which carries a question and an answer.
    fn connections(&self, case: &Case) -> anyhow::Result<Vec<Option<f64>>> {
        let hosts = Hosts::new(case.kind.wiring())?;
        let running = case.kind.start(&hosts)?;
        let _server = Server::nginx(&hosts.server, &[("page", SMALL)])?;
        let (question, id) = (Question::new("page", SMALL, true), running.id());
        let window = Duration::from_millis(self.window);
        let mut early = None;
        let answered = hosts.client.enter(|| {
            Client::new(server(), &question)?.connect_again_and_again(CONCURRENT, window, || {
                early = Some(Spent::now(&hosts, id)?);
                Ok(())
            })
        })?;
        let late = Spent::now(&hosts, running.id())?;
        let cost = late.since(&early.context("the window did not begin")?);
        ensure!(answered > 0, "no connection is answered");
        running.stop()?;
        let answered = answered as f64;
        Ok(vec![
            Some(answered / cost.wall.as_secs_f64()),
            cost.router_ns(answered).map(|ns| ns / 1e3),
            Some(cost.all_ns(answered) / 1e3),
        ])
    }

    /// Many connections that stay open; each is answered when it opens, and once more when all are open.
    fn open_at_once(&self, case: &Case) -> anyhow::Result<Vec<Option<f64>>> {
        let hosts = Hosts::new(case.kind.wiring())?;
        let running = case.kind.start(&hosts)?;
        let _server = Server::nginx(&hosts.server, &[("page", SMALL)])?;
        let (question, id) = (Question::new("page", SMALL, false), running.id());
        let resident = || id.map(memory::resident).transpose();
        let figures = hosts.client.enter(|| {
            // What is not for each connection is touched before.
            let mut first = Client::new(server(), &question)?;
            first.open(CONCURRENT, CONCURRENT)?;
            let before = resident()?;
            let mut client = Client::new(server(), &question)?;
            let begun = Instant::now();
            client.open(self.open as usize, CONCURRENT)?;
            let opened = Instant::now();
            client.ask_all(CONCURRENT)?;
            let asked = opened.elapsed();
            let after = resident()?;
            let count = f64::from(self.open);
            Ok(vec![
                after.zip(before).map(|(after, before)| (after - before) / count),
                before.map(|before| before / 1e6),
                Some(count / (opened - begun).as_secs_f64()),
                Some(count / asked.as_secs_f64()),
            ])
        });
        running.stop()?;
        figures
    }
}

const FILLING: &str = "abcdefghijklmnopqrstuvwxyz";

fn server() -> SocketAddr {
    SocketAddr::new(Hosts::server_address(Family::Four), 80)
}

/// One page of many megabytes, which must arrive as it was sent, or with its words replaced.
fn download_through(
    case: &Case,
    [plain, words]: &[Vec<u8>; 2],
) -> anyhow::Result<Vec<Option<f64>>> {
    let hosts = Hosts::new(case.kind.wiring())?;
    let running = case.kind.start(&hosts)?;
    let page = if case.has_words { words } else { plain };
    let _server = Server::nginx(&hosts.server, &[("page", page)])?;
    let place = in_memory()?;
    let file = place.path().join("page");
    let address = format!("http://{}/page", server());
    let mut command = hosts.client.command("curl");
    command.args(["-s", "-S", "-f", "-m", "120", "-w", "%{time_total}", "-o"]);
    command.arg(&file).arg(address);
    let early = Spent::now(&hosts, running.id())?;
    let seconds: f64 = middlebox::output(&mut command)?.trim().parse()?;
    let cost = Spent::now(&hosts, running.id())?.since(&early);
    let got = std::fs::read(&file)?;
    match case.has_words {
        true => {
            let wanted = String::from_utf8_lossy(page).replace(WORD, NEW);
            ensure!(got == wanted.as_bytes(), "{} bytes, and not those it should be", got.len());
        }
        false => ensure!(got == *page, "{} bytes, and not those that were sent", got.len()),
    }
    running.stop()?;
    let kilobytes = page.len() as f64 / 1e3;
    Ok(vec![
        Some(page.len() as f64 * 8.0 / seconds / 1e9),
        cost.router_ns(kilobytes),
        Some(cost.all_ns(kilobytes)),
    ])
}
