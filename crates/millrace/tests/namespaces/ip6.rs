//! IPv6 between hosts that know each other's Ethernet addresses.

use millrace_testkit::{Namespace, privileged};

use crate::program::Millrace;
use crate::{METHODS, answered, stdout};

/// Hosts `::2` on 2001:db8::/64 and 2001:db8:1::/64, and the namespace of the router between them, in which
/// the kernel has no addresses.
fn two_networks() -> ([Namespace; 2], Namespace) {
    let router = Namespace::new("router6");
    let hosts = [0, 1].map(|n| {
        let host = Namespace::new(&format!("host6{n}"));
        router.connect(&format!("eth{n}"), &host, "lan");
        let network = ["2001:db8:", "2001:db8:1:"][n];
        let enabled = host.run("sysctl -q -w net.ipv6.conf.lan.disable_ipv6=0");
        assert!(enabled.status.success(), "{enabled:?}");
        host.ip(&format!("link set dev lan address 02:00:0a:00:0{n}:02"));
        host.ip(&format!("-6 address add {network}:2/64 dev lan nodad"));
        host.ip(&format!("-6 neighbour add {network}:1 lladdr 02:00:0a:00:0{n}:01 dev lan"));
        host.ip(&format!("-6 route add default via {network}:1"));
        host
    });
    (hosts, router)
}

#[test]
fn hosts_reach_each_other_over_ipv6() {
    let Some(_alone) = privileged!("ip", "sysctl", "ping") else { return };
    for method in METHODS {
        let ([left, right], between) = two_networks();
        let router = Millrace::start(between, &["--method", method, "ip6-router.click"]);
        for (from, to) in [(&left, "2001:db8:1::2"), (&right, "2001:db8::2")] {
            for arguments in ["-s 56", "-s 1452", "-s 4000", "-t 2"] {
                let command = format!("ping -6 -n -c 5 -i 0.02 -W 5 {arguments} {to}");
                let output = from.run(&command);
                assert!(answered(&output, 5), "{method}: {command}: {output:?}");
            }
        }
        // The router's own hop is the last one that these have.
        let expired = left.run("ping -6 -n -c 3 -i 0.02 -W 1 -t 1 2001:db8:1::2");
        assert!(stdout(&expired).contains(" 0 received"), "{expired:?}");
        let summary = router.stop();
        assert_eq!(summary.received("eth1/hop") - summary.sent("eth1/hop"), 3, "{method}");
    }
}
