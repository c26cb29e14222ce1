// IPv6 lookup, on the CPU.
FromDevice(eth0, BURST $burst) -> GetIP6Address(38)
    -> rt :: LookupIP6Route;
rt [0] -> out :: Null;
rt [1] -> out;
rt [2] -> out;
rt [3] -> out;
out -> ToDevice(eth1);
