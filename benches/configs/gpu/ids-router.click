// Classification, lookup and patterns, in a section.
GPURuntime(DEVICE $gpu);
FromDevice(eth0, BURST $burst) -> MarkIPHeader(14) -> GetIPAddress(IP dst)
    -> Batcher(CAPACITY $batch, $slices) -> Balancer(MODE gpu) -> HostToDeviceMemcpy
    -> sdn :: GPUSDNClassifier(FILE $rules)
    -> rt :: GPUIPLookup
    -> ids :: GPUIDSMatcher(FILE $patterns)
    -> DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher -> ToDevice(eth1);
