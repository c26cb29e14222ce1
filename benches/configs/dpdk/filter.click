// A filter: packets arrive on port 0 and leave by port 1, whatever the rules say of them, so that all are
// transmitted; some rules lead to one output, some to the other.

DPDKInfo(NB_MBUF $mbufs);

source :: FromDPDKDevice(0, BURST $burst, NDESC $ring, ACTIVE false)
  -> Strip(14)
  -> CheckIPHeader
  -> filter :: IPFilter(file "$rules", 1 all);

filter[0] -> hop :: DecIPTTL;
filter[1] -> hop;
hop
  -> EtherEncap(0x0800, 02:00:0a:00:01:01, 02:00:0a:00:01:02)
  -> ToDPDKDevice(1);
