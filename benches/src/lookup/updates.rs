//! Changes per second, alone and while another thread looks addresses up.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use millrace_elements::ip::lookup::{Command, Hop, Prefix, Route};
use serde_json::{Value, json};

use super::oracle::Oracle;
use super::subject::Subject;
use crate::{machine, report};

/// The number of routes that are removed and added again.
const ROUTES: usize = 50_000;

/// The number of changes per transaction, if there are several: the maximum of a BGP message.
const TOGETHER: usize = 256;

/// Addresses that the reader looks up.
const WATCHED: usize = 16_384;

/// Changes per second. Removing a route is one change, and adding it again is another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Updates {
    /// One change per transaction.
    pub(crate) single: f64,
    /// The same with several in a transaction.
    pub(crate) together: f64,
    /// One change per transaction, while a reader runs.
    pub(crate) beside_reader: f64,
    /// Lookups of the reader in the meantime. All results were right.
    pub(crate) lookups: u64,
}

impl Updates {
    /// Removes random routes and adds them again; at last while a reader runs on the core `elsewhere`.
    ///
    /// # Errors
    /// A change fails, or the reader finds a wrong hop for a route that stays.
    pub(crate) fn measure(
        subject: &dyn Subject,
        routes: &[Route],
        oracle: &Oracle,
        elsewhere: Option<usize>,
    ) -> anyhow::Result<Self> {
        let mut random = fastrand::Rng::with_seed(9);
        let picked: HashSet<usize> =
            (0..ROUTES.min(routes.len() / 2)).map(|_| random.usize(..routes.len())).collect();
        let mut picked: Vec<Route> =
            picked.into_iter().filter_map(|at| routes.get(at)).copied().collect();
        picked.sort_unstable_by_key(|route| route.prefix);
        random.shuffle(&mut picked);
        let single = changes_a_second(subject, &picked, 1)?;
        let together = changes_a_second(subject, &picked, TOGETHER)?;

        let watched = watched(routes, &picked, oracle, &mut random);
        let done = AtomicBool::new(false);
        let (beside_reader, lookups) = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                // On another core than the writer.
                if let Some(core) = elsewhere {
                    machine::pin(core)?;
                }
                watch(subject, &watched, &done)
            });
            let changes = changes_a_second(subject, &picked, 1);
            done.store(true, Relaxed);
            match reader.join() {
                Ok(lookups) => anyhow::Ok((changes?, lookups?)),
                Err(_) => bail!("the reader panicked"),
            }
        })?;
        Ok(Self { single, together, beside_reader, lookups })
    }

    pub(crate) fn json(self) -> Value {
        json!({
            "a_second": self.single.round(),
            "a_second_in_groups": self.together.round(),
            "group": TOGETHER,
            "a_second_beside_a_reader": self.beside_reader.round(),
            "lookups_of_the_reader": self.lookups,
            "single_ns": report::rounded(1e9 / self.single),
        })
    }
}

/// Removes routes and adds them again. Some hundred changes are timed together, and the median counts, because other
/// work of the machine disturbs some of them.
fn changes_a_second(
    subject: &dyn Subject,
    routes: &[Route],
    together: usize,
) -> anyhow::Result<f64> {
    let mut rates = Vec::new();
    for timed in routes.chunks(TOGETHER) {
        let transactions: Vec<[Vec<Command>; 2]> = timed
            .chunks(together)
            .map(|routes| {
                let remove = routes.iter().map(|route| Command::Remove(route.prefix, None));
                [remove.collect(), routes.iter().map(|&route| Command::Add(route)).collect()]
            })
            .collect();
        let start = Instant::now();
        for commands in transactions.iter().flatten() {
            subject.apply(commands)?;
        }
        rates.push(2.0 * timed.len() as f64 / start.elapsed().as_secs_f64());
    }
    report::median(rates).context("no routes")
}

/// Addresses whose routes stay, and their hops.
fn watched(
    routes: &[Route],
    picked: &[Route],
    oracle: &Oracle,
    random: &mut fastrand::Rng,
) -> Vec<(u32, Hop)> {
    let picked: HashSet<Prefix> = picked.iter().map(|route| route.prefix).collect();
    let mut watched = Vec::new();
    for _ in 0..4 * WATCHED {
        let Some(prefix) = random.choice(routes).map(|route| route.prefix) else { break };
        let address = prefix.first() | random.u32(..) & !prefix.mask();
        match oracle.route_of(address) {
            Some((prefix, hop)) if !picked.contains(&prefix) => watched.push((address, hop)),
            _ => {}
        }
        if watched.len() == WATCHED {
            break;
        }
    }
    watched
}

/// Looks addresses up until the changes are done; returns the number of lookups.
fn watch(subject: &dyn Subject, watched: &[(u32, Hop)], done: &AtomicBool) -> anyhow::Result<u64> {
    let addresses: Vec<u32> = watched.iter().map(|(address, _)| *address).collect();
    let mut lookups = 0;
    while !done.load(Relaxed) {
        for ((address, hop), found) in watched.iter().zip(subject.hops(&addresses)) {
            ensure!(
                found == Some(*hop),
                "{} leads to {found:?} instead of {hop:?} while other routes change",
                std::net::Ipv4Addr::from_bits(*address)
            );
        }
        lookups += addresses.len() as u64;
    }
    Ok(lookups)
}
