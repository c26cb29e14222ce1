// The SDN forwarder of sdn-forwarder.click, on the CPU.
require(library network.click);

forward :: SDNClassifier(FILE examples/gpu/flows.rules);

forward [0] -> eth0 :: Port(eth0) -> forward;
forward [1] -> eth1 :: Port(eth1) -> forward;
forward [2] -> eth2 :: Port(eth2) -> forward;
