// ../full-router.click, the router of examples/ip-router.click, on ports of DPDK. Packets arrive on
// port 0; nothing is received on the others, as in l3fwd beside it, but all that a port has is there. The bench adds
// routes by gateways on the three other networks, the gateways' Ethernet addresses to the ports' ARP tables, and
// then starts the source.

DPDKInfo(NB_MBUF $mbufs);

AddressInfo(
  eth0 10.0.0.1/24 02:00:0a:00:00:01,
  eth1 10.0.1.1/24 02:00:0a:00:01:01,
  eth2 10.0.2.1/24 02:00:0a:00:02:01,
  eth3 10.0.3.1/24 02:00:0a:00:03:01
);

// Input 0: packets to send. Input 1: packets that arrived. Output: packets to route.
elementclass Port { $device, $port, $color |
  input[1]
    -> HostEtherFilter($device)
    -> arrived :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
  wire :: Queue -> ToDPDKDevice($port, BURST $burst);
  arp :: ARPQuerier($device) -> wire;

  arrived[0] -> ARPResponder($device) -> wire;
  arrived[1] -> [1] arp;
  arrived[2]
    -> Paint($color)
    -> Strip(14)
    -> CheckIPHeader(INTERFACES 10.0.0.1/24 10.0.1.1/24 10.0.2.1/24 10.0.3.1/24)
    -> GetIPAddress(16)
    -> output;
  arrived[3] -> Discard;

  input[0] -> DropBroadcasts -> returns :: CheckPaint($color);
  returns[0] -> twice :: Tee;
  twice[1] -> ICMPError($device, redirect, host) -> output;

  options :: IPGWOptions($device);
  twice[0] -> options;
  returns[1] -> options;
  options
    -> FixIPSrc($device)
    -> hop :: DecIPTTL
    -> fits :: IPFragmenter(1500)
    -> arp;

  options[1] -> ICMPError($device, parameterproblem) -> output;
  hop[1] -> ICMPError($device, timeexceeded) -> output;
  fits[1] -> ICMPError($device, unreachable, needfrag, PMTU 1500) -> output;
}

route :: DirectIPLookup(
  10.0.0.0/24 0, 10.0.0.1/32 4, 10.0.0.0/32 5, 10.0.0.255/32 5,
  10.0.1.0/24 1, 10.0.1.1/32 4, 10.0.1.0/32 5, 10.0.1.255/32 5,
  10.0.2.0/24 2, 10.0.2.1/32 4, 10.0.2.0/32 5, 10.0.2.255/32 5,
  10.0.3.0/24 3, 10.0.3.1/32 4, 10.0.3.0/32 5, 10.0.3.255/32 5,
  224.0.0.0/4 5, 255.255.255.255/32 5,
  0.0.0.0/0 6
);

route[0] -> eth0 :: Port(eth0, 0, 1) -> route;
route[1] -> eth1 :: Port(eth1, 1, 2) -> route;
route[2] -> eth2 :: Port(eth2, 2, 3) -> route;
route[3] -> eth3 :: Port(eth3, 3, 4) -> route;

source :: FromDPDKDevice(0, BURST $burst, NDESC $ring, ACTIVE false) -> [1] eth0;
Idle -> [1] eth1;
Idle -> [1] eth2;
Idle -> [1] eth3;

route[4] -> ping :: ICMPPingResponder -> route;
ping[1] -> closed :: IPClassifier(udp, -);
closed[0] -> ICMPError(eth0, unreachable, port) -> route;
closed[1] -> Discard;

route[5] -> Discard;
route[6] -> ICMPError(eth0, unreachable, net) -> route;
