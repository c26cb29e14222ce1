// The IP router of the Click paper, with four ports.
//
// From figure 8 of Kohler, Morris, Chen, Jannotti and Kaashoek, "The Click modular router", ACM
// Transactions on Computer Systems 18(3), 2000. It answers ARP and pings, routes by the longest
// prefix, processes IP options, decrements the TTL, fragments, and sends the ICMP errors and
// redirects that RFC 1812 requires of a router.
//
//     10.0.0.0/24 -- eth0 .1 +--------+ .1 eth2 -- 10.0.2.0/24
//                            | router |
//     10.0.1.0/24 -- eth1 .1 +--------+ .1 eth3 -- 10.0.3.0/24
//
// In the lab, without privileges:   millrace run examples/ip-router.click --lab
// On the machine's own interfaces:  sudo millrace run examples/ip-router.click
//
// On real interfaces, remove the kernel's addresses from eth0 to eth3, or the kernel answers too.

AddressInfo(
    eth0 10.0.0.1/24 02:00:0a:00:00:01,
    eth1 10.0.1.1/24 02:00:0a:00:01:01,
    eth2 10.0.2.1/24 02:00:0a:00:02:01,
    eth3 10.0.3.1/24 02:00:0a:00:03:01
);

// One port of the router, with a colour of its own.
//
// Input: IP packets to send to this network, each with its next hop in the destination annotation.
// Output: IP packets to route: packets from this network, and ICMP errors about packets to it.
elementclass Port { $device, $color |
    // Receiving. The router has its own Ethernet addresses, not those of the interfaces: the interface
    // is in promiscuous mode, and HostEtherFilter keeps the packets for this router.
    FromDevice($device, PROMISC true)
        -> HostEtherFilter($device)
        -> arrived :: Classifier(
            12/0806 20/0001,  // ARP request
            12/0806 20/0002,  // ARP reply
            12/0800,          // IPv4
            -);
    wire :: Queue -> ToDevice($device);
    arp :: ARPQuerier($device) -> wire;

    arrived [0] -> ARPResponder($device) -> wire;
    arrived [1] -> [1] arp;
    arrived [2]
        -> Paint($color)
        -> Strip(14)
        -> CheckIPHeader(INTERFACES 10.0.0.1/24 10.0.1.1/24 10.0.2.1/24 10.0.3.1/24)
        -> GetIPAddress(16)
        -> output;
    arrived [3] -> Discard;

    // Transmitting. A packet with this port's own colour goes back to the network that it came from:
    // its sender could have reached the next hop directly, and gets a redirect.
    input -> DropBroadcasts -> returns :: CheckPaint($color);
    returns [0] -> twice :: Tee;
    twice [1] -> ICMPError($device, redirect, host) -> output;

    options :: IPGWOptions($device);
    twice [0] -> options;
    returns [1] -> options;
    options
        -> FixIPSrc($device)
        -> hop :: DecIPTTL
        -> fits :: IPFragmenter(1500)
        -> arp;

    options [1] -> ICMPError($device, parameterproblem) -> output;
    hop [1] -> ICMPError($device, timeexceeded) -> output;
    fits [1] -> ICMPError($device, unreachable, needfrag, PMTU 1500) -> output;
}

// 0 to 3: the ports. 4: the router itself. 5: broadcasts and multicasts, which are not routed.
// 6: all other destinations.
route :: RadixIPLookup(
    10.0.0.0/24 0, 10.0.0.1/32 4, 10.0.0.0/32 5, 10.0.0.255/32 5,
    10.0.1.0/24 1, 10.0.1.1/32 4, 10.0.1.0/32 5, 10.0.1.255/32 5,
    10.0.2.0/24 2, 10.0.2.1/32 4, 10.0.2.0/32 5, 10.0.2.255/32 5,
    10.0.3.0/24 3, 10.0.3.1/32 4, 10.0.3.0/32 5, 10.0.3.255/32 5,
    224.0.0.0/4 5, 255.255.255.255/32 5,
    0.0.0.0/0 6
);

route [0] -> eth0 :: Port(eth0, 1) -> route;
route [1] -> eth1 :: Port(eth1, 2) -> route;
route [2] -> eth2 :: Port(eth2, 3) -> route;
route [3] -> eth3 :: Port(eth3, 4) -> route;

// The router is a host too: it answers pings, and traceroute's UDP packets with port unreachable.
route [4] -> ping :: ICMPPingResponder -> route;
ping [1] -> closed :: IPClassifier(udp, -);
closed [0] -> ICMPError(eth0, unreachable, port) -> route;
closed [1] -> Discard;

route [5] -> Discard;
route [6] -> ICMPError(eth0, unreachable, net) -> route;
