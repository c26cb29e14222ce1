//! The applications of Snap's evaluation, each in a form for the CPU and one for a device: configurations in
//! `benches/configs/gpu`, and their data.

use std::fs;

use anyhow::{Context, ensure};
use millrace_elements::ip::lookup::Route;
use millrace_testkit::generate::frame::Frame;
use millrace_testkit::generate::payload::{self, Place};
use millrace_testkit::generate::rules::{self, Header, Kind, RuleSet};
use millrace_testkit::generate::trace::Trace;
use tempfile::TempDir;

use crate::feed::{Arrivals, Frames, Run};
use crate::graph::Graph;
use crate::traffic;

/// An application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct App {
    /// The word in tables.
    pub(super) name: &'static str,
    cpu: &'static str,
    section: &'static str,
}

macro_rules! app {
    ($name:expr, $cpu:literal, $section:literal) => {
        App {
            name: $name,
            cpu: include_str!(concat!("../../configs/gpu/", $cpu, ".click")),
            section: include_str!(concat!("../../configs/gpu/", $section, ".click")),
        }
    };
}

impl App {
    /// Forwards packets: the upper limit of all others.
    pub(super) const FORWARDER: Self = app!("forwarder", "forwarder", "forwarder");
    /// IPv4 lookup.
    pub(super) const ROUTER: Self = app!("IP router", "router-cpu", "router");
    /// IPv6 lookup.
    pub(super) const ROUTER6: Self = app!("IPv6 router", "router6-cpu", "router6");
    /// Classification by seven fields.
    pub(super) const SDN: Self = app!("SDN forwarder", "sdn-cpu", "sdn");
    /// Patterns in payloads.
    pub(super) const IDS: Self = app!("IDS", "ids-cpu", "ids");
    /// Lookup and patterns.
    pub(super) const DPI_ROUTER: Self = app!("DPI router", "dpi-router-cpu", "dpi-router");
    /// Classification, lookup and patterns.
    pub(super) const IDS_ROUTER: Self = app!("IDS router", "ids-router-cpu", "ids-router");
    /// Classification, then one of two matchers.
    pub(super) const DIVERGING: Self = app!("diverging", "diverging-cpu", "diverging");
    /// Classification, then one matcher.
    pub(super) const STRAIGHT: Self = app!("straight", "diverging-cpu", "straight");
    /// The full router with patterns.
    pub(super) const FULL_ROUTER: Self = app!("full router", "full-router-cpu", "full-router");
}

/// Where the work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// By elements of the CPU.
    Cpu,
    /// In a section.
    Section {
        /// Most packets of a batch.
        batch: usize,
        /// True if whole packets are copied, not only the required slices.
        whole: bool,
    },
}

impl Form {
    /// In a section, by slices.
    pub(super) const fn section(batch: usize) -> Self {
        Self::Section { batch, whole: false }
    }
}

/// The data of the applications: routes, rules, patterns, packets.
pub(super) struct Fixture {
    folder: TempDir,
    /// The device that sections run on, as `GPURuntime` names it.
    device: String,
    routes: Vec<Route>,
    headers: Vec<Header>,
    patterns: Vec<Vec<u8>>,
}

/// The protocol of every packet.
const UDP: u8 = 17;

/// Frames of a trace.
const FRAMES: usize = if cfg!(test) { 300 } else { 8192 };

/// One frame in this number contains a phrase that is searched for.
const ALERTS: usize = if cfg!(test) { 10 } else { 1000 };

/// The number of bytes at the end of each frame that the feed uses if packets have due times.
const STAMP: usize = 8;

