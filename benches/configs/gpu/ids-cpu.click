// Patterns in payloads, on the CPU.
FromDevice(eth0, BURST $burst) -> MarkIPHeader(14)
    -> ids :: IDSMatcher(FILE $patterns)
    -> ToDevice(eth1);
