//! `/metrics`: the model for Prometheus, as OpenMetrics or in Prometheus' older text format.
//!
//! The number of series is bounded: elements from [`ELEMENTS`] on, and devices from [`DEVICES`] on, count together under the
//! name [`OTHERS`]. Which ones are shown depends on the configuration alone, so a series does not come and go.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, NoLabelSet, prometheus_text, text as open_text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::limits;
use crate::model::Snapshot;
use crate::model::snapshot::{Device, Element};

/// The most elements that have series of their own.
const ELEMENTS: usize = 2000;

/// The most devices, a direction each.
const DEVICES: usize = 256;

/// The name for the rest, also of elements whose own is very long.
const OTHERS: &str = "(others)";

/// The content types of the two formats.
const OPEN: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The metrics in the format that the client accepts, and its content type.
pub(super) fn text(snapshot: Snapshot, accepted: &str) -> Option<(&'static str, String)> {
    let mut registry = Registry::with_prefix("millrace");
    registry.register_collector(Box::new(Metrics(snapshot)));
    let mut text = String::new();
    let opens = accepted.contains("application/openmetrics-text");
    match opens {
        true => open_text::encode(&mut text, &registry).ok()?,
        false => prometheus_text::encode(&mut text, &registry).ok()?,
    }
    Some((if opens { OPEN } else { PLAIN }, text))
}

#[derive(Debug)]
struct Metrics(Snapshot);

impl Collector for Metrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = Out(encoder);
        router(&self.0, &mut out)?;
        threads(&self.0, &mut out)?;
        elements(&self.0, &mut out)?;
        devices(&self.0, &mut out)
    }
}

type Label<'a> = (&'static str, &'a str);

fn router(snapshot: &Snapshot, out: &mut Out<'_>) -> fmt::Result {
    let totals = &snapshot.totals;
    let version = snapshot.program.rsplit(' ').next().unwrap_or_default();
    out.gauges("build_info", "The version of the program", [([("version", version)], 1.0)])?;
    out.gauge("uptime_seconds", "Seconds since the start of the run", snapshot.seconds)?;
    let running = if snapshot.phase == "running" { 1.0 } else { 0.0 };
    out.gauge("running", "Whether packets are forwarded", running)?;
    let generation = snapshot.generation as f64;
    out.gauge("generation", "How many configurations ran before this one", generation)?;
    let packets = [([("direction", "in")], totals.entered), ([("direction", "out")], totals.left)];
    out.counters("packets", "Packets that entered and left the router", packets)?;
    out.counter("dropped_packets", "Packets that elements dropped", totals.dropped)?;
    out.gauge("held_packets", "Packets in the router", totals.held as f64)?;
    let copies = snapshot.copies.iter().map(|(cause, n)| ([("cause", cause)], n));
    out.counters("copied_packets", "Packets whose data was copied", copies)
}

fn threads(snapshot: &Snapshot, out: &mut Out<'_>) -> fmt::Result {
    let names: Vec<String> =
        snapshot.workers.iter().map(|worker| worker.thread.to_string()).collect();
    let all = || snapshot.workers.iter().zip(&names);
    let cycles = all().flat_map(|(worker, thread)| {
        let kinds = [
            ("busy", worker.busy_cycles),
            ("polling", worker.polling_cycles),
            ("idle", worker.idle_cycles),
        ];
        kinds.map(|(state, cycles)| ([("thread", thread.as_str()), ("state", state)], cycles))
    });
    let help =
        "Cycles of a thread: with packets, of looking for packets in vain, outside of elements";
    out.counters("thread_cycles", help, cycles)?;
    let sleeps = all().map(|(worker, thread)| ([("thread", thread.as_str())], worker.sleeps));
    out.counters("thread_sleeps", "How often a thread slept", sleeps)?;
    let slept = all().map(|(worker, thread)| ([("thread", thread.as_str())], worker.slept_seconds));
    out.counters("thread_sleep_seconds", "How long a thread slept", slept)
}

