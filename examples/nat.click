// A network address and port translator: two networks inside share one address outside.
//
//     10.0.0.0/24 -- eth0 .1 [ translator ] .1 eth2 -- 10.0.2.0/24
//     10.0.1.0/24 -- eth1 .1 [            ]
//
// TCP, UDP, pings and active FTP from inside work, and so do the ICMP errors about them. Connections
// from outside are dropped.
//
// In the lab, without privileges:   millrace run examples/nat.click --lab
// On the machine's own interfaces:  sudo millrace run examples/nat.click

AddressInfo(
    eth0 10.0.0.1/24 02:00:0a:00:00:01,
    eth1 10.0.1.1/24 02:00:0a:00:01:01,
    eth2 10.0.2.1/24 02:00:0a:00:02:01
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

// Everything else is outside.
inside :: RadixIPLookup(10.0.0.0/24 0, 10.0.1.0/24 1, 0.0.0.0/0 2);
inside [0] -> eth0 :: Port(eth0) -> inside;
inside [1] -> eth1 :: Port(eth1) -> inside;
eth2 :: Port(eth2);

rw :: IPRewriter(pattern eth2 1024-65535 - - 0 1, drop);
ping :: ICMPPingRewriter(pattern eth2 1024-65535 - - 0 1, drop);

inside [2] -> out :: IPClassifier(dst tcp port 21, tcp or udp, icmp type echo, -);
out [0] -> FTPPortMapper(rw, rw, 0) -> rw;
out [1] -> rw;
out [2] -> ping;
out [3] -> Discard;
rw [0] -> eth2;
ping [0] -> eth2;

eth2 -> back :: IPClassifier(tcp or udp, icmp type echo-reply, icmp, -);
back [0] -> [1] rw [1] -> inside;
back [1] -> [1] ping [1] -> inside;
back [2] -> ICMPRewriter(rw ping) -> inside;
back [3] -> Discard;
