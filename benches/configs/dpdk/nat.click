// ../nat.click on ports of DPDK: a network address and port translator, one way. Packets arrive on port 0,
// from inside, and leave by port 1 with ports in the order in which their flows began.

DPDKInfo(NB_MBUF $mbufs);

source :: FromDPDKDevice(0, BURST $burst, NDESC $ring, ACTIVE false)
  -> Strip(14)
  -> CheckIPHeader
  -> rw :: IPRewriter(pattern 10.0.1.1 1024-65535# - - 0 1, drop,
                      MAPPING_CAPACITY 4194304)
  -> DecIPTTL
  -> EtherEncap(0x0800, 02:00:0a:00:01:01, 02:00:0a:00:01:02)
  -> ToDPDKDevice(1);

Idle -> [1] rw [1] -> Discard;
