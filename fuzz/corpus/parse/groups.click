x, y, z :: Counter;
x -> c :: Classifier(00/01, 00/02, -) => (
        input [0] -> output;
        input [1] -> Paint(1) -> output;
        [2] -> Discard
    ) -> y;
c2 :: Classifier(00/01, -) => [1] z [1], (-> w :: Idle => (->), Paint(1) ->) -> y;
x [1] => ( [0]->[0]; [1]->[1] ) -> Discard;
a, b [1], c [0-2] => [] d -> e;
