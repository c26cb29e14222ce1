// A cross-connect, an IPv4 router and an IPv6 router behind one interface: mixed traffic.
//
// Packets arrive on eth0 and leave by eth1 to eth3. The bench fills the tables: their routes lead to
// outputs 1 to 3. Frames of the type for local experiments (88b5, IEEE 802) go out by eth1 with other
// addresses and are not looked into. Everything is pushed.

FromDevice(eth0, BURST $burst)
  -> arrived :: Classifier(12/0800, 12/86dd, 12/88b5, -);

arrived[0] -> Strip(14) -> CheckIPHeader -> route :: DirectIPLookup;
arrived[1] -> Strip(14) -> CheckIP6Header(::) -> GetIP6Address(24) -> route6 :: LookupIP6Route;
arrived[2] -> EtherRewrite(02:00:0a:00:01:01, 02:00:0a:00:01:02) -> out1 :: ToDevice(eth1);
arrived[3] -> Discard;

route[0] -> Discard;
route[1] -> DecIPTTL -> EtherEncap(0x0800, 02:00:0a:00:01:01, 02:00:0a:00:01:02) -> out1;
route[2] -> DecIPTTL -> EtherEncap(0x0800, 02:00:0a:00:02:01, 02:00:0a:00:02:02) -> out2 :: ToDevice(eth2);
route[3] -> DecIPTTL -> EtherEncap(0x0800, 02:00:0a:00:03:01, 02:00:0a:00:03:02) -> out3 :: ToDevice(eth3);

route6[0] -> Discard;
route6[1] -> DecIP6HLIM -> EtherEncap(0x86dd, 02:00:0a:00:01:01, 02:00:0a:00:01:02) -> out1;
route6[2] -> DecIP6HLIM -> EtherEncap(0x86dd, 02:00:0a:00:02:01, 02:00:0a:00:02:02) -> out2;
route6[3] -> DecIP6HLIM -> EtherEncap(0x86dd, 02:00:0a:00:03:01, 02:00:0a:00:03:02) -> out3;
