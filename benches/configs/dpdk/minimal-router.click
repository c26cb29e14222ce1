// ../minimal-router.click on ports of DPDK: packets arrive on port 0 and leave by ports 1 to 3, where the
// routes that the bench adds lead. The bench starts the source when they are there.

DPDKInfo(NB_MBUF $mbufs);

source :: FromDPDKDevice(0, BURST $burst, NDESC $ring, ACTIVE false)
  -> arrived :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);

arrived[0] -> Discard;
arrived[1] -> Discard;
arrived[3] -> Discard;

arrived[2] -> Strip(14) -> CheckIPHeader -> route :: DirectIPLookup;

route[0] -> Discard;
route[1] -> DecIPTTL -> EtherEncap(0x0800, 02:00:0a:00:01:01, 02:00:0a:00:01:02) -> ToDPDKDevice(1);
route[2] -> DecIPTTL -> EtherEncap(0x0800, 02:00:0a:00:02:01, 02:00:0a:00:02:02) -> ToDPDKDevice(2);
route[3] -> DecIPTTL -> EtherEncap(0x0800, 02:00:0a:00:03:01, 02:00:0a:00:03:02) -> ToDPDKDevice(3);