fn elements(snapshot: &Snapshot, out: &mut Out<'_>) -> fmt::Result {
    let (shown, others) = shown(&snapshot.elements);
    let all = || shown.iter().copied().chain(&others);
    let packets = all().flat_map(|element| {
        let [name, class] = named(element);
        [
            ([name, class, ("direction", "in")], element.entered),
            ([name, class, ("direction", "out")], element.left),
        ]
    });
    let help = "Packets that came to an element or were made by it, and that left it";
    out.counters("element_packets", help, packets)?;
    let bytes = all().filter_map(|element| Some((named(element), element.bytes?)));
    out.counters("element_bytes", "Bytes, of elements that count them", bytes)?;
    let batches = all().map(|element| (named(element), element.batches));
    out.counters("element_batches", "Batches in which packets came to an element", batches)?;
    let cycles = all().flat_map(|element| {
        let [name, class] = named(element);
        [
            ([name, class, ("state", "busy")], element.cycles),
            ([name, class, ("state", "polling")], element.polling_cycles),
        ]
    });
    let help = "Cycles in an element: with packets, of looking for packets in vain; sampled";
    out.counters("element_cycles", help, cycles)?;
    let drops = all().flat_map(|element| {
        let [name, class] = named(element);
        element.drops.iter().map(move |(reason, n)| ([name, class, ("reason", reason)], n))
    });
    out.counters("element_dropped_packets", "Packets that an element dropped", drops)?;
    let held = all().map(|element| (named(element), element.held as f64));
    out.gauges("element_held_packets", "Packets in an element", held)?;
    let queues = || all().filter_map(|element| Some((named(element), element.queue?)));
    let length = queues().map(|(labels, queue)| (labels, queue.length as f64));
    out.gauges("queue_length_packets", "Packets in a queue", length)?;
    let capacity = queues().map(|(labels, queue)| (labels, queue.capacity as f64));
    out.gauges("queue_capacity_packets", "The most packets of a queue", capacity)
}

fn named(element: &Element) -> [Label<'_>; 2] {
    [("element", &element.name), ("class", &element.class)]
}

/// The elements with series of their own, and the sum of the others if there are any. Elements that handle no packets
/// count nothing.
fn shown(elements: &[Element]) -> (Vec<&Element>, Option<Element>) {
    let mut shown = Vec::new();
    let mut sum: Option<Element> = None;
    for element in elements.iter().filter(|element| !element.information) {
        if shown.len() < ELEMENTS && element.name.len() <= limits::LABEL {
            shown.push(element);
            continue;
        }
        let sum = sum.get_or_insert_with(|| Element {
            name: OTHERS.to_owned(),
            class: OTHERS.to_owned(),
            ..Element::default()
        });
        sum.entered += element.entered;
        sum.left += element.left;
        sum.batches += element.batches;
        sum.cycles += element.cycles;
        sum.polling_cycles += element.polling_cycles;
        sum.held += element.held;
        sum.drops.add(&element.drops);
    }
    (shown, sum)
}

fn devices(snapshot: &Snapshot, out: &mut Out<'_>) -> fmt::Result {
    // A device may be opened more than once.
    let mut devices: BTreeMap<(&str, &str), Device> = BTreeMap::new();
    for device in &snapshot.devices {
        let full = devices.len() >= DEVICES || device.device.len() > limits::LABEL;
        let key = (device.device.as_str(), device.direction.as_str());
        let key = if full && !devices.contains_key(&key) { (OTHERS, key.1) } else { key };
        let sum = devices.entry(key).or_default();
        sum.packets += device.packets;
        sum.bytes += device.bytes;
        sum.batches += device.batches;
        sum.lost += device.lost;
        sum.segmented += device.segmented;
    }
    type Count = fn(&Device) -> u64;
    let families: [(&str, &str, Count); 5] = [
        ("device_packets", "Packets that a device received or sent", |device| device.packets),
        ("device_bytes", "Their bytes, with Ethernet headers", |device| device.bytes),
        ("device_batches", "Batches in which they came or went", |device| device.batches),
        ("device_lost_packets", "Packets that a device lost", |device| device.lost),
        ("device_segmented_packets", "Packets cut into segments", |device| device.segmented),
    ];
    for (name, help, count) in families {
        let samples = devices.iter().map(|(&(device, direction), sums)| {
            ([("device", device), ("direction", direction)], count(sums))
        });
        out.counters(name, help, samples)?;
    }
    Ok(())
}

/// Where families of metrics go.
struct Out<'a>(DescriptorEncoder<'a>);

