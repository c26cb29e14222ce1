// IPv6 between two networks, with a host on each whose Ethernet address is known.
//
//     2001:db8::/64 -- eth0 ::1 [ router ] ::1 eth1 -- 2001:db8:1::/64
//
// There is no neighbour discovery: give the hosts' Ethernet addresses as HOST0 and HOST1, and set the
// router's on the hosts (ip -6 neighbour add 2001:db8::1 lladdr 02:00:0a:00:00:01 dev ...).
//
// In the lab, without privileges:   millrace run examples/ip6-router.click --lab
// On the machine's own interfaces:  sudo millrace run examples/ip6-router.click

define(
    $HOST0 02:00:0a:00:00:02,
    $HOST1 02:00:0a:00:01:02
);

AddressInfo(
    eth0 2001:db8::1/64 02:00:0a:00:00:01,
    eth1 2001:db8:1::1/64 02:00:0a:00:01:01
);

// Input: IPv6 packets to send. Output: IPv6 packets that arrived and may be forwarded.
elementclass Port { $device, $host |
    // Packets from a link-local address stay on their link (RFC 4291, 2.5.6).
    FromDevice($device, PROMISC true)
        -> HostEtherFilter($device)
        -> arrived :: Classifier(12/86dd 22/fe80%ffc0, 12/86dd, -);

    arrived [0] -> Discard;
    arrived [1] -> Strip(14) -> CheckIP6Header(:: ::1) -> GetIP6Address(24) -> output;
    arrived [2] -> Discard;

    input
        -> hop :: DecIP6HLIM
        -> EtherEncap(0x86dd, $device, $host)
        -> Queue
        -> ToDevice($device);
}

route :: LookupIP6Route(
    2001:db8::/64 0,
    2001:db8:1::/64 1,
    2001:db8::1 2,
    2001:db8:1::1 2,
    fe80::/10 2,
    ff00::/8 2
);

route [0] -> eth0 :: Port(eth0, $HOST0) -> route;
route [1] -> eth1 :: Port(eth1, $HOST1) -> route;
route [2] -> Discard;
