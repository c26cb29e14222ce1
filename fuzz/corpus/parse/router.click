// Two interfaces, one route each.
define($IN eth0, $OUT eth1, $MAC 02:00:00:00:00:01)

AddressInfo(me 10.0.0.1 $MAC);

elementclass Arp { $ip, $mac |
    input [0] -> ARPResponder($ip $mac) -> output;
    input [1] -> Discard;
}

c :: Classifier(12/0806 20/0001,  // queries
                12/0806 20/0002,  // replies
                12/0800,
                -);
rt :: StaticIPLookup(10.0.0.1/32 0, 10.0.0.0/24 1, 0.0.0.0/0 10.0.0.2 1);
out :: Queue(200) -> ToDevice($OUT);

FromDevice($IN) -> c;
c [0], c [1] => a :: Arp(10.0.0.1, $MAC) -> out;
c [2] -> Strip(14) -> CheckIPHeader(BADSRC 18.26.4.255 2.255.255.255) -> rt;
c [3] -> Discard;
rt [0] -> Discard;
rt [1] -> DropBroadcasts -> cp :: PaintTee(2) -> gio :: IPGWOptions(18.26.4.1)
    -> FixIPSrc(18.26.4.1) -> dt :: DecIPTTL -> fr :: IPFragmenter(1500)
    -> EtherEncap(0x0800, $MAC, 02:00:00:00:00:02) -> out;
cp [1], gio [1], dt [1], fr [1] -> Discard;
