// A network address and port translator, one way: check the header, rewrite, one hop less, a new
// Ethernet header.
//
// Packets arrive on eth0, from inside, and leave by eth1. Everything is pushed.

FromDevice(eth0, BURST $burst)
  -> Strip(14)
  -> CheckIPHeader
  -> rw :: IPRewriter(pattern 10.0.1.1 1024-65535 - - 0 1, drop,
                      MAPPING_CAPACITY 4194304)
  -> DecIPTTL
  -> EtherEncap(0x0800, 02:00:0a:00:01:01, 02:00:0a:00:01:02)
  -> ToDevice(eth1);

Idle -> [1] rw [1] -> Discard;
