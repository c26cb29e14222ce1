// Classification, lookup and patterns, on the CPU.
FromDevice(eth0, BURST $burst) -> MarkIPHeader(14) -> GetIPAddress(IP dst)
    -> sdn :: SDNClassifier(FILE $rules);
sdn [0] -> sorted :: Null;
sdn [1] -> sorted;
sdn [2] -> sorted;
sdn [3] -> sorted;
sorted -> rt :: DirectIPLookup;
rt [0] -> routed :: Null;
rt [1] -> routed;
rt [2] -> routed;
rt [3] -> routed;
routed -> ids :: IDSMatcher(FILE $patterns) -> ToDevice(eth1);
