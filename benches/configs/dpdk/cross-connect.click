// What arrives leaves with its Ethernet addresses swapped: what dpdk-testpmd does in its mode
// macswap.

DPDKInfo(NB_MBUF $mbufs);
source :: FromDPDKDevice(0, BURST $burst, NDESC $ring, ACTIVE false)
  -> EtherMirror -> ToDPDKDevice(0);
