// Classification by seven fields, on the CPU.
FromDevice(eth0, BURST $burst) -> MarkIPHeader(14)
    -> sdn :: SDNClassifier(FILE $rules);
sdn [0] -> out :: Null;
sdn [1] -> out;
sdn [2] -> out;
sdn [3] -> out;
out -> ToDevice(eth1);
