//! The jobs with which a device is measured alone: a kernel, its table and packets; other engines that do the same;
//! and the configurations whose elements do it.

use std::hint::black_box;
use std::net::Ipv6Addr;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use anyhow::{Context, anyhow};
use millrace_core::{Packet, isa};
use millrace_elements::ip::lookup::{
    Address, Dir24x8Writer, FibWriter, HopId, Order, RadixWriter, Route, RouteTable,
};
use millrace_elements::ip6::lookup::TreeWriter;
use millrace_gpu::kernel::{NONE, PAYLOAD_LANES};
use millrace_gpu::table;
use millrace_match::patterns::{Content, Dfa, PatternSet, Rule, Scratch, Text};
use millrace_match::patterns::{Kind as Protocol, Kinds as Protocols};
use millrace_match::rules::{Key, LiveRules, RuleSet};
use millrace_testkit::data::{self, Data};
use millrace_testkit::generate::frame::{self, Frame};
use millrace_testkit::generate::payload::{self, NearMiss, Part};
use millrace_testkit::generate::rules::{self, Kind};
use millrace_testkit::generate::trace::Trace;
use prefix_trie::PrefixMap;

use super::apps::{App, Form};
use super::bench::{Bench, Routes};
use super::bitmaps::{self, Bitmaps, Fields};
use super::device::{self, Bare};
use crate::feed::Frames;
use crate::graph::Graph;
use crate::{machine, traffic, traffic6};

/// Packets that jobs are measured on, in the largest batch.
pub(super) const PACKETS: usize = if cfg!(test) { 1024 } else { 8192 };

/// Bytes of frames whose payload is searched, the check sequence included.
const SEARCHED: usize = 1518;

/// Packets at a time, of the CPU's engines: a batch of the graph.
const BURST: usize = 256;

/// The kind of job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// IPv4 routes.
    Lookup,
    /// IPv6 routes.
    Lookup6,
    /// Rules of a kind.
    Classify(&'static str),
    /// Patterns in harmless text.
    Search,
    /// Patterns in text that nearly matches.
    NearMiss,
}

/// A job.
pub(super) struct Job {
    pub(super) subject: Subject,
    /// Its name in tables.
    pub(super) name: String,
    pub(super) packets: Vec<Packet>,
    /// The mean number of searched bits per packet.
    pub(super) bits: f64,
    pub(super) stage: Bare,
    /// Our own engine, and one as in Snap.
    pub(super) engines: [Engine; 2],
    pub(super) frames: Frames,
    /// The application whose elements do it.
    app: App,
    /// What differs from the application: files as variables, and texts that are written to handlers.
    variables: Vec<(&'static str, String)>,
    writes: Vec<(String, String)>,
}

impl Job {
    /// A configuration in which elements do it.
    pub(super) fn graph(&self, bench: &Bench, form: Form) -> Graph {
        let mut graph = bench.fixture.graph(self.app, form);
        for (name, value) in &self.variables {
            graph.set(name, value.clone());
        }
        if !self.writes.is_empty() {
            graph.writes.clone_from(&self.writes);
        }
        graph
    }
}

/// An engine on the CPU, which processes all packets at each call.
pub(super) struct Engine {
    pub(super) name: &'static str,
    work: Box<dyn Fn() + Sync>,
    results: Box<dyn Fn() -> Vec<u32>>,
}

impl Engine {
    /// `work` computes the results and discards them. `results` returns what the device should find.
    fn new(
        name: &'static str,
        work: impl Fn() + Sync + 'static,
        results: impl Fn() -> Vec<u32> + 'static,
    ) -> Self {
        Self { name, work: Box::new(work), results: Box::new(results) }
    }

    /// The results for each packet, as the kernel reports them.
    pub(super) fn results(&self) -> Vec<u32> {
        (self.results)()
    }

    /// Millions of packets per second on these cores together.
    ///
    /// # Errors
    /// The program may not run on one of them.
    pub(super) fn rate(&self, cores: &[usize], time: Duration) -> anyhow::Result<f64> {
        let work = &*self.work;
        let together = Barrier::new(cores.len());
        let run = |core| {
            let pinned = machine::pin(core);
            work();
            together.wait();
            pinned?;
            let (start, mut times) = (Instant::now(), 0u64);
            while start.elapsed() < time {
                work();
                times += 1;
            }
            anyhow::Ok(times as f64 * PACKETS as f64 / start.elapsed().as_secs_f64() / 1e6)
        };
        thread::scope(|scope| {
            let run = &run;
            let threads: Vec<_> =
                cores.iter().map(|&core| scope.spawn(move || run(core))).collect();
            let rate = |thread: thread::ScopedJoinHandle<'_, anyhow::Result<f64>>| {
                thread.join().map_err(|_| anyhow!("a thread panicked"))?
            };
            threads.into_iter().map(rate).sum()
        })
    }
}

