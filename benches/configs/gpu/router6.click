// IPv6 lookup, in a section.
GPURuntime(DEVICE $gpu);
FromDevice(eth0, BURST $burst) -> GetIP6Address(38)
    -> Batcher(CAPACITY $batch, $slices) -> Balancer(MODE gpu) -> HostToDeviceMemcpy
    -> rt :: GPUIP6Lookup
    -> DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher -> ToDevice(eth1);
