// The bound of all others.
FromDevice(eth0, BURST $burst) -> ToDevice(eth1);
