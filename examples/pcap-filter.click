// Copies from one capture file to another the packets that a filter lets through, with their
// timestamps. The filter is written as for tcpdump.
//
//     millrace run examples/pcap-filter.click IN=all.pcap OUT=web.pcap FILTER="tcp port 80"
//
// Broken IP headers and other protocols than IPv4 are left out; `read passed.count` and
// `read refused.count` tell how many went where.

define($IN in.pcap, $OUT out.pcap, $FILTER "icmp or udp port 53");

FromDump($IN, STOP true)
    -> ipv4 :: Classifier(12/0800, -)
    -> CheckIPHeader(14)
    -> filter :: IPClassifier($FILTER, -)
    -> passed :: Counter
    -> ToDump($OUT, SNAPLEN 0);

filter [1] -> refused :: Counter -> Discard;
ipv4 [1] -> Discard;
