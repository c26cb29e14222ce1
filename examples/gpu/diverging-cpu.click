// The configuration of diverging.click, on the CPU.
require(library network.click);

forward :: SDNClassifier(FILE examples/gpu/flows.rules);

forward [0]
    -> web0 :: IDSMatcher(FILE examples/gpu/attacks.rules, LOG true)
    -> eth0 :: Port(eth0)
    -> forward;
forward [1]
    -> web1 :: IDSMatcher(FILE examples/gpu/attacks.rules, LOG true)
    -> eth1 :: Port(eth1)
    -> forward;
forward [2]
    -> shell :: IDSMatcher(PATTERN "/bin/sh", PATTERN "/bin/bash", LOG true)
    -> eth2 :: Port(eth2)
    -> forward;

web0 [1] -> Counter -> eth0;
web1 [1] -> Counter -> eth1;
shell [1] -> Counter -> eth2;