/// Makes all jobs one after the other, because they are large.
///
/// # Errors
/// One cannot be made or measured.
pub(super) fn each(
    bench: &Bench,
    mut measure: impl FnMut(&Job) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    measure(&lookup4(bench)?)?;
    measure(&lookup6()?)?;
    for kind in &rules::KINDS {
        measure(&classify(bench, kind)?)?;
    }
    let (engines, image) = automata(bench.fixture.patterns())?;
    let corpus = Data::Texts.folder().and_then(|folder| data::texts(&folder).ok());
    let harmless = |random: &mut fastrand::Rng, room| match &corpus {
        Some(corpus) => payload::text(corpus, random, room),
        None => payload::http(random, room),
    };
    let kind = if corpus.is_some() { "text and web pages" } else { "HTTP" };
    let frames = bench.fixture.frames_with(SEARCHED, harmless);
    measure(&search(Subject::Search, kind, frames, &engines, &image)?)?;
    let near = NearMiss::new(bench.fixture.patterns(), Part::Head);
    let frames = bench.fixture.frames_with(SEARCHED, |random, room| near.make(random, room));
    measure(&search(Subject::NearMiss, "near misses", frames, &engines, &image)?)
}

/// Routes as kernels have them; the hop is the output.
fn kernel_routes<A: Address>(routes: &[Route<A>]) -> Vec<table::Route<A::Bits>> {
    let route = |route: &Route<A>| table::Route {
        prefix: route.prefix.first(),
        length: route.prefix.length(),
        hop: route.hop.port,
    };
    routes.iter().map(route).collect()
}

/// The maximum number of outputs that routes lead to.
const HOPS: usize = 8;

/// An engine of the route elements: many addresses side by side, or one by one.
fn lookups<W: FibWriter<A>, A: Address>(
    name: &'static str,
    table: &Arc<RouteTable<W, A>>,
    addresses: &Arc<Vec<A::Bits>>,
    one_by_one: bool,
) -> Engine {
    let (mine, keys) = (table.clone(), addresses.clone());
    let work = move || {
        let snapshot = mine.snapshot();
        if one_by_one {
            keys.iter().for_each(|address| {
                black_box(snapshot.lookup(*address));
            });
            return;
        }
        let mut hops = [HopId::default(); BURST];
        for addresses in keys.chunks(BURST) {
            snapshot.lookup_batch(addresses, &mut hops);
            black_box(&hops);
        }
    };
    let (table, addresses) = (table.clone(), addresses.clone());
    let results = move || {
        let snapshot = table.snapshot();
        let port = |address: &A::Bits| snapshot.lookup(*address).map_or(NONE, |hop| hop.port);
        addresses.iter().map(port).collect()
    };
    Engine::new(name, work, results)
}

fn lookup4(bench: &Bench) -> anyhow::Result<Job> {
    let Routes { kind, routes } = &bench.routes;
    let direct = RouteTable::<Dir24x8Writer>::new(Order::Address)?;
    direct.load(routes)?;
    let radix = RouteTable::<RadixWriter>::new(Order::Address)?;
    radix.load(routes)?;
    let mut random = fastrand::Rng::with_seed(11);
    let addresses: Vec<u32> = (0..PACKETS)
        .map(|_| {
            let route = random.choice(routes).context("no routes")?;
            anyhow::Ok(route.prefix.first() | random.u32(..) & !route.prefix.mask())
        })
        .collect::<Result<_, _>>()?;
    let frames = bench.fixture.frames_to(&addresses);
    let addresses = Arc::new(addresses);
    let stage = Bare::lookup(&kernel_routes(routes), HOPS)?;
    Ok(Job {
        subject: Subject::Lookup,
        name: format!("IPv4 lookup, {} {kind} routes", routes.len()),
        packets: device::packets(&frames, PACKETS, 30..34)?,
        bits: 0.0,
        stage,
        engines: [
            lookups("DIR-24-8", &Arc::new(direct), &addresses, false),
            lookups("radix trie", &Arc::new(radix), &addresses, true),
        ],
        frames,
        app: App::ROUTER,
        variables: Vec::new(),
        writes: vec![("rt.ctrl".to_owned(), traffic::commands(routes))],
    })
}

