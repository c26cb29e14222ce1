//! Graphs in the formats of other programs.

use std::fmt::Write;

use super::document::Pretty;
use super::elements::{label as label_of, letter};

/// Graphviz: elements are records with their ports.
pub(super) fn dot(pretty: &Pretty<'_>, template: &str) -> String {
    let mut out = "digraph clickrouter {\n  node [shape=record,height=.1]\n  \
                   edge [arrowhead=normal,arrowtail=none,tailclip=false]\n"
        .to_owned();
    for (index, element) in pretty.router.iter() {
        let ports = |letter: char, count: usize| {
            let ports: Vec<String> = (0..count).map(|port| format!("<{letter}{port}>")).collect();
            format!("{{{}}}", ports.join("|"))
        };
        let mut label = label_of(pretty, template, index);
        if element.inputs > 0 {
            label = format!("{}|{label}", ports('i', element.inputs));
        }
        if element.outputs > 0 {
            label = format!("{label}|{}", ports('o', element.outputs));
        }
        if element.inputs + element.outputs > 0 {
            label = format!("{{{label}}}");
        }
        _ = writeln!(out, "  \"{}\" [label=\"{label}\"];", element.name);
    }
    let name = |index: usize| pretty.router.elements.get(index).map_or("", |e| &*e.name);
    for connection in pretty.router.connections() {
        let (from, to) = (connection.from, connection.to);
        _ = writeln!(out, "  \"{}\":o{} -> \"{}\":i{};", name(from.0), from.1, name(to.0), to.1);
    }
    out + "}\n"
}

/// GML.
pub(super) fn gml(pretty: &Pretty<'_>, template: &str) -> String {
    let mut out = "Creator \"click-pretty\"\ngraph\n[ hierarchic 1\n  directed 1\n".to_owned();
    for (index, _) in pretty.router.iter() {
        let label = label_of(pretty, template, index);
        _ = writeln!(out, "  node\n  [ id {index}\n    label \"{label}\"\n  ]");
    }
    // The position of a port on its side of the element.
    let anchor = |ports: usize, port: usize| {
        let ports = ports.max(1) as f64;
        (port as f64 - (ports - 1.0)) / ports
    };
    for connection in pretty.router.connections() {
        let (from, to) = (connection.from, connection.to);
        let element = |index: usize| pretty.router.elements.get(index);
        let source = anchor(element(from.0).map_or(1, |e| e.outputs), from.1);
        let target = anchor(element(to.0).map_or(1, |e| e.inputs), to.1);
        _ = writeln!(
            out,
            "  edge\n  [ source {}\n    target {}\n    edgeAnchor\n    [ xSource {source:.6}\n      \
             xTarget {target:.6}\n      ySource 1\n      yTarget -1\n    ]\n  ]",
            from.0, to.0
        );
    }
    out + "]\n"
}

/// GraphML, with the kinds of ports.
pub(super) fn graphml(pretty: &Pretty<'_>, template: &str) -> String {
    const SPACE: &str = "http://graphml.graphdrawing.org/xmlns";
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<graphml xmlns=\"{SPACE}\" \
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:schemaLocation=\"{SPACE} \
         {SPACE}/1.0/graphml.xsd\">\n\
         <key id=\"kn\" for=\"node\" attr.name=\"name\" attr.type=\"string\" />\n\
         <key id=\"kc\" for=\"node\" attr.name=\"class\" attr.type=\"string\" />\n\
         <key id=\"kp\" for=\"port\" attr.name=\"processing\" attr.type=\"string\">\n  \
         <default>a</default>\n</key>\n<graph id=\"G\" edgedefault=\"directed\">\n"
    );
    for (index, element) in pretty.router.iter() {
        let (inputs, outputs) = (element.inputs, element.outputs);
        _ = writeln!(
            out,
            "  <node id=\"n{index}\" parse.indegree=\"{inputs}\" parse.outdegree=\"{outputs}\">\n    \
             <data key=\"kn\">{}</data> <data key=\"kc\">{}</data>",
            element.name,
            label_of(pretty, template, index)
        );
        let sides = [('i', inputs, false), ('o', outputs, true)];
        for (side, count, output) in sides {
            for port in 0..count {
                let kind = letter(pretty.kind((index, port), output));
                _ = writeln!(
                    out,
                    "    <port name=\"{side}{port}\"> <data key=\"kp\">{kind}</data> </port>"
                );
            }
        }
        out.push_str("  </node>\n");
    }
    for (number, connection) in pretty.router.connections().enumerate() {
        let (from, to) = (connection.from, connection.to);
        _ = writeln!(
            out,
            "  <edge id=\"e{number}\" source=\"n{}\" target=\"n{}\" sourceport=\"o{}\" \
             targetport=\"i{}\" />",
            from.0, to.0, from.1, to.1
        );
    }
    out + "</graph>\n</graphml>\n"
}
