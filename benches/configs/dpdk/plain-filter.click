// The plainest way to write a filter: what the rules say nothing of goes back by the port on which it came, and so does
// what they let pass; the rest goes by the other, so that all is transmitted.

DPDKInfo(NB_MBUF $mbufs);

source :: FromDPDKDevice(0, BURST $burst, MAXTHREADS 1, NDESC $ring, ACTIVE false)
  -> CheckIPHeader(14)
  -> filter :: IPFilter(file "$rules");

filter[0] -> ToDPDKDevice(0);
filter[1] -> ToDPDKDevice(1);