fn lookup6() -> anyhow::Result<Job> {
    let file = Data::Routes.folder().map(|folder| folder.join("ipasn6_20151101.dat"));
    let (kind, routes) = match file.filter(|file| file.is_file()) {
        Some(file) => ("real", traffic6::real_routes(&file)?),
        None => ("made-up", traffic6::routes(traffic6::ROUTES)),
    };
    let tree = RouteTable::<TreeWriter, Ipv6Addr>::new(Order::FirstFree)?;
    tree.load(&routes)?;
    let key =
        |route: &Route<Ipv6Addr>| ((route.prefix.first(), route.prefix.length()), route.hop.port);
    let radix: Arc<PrefixMap<(u128, u8), u32>> = Arc::new(routes.iter().map(key).collect());
    let mut random = fastrand::Rng::with_seed(11);
    let (mut addresses, mut frames) = (Vec::new(), Vec::new());
    for _ in 0..PACKETS {
        let route = random.choice(&routes).context("no routes")?;
        let address = traffic6::address_in(route, &mut random);
        frames.push(Box::from(traffic6::ipv6(address, &mut random)?.as_slice()));
        addresses.push(address.to_bits());
    }
    let (frames, addresses): (Frames, _) = (frames.into(), Arc::new(addresses));
    let find = |radix: &PrefixMap<(u128, u8), u32>, address: u128| {
        radix.get_lpm(&(address, 128)).map_or(NONE, |(_, port)| *port)
    };
    let (mine, keys) = (radix.clone(), addresses.clone());
    let work = move || {
        keys.iter().for_each(|address| {
            black_box(find(&mine, *address));
        })
    };
    let keys = addresses.clone();
    let results = move || keys.iter().map(|address| find(&radix, *address)).collect();
    Ok(Job {
        subject: Subject::Lookup6,
        name: format!("IPv6 lookup, {} {kind} routes", routes.len()),
        packets: device::packets(&frames, PACKETS, 38..54)?,
        bits: 0.0,
        stage: Bare::lookup6(&kernel_routes(&routes), HOPS)?,
        engines: [
            lookups("tree", &Arc::new(tree), &addresses, false),
            Engine::new("radix trie", work, results),
        ],
        frames,
        app: App::ROUTER6,
        variables: Vec::new(),
        writes: vec![("rt.ctrl".to_owned(), traffic::commands(&routes))],
    })
}

fn classify(bench: &Bench, kind: &'static Kind) -> anyhow::Result<Job> {
    let mut set = rules::RuleSet::new(kind, bench.rules).make();
    // For what no rule asks for.
    set.push(rules::Rule::any(0));
    let text = rules::text(&set);
    let headers = Trace::new(PACKETS).make(&set);
    let frames: Frames =
        headers.iter().map(|header| Box::from(Frame::new(*header, &[]).bytes())).collect();
    let keys: Vec<Key> = frames.iter().map(|frame| Key::of_frame(frame)).collect();
    let read = RuleSet::parse(&text).map_err(|errors| anyhow!("{errors:?}"))?;
    let live = LiveRules::new(read);
    let table = live.table(NONE - 1);
    let both = Arc::new((live, keys));
    let search = |(live, keys): &(LiveRules, Vec<Key>), tell: &mut dyn FnMut(&[u32])| {
        isa::run(
            #[inline(always)]
            || {
                let mut found = [0; BURST];
                for keys in keys.chunks(BURST) {
                    live.classify(keys, &mut found);
                    tell(found.get(..keys.len()).unwrap_or_default());
                }
            },
        );
    };
    let mine = both.clone();
    let ours = Engine::new(
        "decision trees",
        move || {
            search(&mine, &mut |found| {
                black_box(found);
            })
        },
        move || {
            let mut all = Vec::new();
            search(&both, &mut |found| all.extend_from_slice(found));
            all
        },
    );
    let packets: Vec<Fields> = headers.iter().map(bitmaps::fields).collect();
    let flat = Arc::new((Bitmaps::new(&set)?, packets));
    let find = |(bitmaps, _): &(Bitmaps, Vec<Fields>), packet: &Fields| {
        bitmaps.first(packet).map_or(NONE, |rule| rule as u32)
    };
    let mine = flat.clone();
    let snaps = Engine::new(
        "flat bitmaps",
        move || {
            mine.1.iter().for_each(|packet| {
                black_box(find(&mine, packet));
            })
        },
        move || flat.1.iter().map(|packet| find(&flat, packet)).collect(),
    );
    Ok(Job {
        subject: Subject::Classify(kind.name),
        name: format!("{} rules of the kind {}", bench.rules, kind.name),
        packets: device::packets(&frames, PACKETS, 30..34)?,
        bits: 0.0,
        stage: Bare::classify(table),
        engines: [ours, snaps],
        frames,
        app: App::SDN,
        variables: vec![("rules", bench.fixture.file(kind.name, &text)?)],
        writes: Vec::new(),
    })
}

