// The least there is: what arrives on one device leaves by the other, unread. Its cost is that of
// the engine and of the bench's two devices, which every other configuration pays too.

FromDevice(eth0, BURST $burst) -> ToDevice(eth1);
