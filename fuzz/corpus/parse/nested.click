elementclass A { elementclass B { elementclass C { $v | -> D($v) -> } -> C(1) -> C(2) -> } -> B -> B -> }
s -> A -> A -> ( -> A -> ( -> A -> ) -> ) -> { -> { -> A -> } -> } -> t;
o/i :: X; o@1, @ :: Y;