impl Fixture {
    /// Makes this number of routes and rules, and files of these and of the patterns.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn new(
        device: &str,
        routes: usize,
        rules: usize,
        patterns: Vec<Vec<u8>>,
    ) -> anyhow::Result<Self> {
        let folder = TempDir::new().context("a temporary folder")?;
        let kind = Kind::named("acl1").context("no rules of the kind acl1")?;
        let set = RuleSet::new(kind, rules).make();
        let mut text = rules::text(&set);
        // For what no rule asks for.
        text.push_str(&rules::text(&[rules::Rule::any(0)]));
        fs::write(folder.path().join("rules"), text)?;
        fs::write(folder.path().join("patterns"), pattern_file(&patterns))?;

        let routes = traffic::routes(routes);
        let mut headers = Trace { misses: 0, ..Trace::new(FRAMES) }.make(&set);
        headers.retain(|header| header.ether_type == rules::IPV4);
        let mut random = fastrand::Rng::with_seed(7);
        for header in &mut headers {
            let route = random.choice(&routes).context("no routes")?;
            let host = random.u32(..) & !route.prefix.mask();
            // To the full router, from a neighbour of it.
            header.ethernet = [[2, 0, 10, 0, 0, 2], [2, 0, 10, 0, 0, 1]];
            header.addresses = [0x0a00_0002, route.prefix.first() | host];
            header.protocol = UDP;
        }
        Ok(Self { folder, device: device.to_owned(), routes, headers, patterns })
    }

    /// Frames of this length, including the Ethernet checksum, with HTTP requests and responses, some of which
    /// contain a phrase that is searched for.
    pub(super) fn frames(&self, bytes: usize) -> Frames {
        let mut at = 0;
        self.frames_with(bytes, |random, room| {
            let mut text = payload::http(random, room);
            if at % ALERTS == 0
                && let Some(pattern) = random.choice(&self.patterns)
                && let Some(before_stamp) = text.len().checked_sub(STAMP)
                && let Some(text) = text.get_mut(..before_stamp)
            {
                // Where it fits.
                let _ = payload::plant(text, pattern, Place::Last);
            }
            at += 1;
            text
        })
    }

    /// Frames of so many bytes with payloads that are made for their room.
    pub(super) fn frames_with(
        &self,
        bytes: usize,
        mut payload: impl FnMut(&mut fastrand::Rng, usize) -> Vec<u8>,
    ) -> Frames {
        let mut random = fastrand::Rng::with_seed(bytes as u64);
        let frames = self.headers.iter().map(|header| {
            let room = bytes.saturating_sub(4 + Frame::new(*header, &[]).headers());
            Box::from(Frame::new(*header, &payload(&mut random, room)).bytes())
        });
        frames.collect()
    }

    /// The shortest frames, to these addresses.
    pub(super) fn frames_to(&self, addresses: &[u32]) -> Frames {
        let headers = self.headers.iter().cycle();
        let frames = headers.zip(addresses).map(|(header, &to)| {
            let header = Header { addresses: [header.addresses[0], to], ..*header };
            Box::from(Frame::new(header, &[]).bytes())
        });
        frames.collect()
    }

    /// Writes a file that elements read, and gives its name as configurations have it.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn file(&self, name: &str, text: &str) -> anyhow::Result<String> {
        fs::write(self.folder.path().join(name), text).with_context(|| name.to_owned())?;
        Ok(self.quoted(name))
    }

    fn quoted(&self, name: &str) -> String {
        format!("\"{}\"", self.folder.path().join(name).display())
    }

    /// What is looked for in payloads.
    pub(super) fn patterns(&self) -> &[Vec<u8>] {
        &self.patterns
    }

    /// The configuration of an application.
    pub(super) fn graph(&self, app: App, form: Form) -> Graph {
        let (text, batch, slices) = match form {
            Form::Cpu => (app.cpu, 0, ""),
            Form::Section { batch, whole: false } => (app.section, batch, ""),
            Form::Section { batch, whole: true } => {
                (app.section, batch, "SLICE_BEGIN 0, SLICE_END -1")
            }
        };
        let mut graph = Graph::new(format!("{}, {form:?}", app.name), text);
        graph.variables = vec![
            ("gpu", self.device.clone()),
            ("batch", batch.to_string()),
            ("slices", slices.to_owned()),
            ("rules", self.quoted("rules")),
            ("patterns", self.quoted("patterns")),
        ];
        if text.contains("rt ::") {
            graph.writes.push(("rt.ctrl".to_owned(), traffic::commands(&self.routes)));
        }
        if text.contains("Port(eth1") {
            let arp = traffic::neighbours().into_iter();
            graph.writes.extend(arp.map(|(net, entry)| (format!("eth{net}/arp.insert"), entry)));
        }
        graph
    }

    /// Checks that an application gives the same results on the CPU and in a section.
    ///
    /// # Errors
    /// It does not, or it loses packets.
    pub(super) fn gate(
        &self,
        app: App,
        form: Form,
        frames: &Frames,
        cores: &[usize],
    ) -> anyhow::Result<()> {
        agree(&self.graph(app, Form::Cpu), &self.graph(app, form), frames, cores)
    }
}

/// Checks that two configurations send the same packets.
///
/// # Errors
/// They do not, or they lose packets.
pub(super) fn agree(
    one: &Graph,
    other: &Graph,
    frames: &Frames,
    cores: &[usize],
) -> anyhow::Result<()> {
    let sent = |graph| {
        let arrivals = Arrivals::AtOnce { warm_up: 0, packets: 3 * frames.len() / 2 };
        Run { graph, burst: BURST, cores, frames, arrivals }.sent()
    };
    let (expected, found) = (sent(one)?, sent(other)?);
    ensure!(expected == found, "{} sends {found:?}, {} {expected:?}", other.name, one.name);
    Ok(())
}

/// Most packets that are received at a time.
pub(super) const BURST: usize = 256;

/// A file of plain patterns, each as hexadecimal digits.
fn pattern_file(patterns: &[Vec<u8>]) -> String {
    let hex = |pattern: &Vec<u8>| {
        let bytes: Vec<String> = pattern.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("|{}|\n", bytes.join(" "))
    };
    patterns.iter().map(hex).collect()
}
