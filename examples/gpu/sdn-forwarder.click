// An SDN forwarder: rules over seven fields choose the port of each packet; a GPU looks them up, a batch at a time.
//
//     millrace run examples/gpu/sdn-forwarder.click --lab
//
// Without a GPU the host backend runs the same kernels on the CPU. sdn-forwarder-cpu.click has no GPU section.
require(library network.click);

forward :: Null
    -> Batcher(CAPACITY 1024, TIMEOUT 50us)
    -> Balancer
    -> HostToDeviceMemcpy
    -> sdn :: GPUSDNClassifier(FILE examples/gpu/flows.rules)
    -> DeviceToHostMemcpy
    -> GPUCompletionQueue
    -> Debatcher
    -> leave :: Dispatcher(sdn.0, sdn.1, sdn.2);

leave [0] -> eth0 :: Port(eth0) -> forward;
leave [1] -> eth1 :: Port(eth1) -> forward;
leave [2] -> eth2 :: Port(eth2) -> forward;
