// The plainest way to write a router: one port, and a branch for each output of the table. The bench adds routes to
// all outputs and then starts the source.

DPDKInfo(NB_MBUF $mbufs);

source :: FromDPDKDevice(0, BURST $burst, MAXTHREADS 1, NDESC $ring, ACTIVE false)
  -> c :: Classifier(12/0800, -);
c[1] -> Discard;

c[0] -> Strip(14) -> CheckIPHeader() -> GetIPAddress(16) -> route :: DirectIPLookup;

out :: ToDPDKDevice(0);

route[0] -> DecIPTTL -> EtherEncap(0x0800, 02:00:0a:00:00:01, 02:00:0a:00:00:02) -> out;
route[1] -> DecIPTTL -> EtherEncap(0x0800, 02:00:0a:00:01:01, 02:00:0a:00:01:02) -> out;
route[2] -> DecIPTTL -> EtherEncap(0x0800, 02:00:0a:00:02:01, 02:00:0a:00:02:02) -> out;
route[3] -> DecIPTTL -> EtherEncap(0x0800, 02:00:0a:00:03:01, 02:00:0a:00:03:02) -> out;
