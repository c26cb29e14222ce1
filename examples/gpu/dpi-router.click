// A router with deep packet inspection: routes and patterns in one section, with no copy in between. Packets that
// match are reported and still forwarded.
//
//     millrace run examples/gpu/dpi-router.click --lab
require(library network.click);

forward :: Null
    -> Batcher(CAPACITY 1024, TIMEOUT 50us)
    -> Balancer
    -> HostToDeviceMemcpy
    -> route :: GPUIPLookup(10.0.0.0/24 0, 10.0.1.0/24 1, 10.0.2.0/24 2)
    -> ids :: GPUIDSMatcher(FILE examples/gpu/attacks.rules, LOG true)
    -> DeviceToHostMemcpy
    -> GPUCompletionQueue
    -> Debatcher
    -> seen :: Dispatcher(ids.1, -);

seen [0] -> alerts :: Counter -> leave :: Dispatcher(route.0, route.1, route.2);
seen [1] -> leave;

leave [0] -> eth0 :: Port(eth0) -> forward;
leave [1] -> eth1 :: Port(eth1) -> forward;
leave [2] -> eth2 :: Port(eth2) -> forward;
