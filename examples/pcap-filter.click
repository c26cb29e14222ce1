// Copies the packets that match a filter from one capture file to another, with their timestamps. The
// filter uses tcpdump's syntax.
//
//     millrace run examples/pcap-filter.click IN=all.pcap OUT=web.pcap FILTER="tcp port 80"
//
// Packets with invalid IP headers and protocols other than IPv4 are dropped; `read passed.count` and
// `read refused.count` return the numbers of matching and other packets.

define($IN in.pcap, $OUT out.pcap, $FILTER "icmp or udp port 53");

FromDump($IN, STOP true)
    -> ipv4 :: Classifier(12/0800, -)
    -> CheckIPHeader(14)
    -> filter :: IPClassifier($FILTER, -)
    -> passed :: Counter
    -> ToDump($OUT, SNAPLEN 0);

filter [1] -> refused :: Counter -> Discard;
ipv4 [1] -> Discard;
