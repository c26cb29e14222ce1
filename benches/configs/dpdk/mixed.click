// A third each: frames that go back whence they came, IPv4 and IPv6 packets that are routed, each by the
// least that it takes. The bench fills both tables and then starts the source.

DPDKInfo(NB_MBUF $mbufs);

source :: FromDPDKDevice(0, BURST $burst, NDESC $ring, ACTIVE false)
  -> arrived :: Classifier(12/0800, 12/86dd, -);

arrived[0] -> Strip(14) -> CheckIPHeader -> route :: DirectIPLookup;
arrived[1] -> Strip(14) -> CheckIP6Header -> GetIP6Address(24) -> route6 :: LookupIP6Route;
arrived[2] -> EtherMirror -> ToDPDKDevice(0);

// Inputs 0 and 1: IPv4 and IPv6 packets to send.
elementclass Port { $port, $own, $next |
  out :: ToDPDKDevice($port);
  input[0] -> DecIPTTL -> EtherEncap(0x0800, $own, $next) -> out;
  input[1] -> DecIP6HLIM -> EtherEncap(0x86dd, $own, $next) -> out;
}

route[0] -> Discard;
route[1] -> one :: Port(1, 02:00:0a:00:01:01, 02:00:0a:00:01:02);
route[2] -> two :: Port(2, 02:00:0a:00:02:01, 02:00:0a:00:02:02);
route[3] -> three :: Port(3, 02:00:0a:00:03:01, 02:00:0a:00:03:02);

route6[0] -> Discard;
route6[1] -> [1] one;
route6[2] -> [1] two;
route6[3] -> [1] three;
