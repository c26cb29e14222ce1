// Lookup and patterns, on the CPU.
FromDevice(eth0, BURST $burst) -> MarkIPHeader(14) -> GetIPAddress(IP dst)
    -> rt :: DirectIPLookup;
rt [0] -> routed :: Null;
rt [1] -> routed;
rt [2] -> routed;
rt [3] -> routed;
routed -> ids :: IDSMatcher(FILE $patterns) -> ToDevice(eth1);
