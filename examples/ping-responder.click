// A host in a dozen lines: it answers pings, and ARP requests for its address.
//
// In the lab, without privileges:   millrace run examples/ping-responder.click --lab
// On one of the machine's interfaces, which should have no kernel address:
//     sudo millrace run examples/ping-responder.click DEV=eth1

define($DEV eth0);

AddressInfo(me 10.0.0.1/24 02:00:0a:00:00:01);

wire :: Queue -> ToDevice($DEV);

FromDevice($DEV, PROMISC true)
    -> HostEtherFilter(me)
    -> arrived :: Classifier(12/0806 20/0001, 12/0800, -); // ARP request, IPv4, the rest

arrived [0] -> ARPResponder(me) -> wire;
arrived [1]
    -> CheckIPHeader(14)
    -> IPFilter(allow dst host me, deny all)
    -> ICMPPingResponder
    -> EtherMirror
    -> wire;
arrived [2] -> Discard;