/// Both automata for a set of patterns: our own, and one that processes one payload after the other.
type Automata = Arc<(Dfa, AhoCorasick)>;

fn automata(patterns: &[Vec<u8>]) -> anyhow::Result<(Automata, Arc<Vec<u32>>)> {
    let mut set = PatternSet::new();
    for pattern in patterns {
        set.push(Rule::of(Content::of(pattern.clone())))?;
    }
    let dfa = Dfa::new(&set)?;
    let image = Arc::new(dfa.image().context("the image is too large")?.words().to_vec());
    let plain =
        AhoCorasick::builder().kind(Some(AhoCorasickKind::DFA)).prefilter(false).build(patterns)?;
    Ok((Arc::new((dfa, plain)), image))
}

fn search(
    subject: Subject,
    what: &str,
    frames: Frames,
    automata: &Automata,
    image: &[u32],
) -> anyhow::Result<Job> {
    let payloads: Vec<Vec<u8>> = frames
        .iter()
        .cycle()
        .take(PACKETS)
        .map(|frame| frame::payload(frame).unwrap_or_default().to_vec())
        .collect();
    let bytes: usize = payloads.iter().map(Vec::len).sum();
    let payloads = Arc::new(payloads);
    let follow = |dfa: &Dfa, payloads: &[Vec<u8>], tell: &mut dyn FnMut(&[u32])| {
        let (mut scratch, mut found) = (Scratch::default(), [0; BURST]);
        for payloads in payloads.chunks(BURST) {
            let texts: Vec<Text<'_>> =
                payloads.iter().map(|bytes| Text { bytes, kind: Protocol::Udp }).collect();
            let found = found.get_mut(..texts.len()).unwrap_or_default();
            dfa.firsts(&texts, found, &mut scratch);
            tell(found);
        }
    };
    let (mine, texts) = (automata.clone(), payloads.clone());
    let (same, all) = (automata.clone(), payloads.clone());
    let ours = Engine::new(
        "eight automata side by side",
        move || {
            follow(&mine.0, &texts, &mut |found| {
                black_box(found);
            })
        },
        move || {
            let mut found = Vec::new();
            // The kernel counts rules from 0, and uses a special value for none.
            let mut tell =
                |part: &[u32]| found.extend(part.iter().map(|rule| rule.wrapping_sub(1)));
            follow(&same.0, &all, &mut tell);
            found
        },
    );
    let first = |plain: &AhoCorasick, payload: &[u8]| {
        let rules = plain.find_overlapping_iter(payload).map(|found| found.pattern().as_u32());
        rules.min().unwrap_or(NONE)
    };
    let (mine, texts) = (automata.clone(), payloads.clone());
    let (same, all) = (automata.clone(), payloads);
    let snaps = Engine::new(
        "plain DFA",
        move || {
            texts.iter().for_each(|text| {
                black_box(first(&mine.1, text));
            })
        },
        move || all.iter().map(|text| first(&same.1, text)).collect(),
    );
    Ok(Job {
        subject,
        name: format!("{} patterns in {what}", automata.1.patterns_len()),
        packets: device::packets(&frames, PACKETS, 30..34)?,
        bits: bytes as f64 * 8.0 / PACKETS as f64,
        stage: Bare::search(image, PAYLOAD_LANES, Protocols::only(Protocol::Udp).bits()),
        engines: [ours, snaps],
        frames,
        app: App::IDS,
        variables: Vec::new(),
        writes: Vec::new(),
    })
}
