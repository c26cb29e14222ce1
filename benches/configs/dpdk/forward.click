// What arrives leaves, unread: what dpdk-testpmd does in its mode io.

DPDKInfo(NB_MBUF $mbufs);
source :: FromDPDKDevice(0, BURST $burst, NDESC $ring, ACTIVE false)
  -> ToDPDKDevice(0);
