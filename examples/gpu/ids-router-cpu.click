// The router of ids-router.click, on the CPU.
require(library network.click);

forward :: SDNClassifier(FILE examples/gpu/flows.rules);
forward [0]
    -> ids :: IDSMatcher(FILE examples/gpu/attacks.rules, LOG true)
    -> route :: DirectIPLookup(10.0.0.0/24 0, 10.0.1.0/24 1, 10.0.2.0/24 2);
forward [1] -> ids;
forward [2] -> ids;
ids [1] -> alerts :: Counter -> route;

route [0] -> eth0 :: Port(eth0) -> forward;
route [1] -> eth1 :: Port(eth1) -> forward;
route [2] -> eth2 :: Port(eth2) -> forward;
