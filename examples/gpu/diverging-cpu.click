// The configuration of diverging.click, on the CPU.
require(library network.click);

forward :: SDNClassifier(FILE examples/gpu/flows.rules);

forward [0] -> web0 :: IDSMatcher(FILE examples/gpu/attacks.rules) -> eth0 :: Port(eth0) -> forward;
forward [1] -> web1 :: IDSMatcher(FILE examples/gpu/attacks.rules) -> eth1 :: Port(eth1) -> forward;
forward [2] -> shell :: IDSMatcher(PATTERN "/bin/sh", PATTERN "/bin/bash") -> eth2 :: Port(eth2) -> forward;

web0 [1] -> IPPrint(WEB) -> eth0;
web1 [1] -> IPPrint(WEB) -> eth1;
shell [1] -> IPPrint(SHELL) -> eth2;
