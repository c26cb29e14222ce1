// Sends UDP packets at a constant rate through a gateway, and resolves its Ethernet address with ARP.
//
// In the lab, without privileges:
//     millrace run examples/traffic-generator.click --lab
// On one of the machine's own interfaces:
//     sudo millrace run examples/traffic-generator.click DEV=eth1 RATE=100000 GATEWAY=10.0.0.1
//
// The frames are 60 bytes long, 64 with the checksum that the hardware adds: the minimum length.

define($DEV eth0, $RATE 1000, $LIMIT 5000, $GATEWAY 10.0.0.1);

AddressInfo(me 10.0.0.2/24 02:00:0a:00:00:02);

wire :: Queue -> ToDevice($DEV);
arp :: ARPQuerier(me) -> wire;

RatedSource(LENGTH 18, RATE $RATE, LIMIT $LIMIT)
    -> UDPIPEncap(me, 5000, 10.0.1.2, 5001)
    -> SetIPAddress($GATEWAY)
    -> sent :: Counter
    -> arp;

FromDevice($DEV, PROMISC true)
    -> HostEtherFilter(me)
    -> arrived :: Classifier(12/0806 20/0001, 12/0806 20/0002, -);

arrived [0] -> ARPResponder(me) -> wire;
arrived [1] -> [1] arp;
arrived [2] -> Discard;
