// Classification by seven fields, in a section.
GPURuntime(DEVICE $gpu);
FromDevice(eth0, BURST $burst) -> MarkIPHeader(14)
    -> Batcher(CAPACITY $batch, $slices) -> Balancer(MODE gpu) -> HostToDeviceMemcpy
    -> sdn :: GPUSDNClassifier(FILE $rules)
    -> DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher -> ToDevice(eth1);
