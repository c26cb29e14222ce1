//! The summary of a run, as text.

use std::fmt::Write;

use super::number::{mean, plural};
use super::table::{Side, align};
use crate::model::Snapshot;
use crate::model::snapshot::{Delays, Device, Element, Worker};

/// The summary: a line for each element and device, then whether every packet is accounted for.
pub(crate) fn summary(now: &Snapshot) -> String {
    let mut text = String::new();
    let mut add = |lines: Vec<String>| {
        for line in lines {
            let _ = writeln!(text, "{line}");
        }
    };
    add(elements(now));
    if !now.devices.is_empty() {
        add(vec![String::new()]);
        add(devices(now));
    }
    add(vec![String::new()]);
    add(closing(now));
    add(rest(now));
    text
}

fn elements(now: &Snapshot) -> Vec<String> {
    let heading = [
        ("ELEMENT", Side::Left),
        ("CLASS", Side::Left),
        ("IN", Side::Right),
        ("OUT", Side::Right),
        ("BATCHES", Side::Right),
        ("PER BATCH", Side::Right),
        ("CYCLES/PKT", Side::Right),
        ("HELD", Side::Right),
        ("DROPS", Side::Left),
    ];
    let rows: Vec<Vec<String>> = now
        .elements
        .iter()
        .filter(|element| !element.information)
        .map(|element| {
            vec![
                element.name.clone(),
                element.class.clone(),
                element.entered.to_string(),
                element.left.to_string(),
                element.batches.to_string(),
                mean(element.mean_batch),
                mean(element.cycles_per_packet),
                element.held.to_string(),
                drops(element),
            ]
        })
        .collect();
    align(&heading, &rows)
}

/// The drops by reason, such as `3 ttl expired, 1 bad checksum`.
pub(super) fn drops(element: &Element) -> String {
    let list: Vec<String> = element.drops.iter().map(|(why, n)| format!("{n} {why}")).collect();
    list.join(", ")
}

fn devices(now: &Snapshot) -> Vec<String> {
    let heading = [
        ("DEVICE", Side::Left),
        ("WAY", Side::Left),
        ("BY", Side::Left),
        ("PACKETS", Side::Right),
        ("BYTES", Side::Right),
        ("PER BATCH", Side::Right),
        ("LOST", Side::Right),
    ];
    let rows: Vec<Vec<String>> = now
        .devices
        .iter()
        .map(|device| {
            let batch = device.packets as f64 / device.batches as f64;
            vec![
                device.device.clone(),
                device.direction.clone(),
                device.backend.clone(),
                device.packets.to_string(),
                device.bytes.to_string(),
                mean((device.batches > 0).then_some(batch)),
                device.lost.to_string(),
            ]
        })
        .collect();
    align(&heading, &rows)
}

/// How long the threads slept, and how long it took them to continue after a wake-up.
fn rest(now: &Snapshot) -> Vec<String> {
    let micros = |seconds: f64| format!("{:.1} us", seconds * 1e6);
    let line = |worker: &Worker| {
        let share = worker.slept_seconds / now.seconds.max(1e-9);
        let kinds: [(&Delays, &str); 3] = [
            (&worker.arrivals, "the arrival of a packet"),
            (&worker.calls, "another thread's call"),
            (&worker.alarms, "the end of a nap"),
        ];
        let delays: Vec<String> = kinds
            .iter()
            .filter(|(delays, _)| delays.count > 0)
            .map(|(delays, what)| {
                let (mean, most) = (micros(delays.mean_seconds), micros(delays.longest_seconds));
                match delays.count {
                    1 => format!("{mean} after {what}"),
                    n => format!("{mean} after {what} ({n} times, at most {most})"),
                }
            })
            .collect();
        let awake = match delays.is_empty() {
            true => String::new(),
            false => format!("; at work {}", delays.join(", ")),
        };
        let slept = format!("{} in {}", share_of(share), plural(worker.sleeps, "sleep"));
        (worker.sleeps > 0).then(|| format!("Thread {} slept {slept}{awake}.", worker.thread))
    };
    now.workers.iter().filter_map(line).collect()
}

/// A share as text, such as `42.0 % of the time`.
fn share_of(share: f64) -> String {
    format!("{:.1} % of the time", share.min(1.0) * 100.0)
}

/// Names the devices whose packets the kernel copies. Millrace does not count these copies.
fn copied_by_kernel(now: &Snapshot) -> Option<String> {
    let copied =
        |device: &&Device| device.backend == "AF_XDP" && !device.zero_copy && device.packets > 0;
    let mut devices: Vec<&str> =
        now.devices.iter().filter(copied).map(|device| device.device.as_str()).collect();
    devices.sort_unstable();
    devices.dedup();
    (!devices.is_empty()).then(|| {
        format!(
            "The kernel copied each packet of {} (AF_XDP without zero copy).",
            devices.join(", ")
        )
    })
}

/// The elapsed time, the copies, and whether every packet is accounted for.
fn closing(now: &Snapshot) -> Vec<String> {
    let totals = now.totals;
    let virtual_time = match now.virtual_seconds {
        Some(seconds) => format!(" ({seconds:.3} s of virtual time)"),
        None => String::new(),
    };
    let mut lines = vec![format!(
        "In {:.3} s{virtual_time}: {} in = {} out + {} dropped + {} held.",
        now.seconds,
        plural(totals.entered, "packet"),
        totals.left,
        totals.dropped,
        totals.held
    )];
    let unbalanced: Vec<String> = now
        .elements
        .iter()
        .filter(|element| !element.balanced)
        .map(|element| {
            format!(
                "{} :: {}: {} in, but {} out + {} dropped + {} held",
                element.name,
                element.class,
                element.entered,
                element.left,
                element.dropped,
                element.held
            )
        })
        .collect();
    if totals.balanced {
        lines.push("Every packet is accounted for.".to_owned());
    } else {
        lines.push("Packets are NOT accounted for:".to_owned());
        lines.extend(unbalanced.into_iter().map(|line| format!("  {line}")));
    }
    let copies: Vec<String> = now
        .copies
        .iter()
        .filter(|&(_, n)| n > 0)
        .map(|(cause, n)| format!("{n} {cause}"))
        .collect();
    lines.push(match now.copies.total() {
        0 => "No packet's data was copied.".to_owned(),
        n => format!("Copies of packet data: {n} ({}).", copies.join(", ")),
    });
    lines.extend(copied_by_kernel(now));
    lines
}
