// plain-full.click as somebody leaves it who looks for a mistake: a Script, a Counter behind each element, Paint and Print
// here and there.

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
bad :: Discard;

route[0] -> Counter -> Paint(2)
  -> DropBroadcasts -> Counter
  -> o0 :: IPGWOptions(10.0.0.1) -> Counter
  -> FixIPSrc(10.0.0.1) -> Counter
  -> h0 :: DecIPTTL -> Counter -> Print(sent, ACTIVE false)
  -> f0 :: IPFragmenter(1500) -> Counter
  -> EtherEncap(0x0800, 02:00:0a:00:00:01, 02:00:0a:00:00:02) -> Counter -> out;
o0[1] -> bad; h0[1] -> bad; f0[1] -> bad;

route[1] -> Counter -> Paint(3)
  -> DropBroadcasts -> Counter
  -> o1 :: IPGWOptions(10.0.1.1) -> Counter
  -> FixIPSrc(10.0.1.1) -> Counter
  -> h1 :: DecIPTTL -> Counter -> Print(sent, ACTIVE false)
  -> f1 :: IPFragmenter(1500) -> Counter
  -> EtherEncap(0x0800, 02:00:0a:00:01:01, 02:00:0a:00:01:02) -> Counter -> out;
o1[1] -> bad; h1[1] -> bad; f1[1] -> bad;

route[2] -> Counter -> Paint(4)
  -> DropBroadcasts -> Counter
  -> o2 :: IPGWOptions(10.0.2.1) -> Counter
  -> FixIPSrc(10.0.2.1) -> Counter
  -> h2 :: DecIPTTL -> Counter -> Print(sent, ACTIVE false)
  -> f2 :: IPFragmenter(1500) -> Counter
  -> EtherEncap(0x0800, 02:00:0a:00:02:01, 02:00:0a:00:02:02) -> Counter -> out;
o2[1] -> bad; h2[1] -> bad; f2[1] -> bad;

route[3] -> Counter -> Paint(5)
  -> DropBroadcasts -> Counter
  -> o3 :: IPGWOptions(10.0.3.1) -> Counter
  -> FixIPSrc(10.0.3.1) -> Counter
  -> h3 :: DecIPTTL -> Counter -> Print(sent, ACTIVE false)
  -> f3 :: IPFragmenter(1500) -> Counter
  -> EtherEncap(0x0800, 02:00:0a:00:03:01, 02:00:0a:00:03:02) -> Counter -> out;
o3[1] -> bad; h3[1] -> bad; f3[1] -> bad;
