// Classification, then one of two matchers, on the CPU.
FromDevice(eth0, BURST $burst) -> MarkIPHeader(14)
    -> sdn :: SDNClassifier(FILE $rules);
sdn [0] -> one :: Null;
sdn [1] -> two :: Null;
sdn [2] -> one;
sdn [3] -> two;
one -> IDSMatcher(FILE $patterns) -> out :: Null;
two -> IDSMatcher(FILE $patterns) -> out;
out -> ToDevice(eth1);
