// IPv4 lookup, on the CPU.
FromDevice(eth0, BURST $burst) -> MarkIPHeader(14) -> GetIPAddress(IP dst)
    -> rt :: DirectIPLookup;
rt [0] -> out :: Null;
rt [1] -> out;
rt [2] -> out;
rt [3] -> out;
out -> ToDevice(eth1);
