require(package foo, compact_config, "bar"); provide(baz)
Message("a \"quoted\" ) string", 'single ) \ ', \<48 65 /* ) */ 6c>, (nested (parens)), // comment )
  $VAR ${VAR} ${VAR-default} ${VAR[2]} $(s.run) "$VAR" '$VAR' "\$VAR" $$, "\x41\101\n");
# 42 "other file.click"
Script(print $(add 1 2), set x "$y", goto l $(not "$x"))
#line 7
Error(/* */ , , )
