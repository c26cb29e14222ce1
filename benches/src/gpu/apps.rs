//! The applications of Snap's evaluation, each in a form for the CPU and one for a device: configurations in
//! `benches/configs/gpu`, and what they work on.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use millrace_elements::ip::lookup::Route;
use millrace_testkit::generate::frame::Frame;
use millrace_testkit::generate::payload::{self, Place};
use millrace_testkit::generate::rules::{self, Header, Kind, RuleSet};
use millrace_testkit::generate::trace::Trace;
use tempfile::TempDir;

use crate::graph::Graph;
use crate::open_loop::{self, Frames};
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
    /// Nothing: the bound of all others.
    pub(super) const FORWARDER: Self = app!("forwarder", "forwarder", "forwarder");
    /// IPv4 lookup.
    pub(super) const ROUTER: Self = app!("IP router", "router-cpu", "router");
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
        /// Whether whole packets are copied, not only the slices that are asked for.
        whole: bool,
    },
}

impl Form {
    /// In a section, by slices.
    pub(super) const fn section(batch: usize) -> Self {
        Self::Section { batch, whole: false }
    }
}

/// What the applications work on: routes, rules, patterns, packets.
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

/// Routes in tables.
const ROUTES: usize = 130_000;

/// Frames of a trace.
const FRAMES: usize = 8192;

/// One frame in so many has a phrase that is looked for.
const ALERTS: usize = 1000;

/// Bytes at the end of each frame that are the open loop's.
const STAMP: usize = 8;

impl Fixture {
    /// Makes routes, rules and patterns, and files of them.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn new(device: &str, rules: usize, patterns: Vec<Vec<u8>>) -> anyhow::Result<Self> {
        let folder = TempDir::new().context("a temporary folder")?;
        let kind = Kind::named("acl1").context("no rules of the kind acl1")?;
        let set = RuleSet::new(kind, rules).make();
        let mut text = rules::text(&set);
        // For what no rule asks for.
        text.push_str(&rules::text(&[rules::Rule::any(0)]));
        fs::write(folder.path().join("rules"), text)?;
        fs::write(folder.path().join("patterns"), pattern_file(&patterns))?;

        let routes = traffic::routes(ROUTES);
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

    /// Frames of so many bytes, the check sequence of Ethernet included, with text in them.
    pub(super) fn frames(&self, bytes: usize) -> Frames {
        let mut random = fastrand::Rng::with_seed(bytes as u64);
        let frames = self.headers.iter().enumerate().map(|(at, header)| {
            let room = bytes.saturating_sub(4 + Frame::new(*header, &[]).headers());
            let mut text = payload::http(&mut random, room);
            if at % ALERTS == 0
                && let Some(pattern) = random.choice(&self.patterns)
                && let Some(before_stamp) = text.len().checked_sub(STAMP)
                && let Some(text) = text.get_mut(..before_stamp)
            {
                // Where it fits.
                let _ = payload::plant(text, pattern, Place::Last);
            }
            Box::from(Frame::new(*header, &text).bytes())
        });
        frames.collect()
    }

    /// The routes in tables.
    pub(super) fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// The text of the file of rules.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn rules(&self) -> anyhow::Result<String> {
        fs::read_to_string(self.path("rules")).context("the file of rules")
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
        let file = |name: &str| format!("\"{}\"", self.path(name).display());
        let mut text = text.replace("$batch", &batch.to_string()).replace("$gpu", &self.device);
        text = text.replace(", $slices", if slices.is_empty() { "" } else { ", $slices" });
        text = text.replace("$slices", slices);
        text = text.replace("$rules", &file("rules")).replace("$patterns", &file("patterns"));
        let mut writes = Vec::new();
        if text.contains("rt ::") {
            writes.push(("rt.ctrl".to_owned(), traffic::commands(&self.routes)));
        }
        if text.contains("Port(eth1") {
            let arp = traffic::neighbours();
            writes.extend(
                arp.into_iter().map(|(net, entry)| (format!("eth{net}/arp.insert"), entry)),
            );
        }
        Graph { name: format!("{}, {form:?}", app.name), text, writes }
    }

    /// Checks that an application does the same on the CPU and in a section.
    ///
    /// # Errors
    /// It does not, or loses packets.
    pub(super) fn gate(
        &self,
        app: App,
        form: Form,
        frames: &Frames,
        core: usize,
    ) -> anyhow::Result<()> {
        const PACKETS: usize = 3 * FRAMES / 2;
        let sent = |form| open_loop::sent(&self.graph(app, form), BURST, core, frames, PACKETS);
        let (cpu, section) = (sent(Form::Cpu)?, sent(form)?);
        ensure!(
            cpu == section,
            "{}: {form:?} sends {section:?}, the CPU's elements {cpu:?}",
            app.name
        );
        Ok(())
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        Path::join(self.folder.path(), name)
    }
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
