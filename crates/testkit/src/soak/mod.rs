//! Soak: a router under traffic for as long as is asked for, to which things are done that happen to routers.
//!
//! The address translator of `examples/nat.click` runs between hosts in network namespaces. They send numbered
//! datagrams, each of which is sent back; they connect by TCP and ping. Faults are drawn from a seed, one after the
//! other ([`Fault`]); hot swaps go on beside them. Each fault opens a window. Outside of the windows in which packets may
//! be lost, none is lost and none comes twice; in none comes any twice. The router's memory and its open files do not
//! grow, its counters say what the hosts say, its summary accounts for every packet, and nothing of it is left on the
//! interfaces when it has ended or was killed.
//!
//! The clock that is stepped is the router's alone: a library of some lines, loaded into it, adds to `CLOCK_REALTIME`.

mod chaos;
mod fault;
mod memory;
mod network;
mod pressure;
mod report;
mod router;
mod streams;
mod swaps;
mod traffic;
mod windows;

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::{Namespace, Program, find_program};
use chaos::Chaos;
use memory::Memory;
use network::Network;
use pressure::Group;
use router::{Router, Setting};
use streams::Connecting;
use swaps::Swapper;
use traffic::Traffic;
use windows::Windows;

pub use fault::Fault;
pub use report::Report;
pub use router::unbalanced;

/// What to run, and for how long.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program `millrace`, with `click` beside it.
    pub program: PathBuf,
    /// `LINUX`, `SOCKET` or `XDP`.
    pub method: String,
    /// How long to go on; what is begun is finished.
    pub time: Duration,
    /// The schedule follows from it.
    pub seed: u64,
    /// The faults to choose from.
    pub faults: Vec<Fault>,
    /// Datagrams a second from each of the two hosts inside.
    pub rate: u32,
    /// The time from one hot swap to the next.
    pub every: Duration,
    /// Ends it before its time, in good order.
    pub interrupted: Arc<AtomicBool>,
}

/// The programs that it cannot do without.
pub const NEEDED: &[&str] = &["ip", "sysctl", "timeout"];

/// Runs a router by a plan. Needs root.
///
/// # Errors
/// It cannot be set up. What is wrong with the router stands in the report.
///
/// # Panics
/// The network cannot be made or mended.
pub fn run(plan: &Plan) -> Result<Report, String> {
    let text = |error: std::io::Error| error.to_string();
    Namespace::delete_abandoned();
    Group::delete_abandoned();
    let folder = tempfile::tempdir().map_err(text)?;
    let network = Network::new();
    let mut impossible = BTreeMap::new();
    let (setting, _disk) = prepare(plan, folder.path(), &mut impossible)?;
    let group = setting.group.as_ref().map(Group::kind);
    let windows = Arc::new(Windows::new());
    let traffic = Traffic::start(&network, &windows, plan.rate, plan.seed).map_err(text)?;
    let streams = Connecting::start(&network, &windows).map_err(text)?;
    let ping = find_program("ping").and_then(|_| {
        let host = network.hosts.get(1)?;
        let mut ping = host.command("ping");
        Program::start(ping.args(["-n", "-i", "0.2", "10.0.2.2"]).process_group(0)).ok()
    });
    let swapper = Swapper::default();
    let has_faults = plan.faults.iter().any(|fault| *fault != Fault::Swap);
    let memory = Mutex::new(Memory::new(has_faults));
    let watching = AtomicBool::new(true);
    let mut soak = Soak {
        plan,
        end: Instant::now() + plan.time,
        faults: plan
            .faults
            .iter()
            .copied()
            .filter(|fault| !impossible.contains_key(fault))
            .collect(),
        bag: Vec::new(),
        swapper: &swapper,
        traffic: &traffic,
        memory: &memory,
        chaos: Chaos {
            network: &network,
            setting: &setting,
            windows: &windows,
            random: fastrand::Rng::with_seed(plan.seed),
        },
        injected: BTreeMap::new(),
        impossible,
        lives: 0,
        problems: Vec::new(),
        said: Vec::new(),
    };
    let begun = Instant::now();
    let streams = std::thread::scope(|scope| {
        let _end = EndOthers { swapper: &swapper, watching: &watching };
        scope.spawn(|| swapper.run(&network, &setting, &windows, &memory));
        scope.spawn(|| {
            while watching.load(Relaxed) {
                lock(&memory).sample();
                traffic.settle();
                sleep(Duration::from_secs(1));
            }
        });
        soak.live(streams)
    });
    let seconds = begun.elapsed().as_secs_f64();
    let Soak { injected, impossible, lives, problems, said, .. } = soak;
    let ping = ping.and_then(|mut ping| {
        ping.signal(Signal::INT).ok()?;
        // It says what it has found.
        let end = Instant::now() + Duration::from_secs(5);
        while ping.runs() && Instant::now() < end {
            sleep(Duration::from_millis(20));
        }
        let ended = ping.stop().ok()?;
        ended.stdout.lines().find(|line| line.contains("packets transmitted")).map(str::to_owned)
    });
    let tally = traffic.end();
    let growth = lock(&memory).growth();
    let mut report = Report {
        method: plan.method.clone(),
        seed: plan.seed,
        seconds,
        lives,
        injected,
        impossible,
        group,
        swaps: swapper.outcome(),
        tally,
        streams,
        ping,
        growth,
        problems,
        events: windows.events(),
        said,
    };
    report.judge();
    Ok(report)
}

