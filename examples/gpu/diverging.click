// Packets of one batch that take different branches: packets to the first two networks are searched for one set
// of patterns, packets to the third for another. Both matchers run over the whole batch; GPU threads of packets
// with the other predicate return at once.
//
//     millrace run examples/gpu/diverging.click --lab
require(library network.click);

forward :: Null
    -> Batcher(CAPACITY 1024, TIMEOUT 50us)
    -> Balancer
    -> HostToDeviceMemcpy
    -> sdn :: GPUSDNClassifier(FILE examples/gpu/flows.rules);

sdn [0]
    -> web :: GPUIDSMatcher(FILE examples/gpu/attacks.rules, LOG true)
    -> back :: DeviceToHostMemcpy;
sdn [1] -> web;
sdn [2] -> shell :: GPUIDSMatcher(PATTERN "/bin/sh", PATTERN "/bin/bash", LOG true) -> back;

back
    -> GPUCompletionQueue
    -> Debatcher
    -> seen :: Dispatcher(web.1, shell.1, -);

seen [0] -> Counter -> leave :: Dispatcher(sdn.0, sdn.1, sdn.2);
seen [1] -> Counter -> leave;
seen [2] -> leave;

leave [0] -> eth0 :: Port(eth0) -> forward;
leave [1] -> eth1 :: Port(eth1) -> forward;
leave [2] -> eth2 :: Port(eth2) -> forward;
