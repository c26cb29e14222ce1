//! The networks of the address translator `examples/nat.click`, which can be torn apart and mended.

use serde_json::Value;

use crate::{Namespace, find_program};

/// Two hosts inside, 10.0.0.2 and 10.0.1.2, one outside, 10.0.2.2, and between them a namespace with eth0 to eth2.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) router: Namespace,
    pub(super) hosts: Vec<Namespace>,
}

/// Of each host, and of the router's interfaces.
pub(super) const COUNT: usize = 3;

impl Network {
    pub(super) fn new() -> Self {
        let router = Namespace::new("soak");
        let hosts = (0..COUNT).map(|n| Namespace::new(&format!("soak{n}"))).collect();
        let network = Self { router, hosts };
        (0..COUNT).for_each(|n| network.connect(n));
        network
    }

    /// Lays the cable of a host, which keeps its addresses.
    pub(super) fn connect(&self, n: usize) {
        let Some(host) = self.hosts.get(n) else { return };
        self.router.connect(&format!("eth{n}"), host, "lan");
        host.ip(&format!("link set dev lan address 02:00:0b:00:00:0{n}"));
        host.ip(&format!("address add 10.0.{n}.2/24 dev lan"));
        host.ip(&format!("route add default via 10.0.{n}.1"));
    }

    /// What a program that has ended left on the interfaces of the router.
    pub(super) fn left_behind(&self) -> Vec<String> {
        let mut left = Vec::new();
        let links = self.router.run("ip -d -j link show");
        let links: Value = serde_json::from_slice(&links.stdout).unwrap_or_default();
        for link in links.as_array().into_iter().flatten() {
            let name = link["ifname"].as_str().unwrap_or_default();
            if name == "lo" {
                continue;
            }
            if !name.strip_prefix("eth").is_some_and(|n| n.parse().is_ok_and(|n: usize| n < COUNT))
            {
                left.push(format!("interface {name}"));
            }
            if !link["xdp"].is_null() {
                left.push(format!("XDP program on {name}"));
            }
            if link["promiscuity"].as_u64() != Some(0) {
                left.push(format!("promiscuous mode of {name}: {}", link["promiscuity"]));
            }
            if find_program("tc").is_some() {
                left.extend(self.traffic_control(name));
            }
        }
        left
    }

    /// Filters and special queueing disciplines of an interface.
    fn traffic_control(&self, name: &str) -> Vec<String> {
        let mut left = Vec::new();
        let disciplines = self.router.run(&format!("tc qdisc show dev {name}"));
        let text = String::from_utf8_lossy(&disciplines.stdout).into_owned();
        for special in
            text.lines().filter(|line| ["clsact", "ingress"].iter().any(|w| line.contains(w)))
        {
            left.push(format!("traffic control on {name}: {special}"));
        }
        for side in ["ingress", "egress"] {
            let filters = self.router.run(&format!("tc filter show dev {name} {side}"));
            let text = String::from_utf8_lossy(&filters.stdout).into_owned();
            left.extend(text.lines().map(|line| format!("filter on {name}, {side}: {line}")));
        }
        left
    }
}
