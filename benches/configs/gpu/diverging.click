// Classification, then one of two matchers, in a section: each launch is over all packets of the batch, and
// threads of packets with the other predicate return at once.
GPURuntime(DEVICE $gpu);
FromDevice(eth0, BURST $burst) -> MarkIPHeader(14)
    -> Batcher(CAPACITY $batch, $slices) -> Balancer(MODE gpu) -> HostToDeviceMemcpy
    -> sdn :: GPUSDNClassifier(FILE $rules);
sdn [0] -> one :: GPUIDSMatcher(FILE $patterns);
sdn [1] -> two :: GPUIDSMatcher(FILE $patterns);
sdn [2] -> one;
sdn [3] -> two;
one -> back :: DeviceToHostMemcpy;
two -> back;
back -> GPUCompletionQueue -> Debatcher -> ToDevice(eth1);