impl Out<'_> {
    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        family.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        family.encode_gauge(&value)
    }

    fn counters<L: EncodeLabelSet, V: prometheus_client::encoding::EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in samples {
            family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        Ok(())
    }

    fn gauges<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, f64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in samples {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Counts;
    use crate::model::snapshot::{QueueFill, Worker};

    fn snapshot(elements: usize) -> Snapshot {
        let element = |id| Element {
            id,
            name: format!("e{id}"),
            class: "Queue".to_owned(),
            entered: 3,
            left: 2,
            queue: Some(QueueFill { length: 1, capacity: 10 }),
            drops: Counts::from_iter([("queue full".to_owned(), 7)]),
            ..Element::default()
        };
        Snapshot {
            program: "millrace 1.2.3".to_owned(),
            elements: (0..elements).map(element).collect(),
            workers: vec![Worker { slept_seconds: 1.5, ..Worker::default() }],
            ..Snapshot::default()
        }
    }

    fn open(snapshot: Snapshot) -> String {
        let (kind, text) =
            text(snapshot, "application/openmetrics-text;version=1.0.0,*/*").unwrap();
        assert_eq!(kind, OPEN);
        assert!(text.ends_with("# EOF\n"));
        text
    }

    #[test]
    fn what_is_counted_has_its_labels() {
        let lines = open(snapshot(1));
        let has = |line: &str| assert!(lines.lines().any(|own| own == line), "{line} in {lines}");
        has("# TYPE millrace_element_packets counter");
        has("millrace_build_info{version=\"1.2.3\"} 1.0");
        has("millrace_element_packets_total{element=\"e0\",class=\"Queue\",direction=\"in\"} 3");
        let drops = "millrace_element_dropped_packets_total";
        has(&format!("{drops}{{element=\"e0\",class=\"Queue\",reason=\"queue full\"}} 7"));
        has("millrace_queue_capacity_packets{element=\"e0\",class=\"Queue\"} 10.0");
        has("millrace_thread_cycles_total{thread=\"0\",state=\"polling\"} 0");
        has("millrace_thread_sleep_seconds_total{thread=\"0\"} 1.5");
    }

    #[test]
    fn the_older_format_has_the_same_samples() {
        let (kind, plain) = text(snapshot(3), "*/*").unwrap();
        assert_eq!(kind, PLAIN);
        let samples = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
            lines.map(str::to_owned).collect()
        };
        assert_eq!(samples(&plain), samples(&open(snapshot(3))));
    }

    #[test]
    fn the_number_of_series_is_bounded() {
        let series = |text: String| text.lines().filter(|line| !line.starts_with('#')).count();
        let most = series(open(snapshot(ELEMENTS + 1)));
        let text = open(snapshot(10 * ELEMENTS));
        let rest = 9 * ELEMENTS as u64 * 3;
        let others = "millrace_element_packets_total{element=\"(others)\",class=\"(others)\"";
        assert!(text.contains(&format!("{others},direction=\"in\"}} {rest}\n")));
        assert_eq!(series(text), most);
        // A name of any length takes its place among them.
        let mut long = snapshot(2);
        long.elements[0].name = "x".repeat(1 << 20);
        long.elements[0].name.push('"');
        let text = open(long);
        assert!(text.len() < 20_000 && text.contains("element=\"(others)\""));
    }

    #[test]
    fn names_are_quoted() {
        let mut odd = snapshot(1);
        odd.elements[0].name = "a\"b\\c\nd".to_owned();
        assert!(open(odd).contains("element=\"a\\\"b\\\\c\\nd\",class"));
    }

    #[test]
    fn a_device_that_is_opened_twice_counts_once() {
        let device = |name: &str, packets| Device {
            device: name.to_owned(),
            direction: "in".to_owned(),
            packets,
            ..Device::default()
        };
        let mut two = snapshot(0);
        two.devices = vec![device("eth0", 1), device("eth0", 2)];
        let line = "millrace_device_packets_total{device=\"eth0\",direction=\"in\"} 3\n";
        assert!(open(two).contains(line));
        let mut many = snapshot(0);
        many.devices = (0..1000).map(|n| device(&format!("eth{n}"), 1)).collect();
        let text = open(many);
        let lines = text.lines().filter(|line| line.starts_with("millrace_device_packets_total"));
        assert_eq!(lines.count(), DEVICES + 1);
        assert!(text.contains("{device=\"(others)\",direction=\"in\"} 744\n"));
    }
}