/// Ends the threads beside the schedule when this is dropped, also where it has failed.
struct EndOthers<'a> {
    swapper: &'a Swapper,
    watching: &'a AtomicBool,
}

impl Drop for EndOthers<'_> {
    fn drop(&mut self) {
        self.swapper.ends.store(true, Relaxed);
        self.watching.store(false, Relaxed);
    }
}

/// A file system of its own for dumps, which is taken away when this is dropped.
struct Disk(PathBuf);

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: somebody may be at work in it.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// What faults need.
fn prepare(
    plan: &Plan,
    folder: &Path,
    impossible: &mut BTreeMap<Fault, String>,
) -> Result<(Setting, Option<Disk>), String> {
    let has = |fault| plan.faults.contains(&fault);
    let mut setting = Setting {
        program: plan.program.clone(),
        method: plan.method.clone(),
        folder: folder.to_owned(),
        disk: folder.join("disk"),
        group: None,
        clock: None,
        every: plan.every,
    };
    std::fs::create_dir(&setting.disk).map_err(|error| error.to_string())?;
    let mut disk = None;
    if has(Fault::Disk) {
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64m", "tmpfs"])
            .arg(&setting.disk)
            .output();
        match mount {
            Ok(output) if output.status.success() => disk = Some(Disk(setting.disk.clone())),
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                impossible.insert(Fault::Disk, why);
            }
            Err(error) => drop(impossible.insert(Fault::Disk, error.to_string())),
        }
    }
    if has(Fault::Memory) {
        match Group::new() {
            Ok(group) => setting.group = Some(group),
            Err(why) => drop(impossible.insert(Fault::Memory, why)),
        }
    }
    if has(Fault::Clock) {
        match chaos::clock_library(folder) {
            Ok(clock) => setting.clock = Some(clock),
            Err(why) => drop(impossible.insert(Fault::Clock, why)),
        }
    }
    Ok((setting, disk))
}

/// A soak that runs.
struct Soak<'a> {
    plan: &'a Plan,
    end: Instant,
    /// Those that are possible.
    faults: Vec<Fault>,
    /// Those that are to come before any comes again.
    bag: Vec<Fault>,
    swapper: &'a Swapper,
    traffic: &'a Traffic,
    memory: &'a Mutex<Memory>,
    chaos: Chaos<'a>,
    injected: BTreeMap<Fault, u64>,
    impossible: BTreeMap<Fault, String>,
    lives: u64,
    problems: Vec<String>,
    said: Vec<String>,
}

/// For packets on their way to arrive.
const QUIET: Duration = Duration::from_secs(1);

