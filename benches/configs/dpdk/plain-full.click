// plain-minimal.click with all that a router does to a packet behind the lookup. A packet with something wrong is
// dropped: nobody is told.

DPDKInfo(NB_MBUF $mbufs);

source :: FromDPDKDevice(0, BURST $burst, MAXTHREADS 1, NDESC $ring, ACTIVE false)
  -> c :: Classifier(12/0800, -);
c[1] -> Discard;

c[0] -> Strip(14) -> CheckIPHeader() -> GetIPAddress(16) -> route :: DirectIPLookup;

out :: ToDPDKDevice(0);
bad :: Discard;

route[0] -> DropBroadcasts -> o0 :: IPGWOptions(10.0.0.1) -> FixIPSrc(10.0.0.1) -> h0 :: DecIPTTL
  -> f0 :: IPFragmenter(1500) -> EtherEncap(0x0800, 02:00:0a:00:00:01, 02:00:0a:00:00:02) -> out;
o0[1] -> bad; h0[1] -> bad; f0[1] -> bad;

route[1] -> DropBroadcasts -> o1 :: IPGWOptions(10.0.1.1) -> FixIPSrc(10.0.1.1) -> h1 :: DecIPTTL
  -> f1 :: IPFragmenter(1500) -> EtherEncap(0x0800, 02:00:0a:00:01:01, 02:00:0a:00:01:02) -> out;
o1[1] -> bad; h1[1] -> bad; f1[1] -> bad;

route[2] -> DropBroadcasts -> o2 :: IPGWOptions(10.0.2.1) -> FixIPSrc(10.0.2.1) -> h2 :: DecIPTTL
  -> f2 :: IPFragmenter(1500) -> EtherEncap(0x0800, 02:00:0a:00:02:01, 02:00:0a:00:02:02) -> out;
o2[1] -> bad; h2[1] -> bad; f2[1] -> bad;

route[3] -> DropBroadcasts -> o3 :: IPGWOptions(10.0.3.1) -> FixIPSrc(10.0.3.1) -> h3 :: DecIPTTL
  -> f3 :: IPFragmenter(1500) -> EtherEncap(0x0800, 02:00:0a:00:03:01, 02:00:0a:00:03:02) -> out;
o3[1] -> bad; h3[1] -> bad; f3[1] -> bad;
