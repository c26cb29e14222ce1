//! The summary of a run, as text.

use std::fmt::Write;

use millrace_core::Router;
use millrace_core::stats::ElementStats;

use super::Figures;
use super::devices::DeviceFigures;
use super::figures::{cycles_per_packet, mean_batch, packets_in, packets_out};
use super::number::{mean, plural};
use super::table::{Side, align};

/// The summary: a line for each element and device, then whether every packet is accounted for.
pub(crate) fn summary(router: &Router, figures: &Figures) -> String {
    let mut text = String::new();
    let mut add = |lines: Vec<String>| {
        for line in lines {
            let _ = writeln!(text, "{line}");
        }
    };
    add(elements(router, figures));
    if !figures.devices.is_empty() {
        add(vec![String::new()]);
        add(devices(figures));
    }
    add(vec![String::new()]);
    add(closing(router, figures));
    add(rest(router, figures));
    text
}

fn elements(router: &Router, figures: &Figures) -> Vec<String> {
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
    let rows: Vec<Vec<String>> = router
        .elements()
        .zip(&figures.elements)
        .filter(|(element, _)| !element.class.information)
        .map(|(element, stats)| {
            vec![
                element.name.to_owned(),
                element.class.name.to_owned(),
                packets_in(stats).to_string(),
                packets_out(stats).to_string(),
                stats.batches.to_string(),
                mean(mean_batch(stats)),
                mean(cycles_per_packet(stats)),
                stats.held.to_string(),
                drops(stats),
            ]
        })
        .collect();
    align(&heading, &rows)
}

/// The drops by reason, such as `3 ttl expired, 1 bad checksum`.
pub(super) fn drops(stats: &ElementStats) -> String {
    let list: Vec<String> = stats.drops.iter().map(|(why, n)| format!("{n} {why}")).collect();
    list.join(", ")
}

fn devices(figures: &Figures) -> Vec<String> {
    let heading = [
        ("DEVICE", Side::Left),
        ("WAY", Side::Left),
        ("BY", Side::Left),
        ("PACKETS", Side::Right),
        ("BYTES", Side::Right),
        ("PER BATCH", Side::Right),
        ("LOST", Side::Right),
    ];
    let rows: Vec<Vec<String>> = figures
        .devices
        .iter()
        .map(|device| {
            let batch = device.packets as f64 / device.batches as f64;
            vec![
                device.device.clone(),
                device.direction.to_owned(),
                device.backend.to_owned(),
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
fn rest(router: &Router, figures: &Figures) -> Vec<String> {
    let micros = |nanos: u64| format!("{:.1} us", nanos as f64 / 1e3);
    let line = |thread: usize| {
        let rest = router.rest_of(thread);
        let share = rest.nanos as f64 / figures.elapsed.as_nanos().max(1) as f64;
        let kinds = [
            (rest.arrivals, "the arrival of a packet"),
            (rest.calls, "another thread's call"),
            (rest.alarms, "the end of a nap"),
        ];
        let delays: Vec<String> = kinds
            .iter()
            .filter(|(delays, _)| delays.count > 0)
            .map(|(delays, what)| {
                let (mean, most) = (micros(delays.mean()), micros(delays.longest));
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
        let slept = format!("{} in {}", share_of(share), plural(rest.sleeps, "sleep"));
        (rest.sleeps > 0).then(|| format!("Thread {thread} slept {slept}{awake}."))
    };
    (0..router.plan().threads).filter_map(line).collect()
}

/// A share as text, such as `42.0 % of the time`.
fn share_of(share: f64) -> String {
    format!("{:.1} % of the time", share.min(1.0) * 100.0)
}

/// Names the devices whose packets the kernel copies. Millrace does not count these copies.
fn copied_by_kernel(figures: &Figures) -> Option<String> {
    let copied = |device: &&DeviceFigures| {
        device.backend == "AF_XDP" && !device.zero_copy && device.packets > 0
    };
    let mut devices: Vec<&str> =
        figures.devices.iter().filter(copied).map(|device| device.device.as_str()).collect();
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
fn closing(router: &Router, figures: &Figures) -> Vec<String> {
    let totals = figures.totals();
    let virtual_time = match figures.virtual_time {
        Some(time) => format!(" ({:.3} s of virtual time)", time.as_secs_f64()),
        None => String::new(),
    };
    let mut lines = vec![format!(
        "In {:.3} s{virtual_time}: {} in = {} out + {} dropped + {} held.",
        figures.elapsed.as_secs_f64(),
        plural(totals.entered, "packet"),
        totals.left,
        totals.dropped,
        totals.held
    )];
    let unbalanced: Vec<String> = router
        .elements()
        .zip(&figures.elements)
        .filter(|(_, stats)| !stats.balanced())
        .map(|(element, stats)| {
            format!(
                "{} :: {}: {} in, but {} out + {} dropped + {} held",
                element.name,
                element.class.name,
                packets_in(stats),
                packets_out(stats),
                stats.dropped(),
                stats.held
            )
        })
        .collect();
    if unbalanced.is_empty() && totals.balanced() {
        lines.push("Every packet is accounted for.".to_owned());
    } else {
        lines.push("Packets are NOT accounted for:".to_owned());
        lines.extend(unbalanced.into_iter().map(|line| format!("  {line}")));
    }
    let copies: Vec<String> = figures
        .copies
        .iter()
        .filter(|&(_, n)| n > 0)
        .map(|(cause, n)| format!("{n} {}", cause.name()))
        .collect();
    lines.push(match figures.copies.total() {
        0 => "No packet's data was copied.".to_owned(),
        n => format!("Copies of packet data: {n} ({}).", copies.join(", ")),
    });
    lines.extend(copied_by_kernel(figures));
    lines
}
