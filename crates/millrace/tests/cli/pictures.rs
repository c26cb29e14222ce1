//! `millrace graph`.

use crate::millrace;

const TEXT: &str = "s :: InfiniteSource -> t :: Tee(2) -> q :: Queue -> Discard; t[1] -> \
                    {input -> Print(\"<&>\") -> output} -> Discard;";

fn draw(format: &str) -> String {
    let done = millrace(&["graph", "--format", format, "-e", TEXT]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    done.stdout
}

#[test]
fn mermaid_shows_names_ports_and_kinds() {
    assert_eq!(
        draw("mermaid"),
        "\
flowchart TB
  e0[\"s<br/>InfiniteSource\"]
  e1[\"t<br/>Tee(2)\"]
  e2[\"q<br/>Queue\"]
  e3[\"Discard\"]
  e4[\"Discard\"]
  subgraph c1 [\"@5\"]
    e5[\"Print(#34;#60;#38;#62;#34;)\"]
  end
  e0 --> e1
  e1 --> e2
  e2 -.-> e3
  e1 -->|\"[1] to [0]\"| e5
  e5 --> e4
"
    );
}

#[test]
fn dot_has_a_port_for_every_end_of_an_edge() {
    let dot = draw("dot");
    assert!(dot.starts_with("digraph router {\n"));
    for line in dot.lines().filter(|line| line.contains(" -> ")) {
        for end in line.trim().trim_end_matches(';').split(" -> ") {
            let mut parts = end.split(':');
            let (node, port) = (parts.next().unwrap(), parts.next().unwrap());
            let declared = dot.lines().find(|line| line.trim().starts_with(&format!("{node} [")));
            assert!(declared.unwrap().contains(&format!("PORT=\"{port}\"")), "{end}");
        }
    }
    assert!(dot.contains("Print(&quot;&lt;&amp;&gt;&quot;)"));
}

#[test]
fn svg_is_well_formed_and_has_every_element_and_edge() {
    let svg = draw("svg");
    let mut open: Vec<&str> = Vec::new();
    for tag in svg.split('<').skip(1).map(|rest| rest.split_once('>').unwrap().0) {
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap());
        }
    }
    assert!(open.is_empty(), "{open:?}");
    assert_eq!(svg.matches("<title>").count(), 6);
    assert_eq!(svg.matches("<path class=\"e\"").count(), 5);
    assert!(!svg.contains("NaN"));
}

#[test]
fn a_configuration_that_cannot_run_is_drawn() {
    let done = millrace(&["graph", "--format", "mermaid", "-e", "Idle -> Queue(x) -> Discard"]);
    assert_eq!(done.status, 1);
    assert!(done.stdout.contains("Queue(x)"), "{}", done.stdout);
    assert!(done.stderr.contains("While configuring"), "{}", done.stderr);
}
