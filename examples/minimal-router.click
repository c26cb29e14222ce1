// A minimal IP router: two networks, ARP, one route lookup, TTL decrement.
//
//     10.0.0.0/24 -- eth0 .1 [ router ] .1 eth1 -- 10.0.1.0/24
//
// Packets that cannot be routed are dropped silently; see ip-router.click for a router that sends the
// ICMP errors of RFC 1812.
//
// In the lab, without privileges:   millrace run examples/minimal-router.click --lab
// On the machine's own interfaces:  sudo millrace run examples/minimal-router.click

AddressInfo(
    eth0 10.0.0.1/24 02:00:0a:00:00:01,
    eth1 10.0.1.1/24 02:00:0a:00:01:01
);

// Input: IP packets to send. Output: IP packets that arrived.
elementclass Port { $device |
    wire :: Queue -> ToDevice($device);
    arp :: ARPQuerier($device) -> wire;

    FromDevice($device, PROMISC true)
        -> HostEtherFilter($device)
        -> arrived :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);

    arrived [0] -> ARPResponder($device) -> wire;
    arrived [1] -> [1] arp;
    arrived [2] -> Strip(14) -> CheckIPHeader -> output;
    arrived [3] -> Discard;

    input -> DropBroadcasts -> DecIPTTL -> arp;
}

route :: RadixIPLookup(10.0.0.0/24 0, 10.0.1.0/24 1, 0.0.0.0/0 2);

route [0] -> eth0 :: Port(eth0) -> route;
route [1] -> eth1 :: Port(eth1) -> route;
route [2] -> Discard;
