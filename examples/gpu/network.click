// The three networks of the examples in this folder, and a port on each.
//
//     10.0.0.0/24 -- eth0 .1 [ router ] .1 eth2 -- 10.0.2.0/24
//     10.0.1.0/24 -- eth1 .1 [        ]

AddressInfo(
    eth0 10.0.0.1/24 02:00:0a:00:00:01,
    eth1 10.0.1.1/24 02:00:0a:00:01:01,
    eth2 10.0.2.1/24 02:00:0a:00:02:01
);

// Output: received frames with valid IP packets, with header marks and the destination annotation set.
// Input: frames with IP packets to send; they get new Ethernet headers.
elementclass Port { $device |
    wire :: Queue(4096) -> ToDevice($device);
    arp :: ARPQuerier($device) -> wire;

    FromDevice($device, PROMISC true)
        -> HostEtherFilter($device)
        -> arrived :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);

    arrived [0] -> ARPResponder($device) -> wire;
    arrived [1] -> [1] arp;
    arrived [2] -> CheckIPHeader(14) -> GetIPAddress(IP dst) -> output;
    arrived [3] -> Discard;

    input -> Strip(14) -> DropBroadcasts -> DecIPTTL -> arp;
}
