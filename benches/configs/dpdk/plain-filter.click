// The plainest way to write a filter: what the rules let through goes back by the port on which it came.

DPDKInfo(NB_MBUF $mbufs);

source :: FromDPDKDevice(0, BURST $burst, MAXTHREADS 1, NDESC $ring, ACTIVE false)
  -> MarkIPHeader(14)
  -> IPFilter(file "$rules")
  -> ToDPDKDevice(0);