impl Soak<'_> {
    /// One life of the router after the other.
    fn live(&mut self, streams: Connecting) -> streams::Streams {
        let mut streams = Some(streams);
        let mut told = streams::Streams::default();
        self.chaos.windows.open(Fault::Term);
        loop {
            let swaps =
                self.faults.contains(&Fault::Swap) && (self.lives % 3 != 2 || !self.ends_lives());
            let router = self.chaos.setting.start(self.chaos.network, swaps);
            self.lives += 1;
            let mut router = match router {
                Ok(router) => router,
                Err(why) => {
                    self.problems.push(why);
                    return streams.map(Connecting::end).unwrap_or(told);
                }
            };
            self.chaos.windows.close();
            lock(self.memory).begin(router.id());
            self.traffic.pause(false);
            // The first packets may wait for addresses.
            sleep(Fault::Term.recovery());
            self.be_quiet();
            let before = self.traffic.counts();
            let counted = self.counted();
            self.traffic.pause(false);
            let disturbed = self.spend(&mut router);
            let is_last = Instant::now() >= self.end || self.is_interrupted();
            if is_last && let Some(streams) = streams.take() {
                told = streams.end();
            }
            self.be_quiet();
            self.compare(before, counted);
            self.traffic.pause(is_last);
            self.said.extend(router.said());
            self.finish(router, is_last, disturbed);
            if is_last {
                return told;
            }
        }
    }

    /// Whether there is a fault that ends a life before the end.
    fn ends_lives(&self) -> bool {
        [Fault::Kill, Fault::Term].iter().any(|fault| self.faults.contains(fault))
    }

    fn is_interrupted(&self) -> bool {
        self.plan.interrupted.load(Relaxed)
    }

    /// No swaps, no packets.
    fn be_quiet(&self) {
        self.swapper.rest();
        self.traffic.pause(true);
        sleep(QUIET);
    }

    /// What the router counted of the numbered datagrams: those that it sent on, and those that it returned.
    fn counted(&mut self) -> Option<[u64; 2]> {
        let mut read = |handler: &str| {
            let text = self.chaos.setting.read(self.chaos.network, handler);
            let number =
                text.and_then(|text| text.parse().map_err(|_| format!("{handler}: {text}")));
            number.map_err(|why| self.problems.push(why)).ok()
        };
        Some([read("sent.count")?, read("returned.count")?])
    }

    /// The router's counters against what the hosts sent and got.
    fn compare(&mut self, [sent, there, back]: [u64; 3], counted: Option<[u64; 2]>) {
        let now = self.traffic.counts();
        let (Some(then), Some(counted)) = (counted, self.counted()) else { return };
        let [sent, there, back] = [now[0] - sent, now[1] - there, now[2] - back];
        let [forth, home] = [counted[0].wrapping_sub(then[0]), counted[1].wrapping_sub(then[1])];
        // What the hosts and the router do not share was lost between them, which the numbers show.
        if forth > sent || there > forth || home > there || back > home {
            self.problems.push(format!(
                "counters of life {}: the hosts sent {sent}, the router counted {forth}, {there} came; of the \
                 answers the router counted {home}, {back} came",
                self.lives
            ));
        }
    }

    /// Does one thing after another to a router until its life is to end. Returns whether it could not write packets for
    /// a while.
    fn spend(&mut self, router: &mut Router) -> bool {
        let share = self.plan.time / 8;
        let most = share.clamp(Duration::from_secs(8), Duration::from_secs(600));
        let random = &mut self.chaos.random;
        let life = most.mul_f64(0.5 + random.f64() / 2.0);
        let end = if self.ends_lives() { (Instant::now() + life).min(self.end) } else { self.end };
        self.swapper.goes_on.store(router.swaps, Relaxed);
        let mut disturbed = false;
        while Instant::now() < end && !self.is_interrupted() {
            self.chaos.wait(300, 2000);
            if let Some(fault) = self.draw() {
                disturbed |= matches!(fault, Fault::Disk | Fault::Memory);
                match self.chaos.inject(fault, router) {
                    Ok(()) => *self.injected.entry(fault).or_default() += 1,
                    Err(why) => drop(self.impossible.insert(fault, why)),
                }
            }
            if !router.runs() {
                self.problems.push(format!("life {} of the router ended by itself", self.lives));
                break;
            }
        }
        // Of the last one, nothing shall be felt any more.
        sleep(Duration::from_secs(4));
        disturbed
    }

    /// The next fault.
    fn draw(&mut self) -> Option<Fault> {
        if self.bag.is_empty() {
            let beside = [Fault::Swap, Fault::Kill, Fault::Term];
            self.bag =
                self.faults.iter().copied().filter(|fault| !beside.contains(fault)).collect();
            self.chaos.random.shuffle(&mut self.bag);
        }
        self.bag.pop()
    }

    /// Ends a life of the router.
    fn finish(&mut self, router: Router, is_last: bool, disturbed: bool) {
        let ends =
            [Fault::Kill, Fault::Term].into_iter().filter(|fault| self.faults.contains(fault));
        let ends: Vec<Fault> = ends.collect();
        // A life without swaps is for its summary.
        let how = match self.chaos.random.choice(&ends) {
            Some(&fault) if router.swaps && !is_last => fault,
            _ => Fault::Term,
        };
        if !is_last {
            // Under traffic, and in the middle of a swap as it may be.
            self.swapper.goes_on.store(router.swaps, Relaxed);
            sleep(QUIET);
            *self.injected.entry(how).or_default() += 1;
        }
        self.chaos.windows.open(how);
        lock(self.memory).end();
        if how == Fault::Kill {
            if let Err(error) = router.kill() {
                self.problems.push(format!("it cannot be killed: {error}"));
            }
        } else {
            self.problems.extend(router.stop(disturbed));
        }
        self.swapper.rest();
        // The kernel may take its time.
        let end = Instant::now() + Duration::from_secs(3);
        let mut left = self.chaos.network.left_behind();
        while !left.is_empty() && Instant::now() < end {
            sleep(Duration::from_millis(50));
            left = self.chaos.network.left_behind();
        }
        let life = self.lives;
        self.problems.extend(
            left.into_iter().map(|what| format!("left after {how} of life {life}: {what}")),
        );
        if !is_last {
            // As a unit with RestartSec=100ms would.
            self.chaos.wait(100, 500);
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
