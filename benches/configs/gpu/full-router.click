// The full router with an intrusion detection beside the lookup, both in a section.
AddressInfo(
  eth0 10.0.0.1/24 02:00:0a:00:00:01,
  eth1 10.0.1.1/24 02:00:0a:00:01:01,
  eth2 10.0.2.1/24 02:00:0a:00:02:01,
  eth3 10.0.3.1/24 02:00:0a:00:03:01
);

elementclass Port { $device, $color |
  FromDevice($device, PROMISC true, BURST $burst)
    -> HostEtherFilter($device)
    -> arrived :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
  wire :: Queue -> ToDevice($device, BURST $burst);
  arp :: ARPQuerier($device) -> wire;

  arrived[0] -> ARPResponder($device) -> wire;
  arrived[1] -> [1] arp;
  arrived[2]
    -> Paint($color)
    -> Strip(14)
    -> CheckIPHeader(INTERFACES 10.0.0.1/24 10.0.1.1/24 10.0.2.1/24 10.0.3.1/24)
    -> GetIPAddress(16)
    -> output;
  arrived[3] -> Discard;

  input -> DropBroadcasts -> returns :: CheckPaint($color);
  returns[0] -> twice :: Tee;
  twice[1] -> ICMPError($device, redirect, host) -> output;

  options :: IPGWOptions($device);
  twice[0] -> options;
  returns[1] -> options;
  options
    -> FixIPSrc($device)
    -> hop :: DecIPTTL
    -> fits :: IPFragmenter(1500)
    -> arp;

  options[1] -> ICMPError($device, parameterproblem) -> output;
  hop[1] -> ICMPError($device, timeexceeded) -> output;
  fits[1] -> ICMPError($device, unreachable, needfrag, PMTU 1500) -> output;
}

GPURuntime(DEVICE $gpu);

// Lookup and matching in one section; what is alerted goes its way like all others.
into :: Null
  -> Batcher(CAPACITY $batch, $slices) -> Balancer(MODE gpu) -> HostToDeviceMemcpy
  -> rt :: GPUIPLookup(
  10.0.0.0/24 0, 10.0.0.1/32 4, 10.0.0.0/32 5, 10.0.0.255/32 5,
  10.0.1.0/24 1, 10.0.1.1/32 4, 10.0.1.0/32 5, 10.0.1.255/32 5,
  10.0.2.0/24 2, 10.0.2.1/32 4, 10.0.2.0/32 5, 10.0.2.255/32 5,
  10.0.3.0/24 3, 10.0.3.1/32 4, 10.0.3.0/32 5, 10.0.3.255/32 5,
  224.0.0.0/4 5, 255.255.255.255/32 5,
  0.0.0.0/0 6
)
  -> ids :: GPUIDSMatcher(FILE $patterns)
  -> DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher
  -> route :: Dispatcher(rt.0, rt.1, rt.2, rt.3, rt.4, rt.5, rt.6);

route[0] -> eth0 :: Port(eth0, 1) -> into;
route[1] -> eth1 :: Port(eth1, 2) -> into;
route[2] -> eth2 :: Port(eth2, 3) -> into;
route[3] -> eth3 :: Port(eth3, 4) -> into;

route[4] -> ping :: ICMPPingResponder -> into;
ping[1] -> closed :: IPClassifier(udp, -);
closed[0] -> ICMPError(eth0, unreachable, port) -> into;
closed[1] -> Discard;

route[5] -> Discard;
route[6] -> ICMPError(eth0, unreachable, net) -> into;
