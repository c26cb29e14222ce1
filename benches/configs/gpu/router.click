// IPv4 lookup, in a section.
GPURuntime(DEVICE $gpu);
FromDevice(eth0, BURST $burst) -> MarkIPHeader(14) -> GetIPAddress(IP dst)
    -> Batcher(CAPACITY $batch, $slices) -> Balancer(MODE gpu) -> HostToDeviceMemcpy
    -> rt :: GPUIPLookup
    -> DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher -> ToDevice(eth1);
