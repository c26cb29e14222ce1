// plain-minimal.click as somebody leaves it who looks for a mistake: a Script, a Counter behind each element, Paint and
// Print here and there.

DPDKInfo(NB_MBUF $mbufs);

Script(TYPE PASSIVE, return $(seen.count));

source :: FromDPDKDevice(0, BURST $burst, MAXTHREADS 1, NDESC $ring, ACTIVE false)
  -> seen :: Counter
  -> c :: Classifier(12/0800, -);
c[1] -> Discard;

c[0] -> Counter -> Paint(1)
  -> Strip(14) -> Counter -> Print(arrived, ACTIVE false)
  -> CheckIPHeader() -> Counter
  -> GetIPAddress(16) -> Counter
  -> route :: DirectIPLookup;

out :: ToDPDKDevice(0);

route[0] -> Counter -> Paint(2) -> DecIPTTL -> Counter -> Print(sent, ACTIVE false)
  -> EtherEncap(0x0800, 02:00:0a:00:00:01, 02:00:0a:00:00:02) -> Counter -> out;
route[1] -> Counter -> Paint(3) -> DecIPTTL -> Counter -> Print(sent, ACTIVE false)
  -> EtherEncap(0x0800, 02:00:0a:00:01:01, 02:00:0a:00:01:02) -> Counter -> out;
route[2] -> Counter -> Paint(4) -> DecIPTTL -> Counter -> Print(sent, ACTIVE false)
  -> EtherEncap(0x0800, 02:00:0a:00:02:01, 02:00:0a:00:02:02) -> Counter -> out;
route[3] -> Counter -> Paint(5) -> DecIPTTL -> Counter -> Print(sent, ACTIVE false)
  -> EtherEncap(0x0800, 02:00:0a:00:03:01, 02:00:0a:00:03:02) -> Counter -> out;
