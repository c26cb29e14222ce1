// Classification, then one matcher for all packets: what diverging is compared with.
GPURuntime(DEVICE $gpu);
FromDevice(eth0, BURST $burst) -> MarkIPHeader(14)
    -> Batcher(CAPACITY $batch, $slices) -> Balancer(MODE gpu) -> HostToDeviceMemcpy
    -> sdn :: GPUSDNClassifier(FILE $rules)
    -> one :: GPUIDSMatcher(FILE $patterns)
    -> DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher -> ToDevice(eth1);
