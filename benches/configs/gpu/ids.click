// Patterns in payloads, in a section.
GPURuntime(DEVICE $gpu);
FromDevice(eth0, BURST $burst) -> MarkIPHeader(14)
    -> Batcher(CAPACITY $batch, $slices) -> Balancer(MODE gpu) -> HostToDeviceMemcpy
    -> ids :: GPUIDSMatcher(FILE $patterns)
    -> DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher -> ToDevice(eth1);
