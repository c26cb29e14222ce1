// The least that routes: check the header, look the route up, one hop less, a new Ethernet header.
//
// Packets arrive on eth0 and leave by eth1 to eth3. The bench fills the table: its routes lead to
// outputs 1 to 3. Everything is pushed.

FromDevice(eth0, BURST $burst)
  -> arrived :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);

arrived[0] -> Discard;
arrived[1] -> Discard;
arrived[3] -> Discard;

arrived[2] -> Strip(14) -> CheckIPHeader -> route :: DirectIPLookup;

route[0] -> Discard;
route[1] -> DecIPTTL -> EtherEncap(0x0800, 02:00:0a:00:01:01, 02:00:0a:00:01:02) -> ToDevice(eth1);
route[2] -> DecIPTTL -> EtherEncap(0x0800, 02:00:0a:00:02:01, 02:00:0a:00:02:02) -> ToDevice(eth2);
route[3] -> DecIPTTL -> EtherEncap(0x0800, 02:00:0a:00:03:01, 02:00:0a:00:03:02) -> ToDevice(eth3);
