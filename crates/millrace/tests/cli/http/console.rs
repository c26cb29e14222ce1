//! The web console, in a real browser if one is installed.

use std::path::PathBuf;

use serde_json::Value;

use super::browser::Browser;
use super::client::{Running, TOKEN};

/// If this variable names a folder, the test writes pictures of the console there, as the book has them.
const PICTURES: &str = "MILLRACE_PICTURES";

/// Names are those of somebody else, and so is text in arguments.
const ROUTER: &str = r#"
elementclass Check {
  // Valid packets leave by output 0.
  input -> ip :: CheckIPHeader(VERBOSE false) -> count :: Counter -> output;
  ip[1] -> bad :: Counter -> [1]output;
}
elementclass Host { $color | input -> paint :: Paint($color) -> check :: Check => [0]output, [1]output }

web :: RatedSource(DATA \<4500002a 00000000 401166c0 0a000001 0a010002 04d20050 00160000 00000000 00000000 00000000 0000>,
                   RATE 4000, LIMIT -1);
dns :: RatedSource(DATA \<4500001c 00000000 401166cd 0a000001 0a020002 04d20035 00080000>, RATE 900, LIMIT -1);
broken :: RatedSource(DATA \<4500001c 00000000 40110000 0a000001 0a020002>, RATE 50, LIMIT -1);
left :: Host(1);
right :: Host(2);
routes :: StaticIPLookup(10.1.0.0/16 0, 10.2.0.0/16 1, 0.0.0.0/0 2);
web -> left; dns, broken -> right;
left, right -> GetIPAddress(16) -> routes;
left[1], right[1] -> wrong :: Discard;
routes[0] -> hop :: DecIPTTL -> policy :: IPFilter(allow dst port 80, deny all) -> queue :: Queue(200) -> RatedUnqueue(500)
  -> out :: ToDump(/dev/null);
routes[1] -> dnshop :: DecIPTTL -> Queue(100) -> Unqueue -> out;
routes[2] -> Print("<img src=x onerror=document.title='taken'>", ACTIVE false) -> Discard;
"#;

fn box_of(name: &str) -> String {
    format!("document.querySelector('.box[data-name=\"{name}\"]')")
}

#[test]
fn a_browser_shows_the_router() {
    let Some(program) = Browser::installed() else {
        let test = "http::console::a_browser_shows_the_router";
        return millrace_testkit::announce(test, &"needs chromium");
    };
    let running = Running::start(ROUTER);
    let browser = Browser::start(&program, &format!("http://{}/", running.host));
    browser.look(1280, 800, "light");

    // The graph has a box for each element that handles packets, and rates that move.
    browser.wait_for("document.querySelectorAll('.wire.flows').length > 5");
    let graph = running.get("/api/v1/graph").json();
    let with_ports = |one: &&Value| {
        one["inputs"] != Value::Array(vec![]) || one["outputs"] != Value::Array(vec![])
    };
    let mut expected: Vec<Value> = graph["elements"]
        .as_array()
        .unwrap()
        .iter()
        .filter(with_ports)
        .map(|one| one["name"].clone())
        .collect();
    let names = "[...document.querySelectorAll('.box')].map((box) => box.dataset.name)";
    let mut shown = browser.value(names).as_array().unwrap().clone();
    for names in [&mut expected, &mut shown] {
        names.sort_by_key(Value::to_string);
    }
    assert_eq!(shown, expected);
    let edges = graph["connections"].as_array().unwrap().len();
    assert_eq!(browser.value("document.querySelectorAll('.wire').length"), edges);
    let rates =
        "[...document.querySelectorAll('.wire text')].map((text) => text.textContent).join(' ')";
    let before = browser.value(rates);
    browser.wait_for(&format!("{rates} !== {before}"));
    browser.wait_for(r"/^[1-9].*\/s$/.test(document.querySelector('#total-in').textContent)");
    browser.wait_for(&format!(
        "{}.querySelector('.badge').textContent.includes('/s')",
        box_of("queue")
    ));
    take(&browser, &running, "graph");

    // A compound is folded and unfolded.
    browser.value("document.querySelector('#compounds input[value=\"left\"]').click()");
    browser.wait_for(&format!("{} && !{}", box_of("left"), box_of("left/check/ip")));
    browser.wait_for(&format!("{}.textContent.includes('4 elements')", box_of("left")));
    browser.value(&format!(
        "{}.dispatchEvent(new MouseEvent('dblclick', {{ bubbles: true }}))",
        box_of("left")
    ));
    browser.wait_for(&box_of("left/check/ip"));

    // The page of an element, by keyboard; a handler is read, and written with the token.
    browser.value(&format!(
        "{}.dispatchEvent(new KeyboardEvent('keydown', {{ key: 'Enter', bubbles: true }}))",
        box_of("queue")
    ));
    let page =
        |words: &str| format!("document.querySelector('#page').textContent.includes({words:?})");
    for words in ["200", "queue full", "policy", "highwater_length", "Synopsis"] {
        browser.wait_for(&page(words));
    }
    let handler = "[...document.querySelectorAll('.handler')].find((one) => one.textContent.startsWith('capacity'))";
    browser.value(&format!("{handler}.open = true"));
    browser.wait_for(&format!("{handler}.querySelector('pre').textContent === '200'"));
    let hidden = format!("getComputedStyle({handler}.querySelector('.writes')).display === 'none'");
    assert_eq!(browser.value(&hidden), true);
    browser.value("document.querySelector('#lock').click()");
    browser.value(&format!(
        "document.querySelector('#ask input').value = {TOKEN:?}; document.querySelector('#ask .first').click()"
    ));
    browser.wait_for(&format!("!({hidden}) && !document.querySelector('#ask').open"));
    browser.value(&format!(
        "{handler}.querySelector('input').value = '150'; {handler}.querySelector('.writes button').click()"
    ));
    browser.wait_for(&format!("{handler}.querySelector('pre').textContent === '150'"));
    assert_eq!(running.get("/api/v1/handlers/queue.capacity").text(), "150");
    take(&browser, &running, "element");

    // The table: sorted, searched.
    browser.value("location.hash = 'elements'");
    browser.wait_for("document.querySelectorAll('#elements tbody tr:not(.gap)').length > 10");
    browser.value(
        "const search = document.querySelector('#elements input[type=search]'); search.value = 'queue full'; \
         search.dispatchEvent(new Event('input'))",
    );
    let rows = "[...document.querySelectorAll('#elements tbody .name')].map((name) => name.textContent).join()";
    browser.wait_for(&format!("{rows} === 'queue'"));

    browser.value("location.hash = 'history'");
    browser.wait_for("document.querySelectorAll('#history canvas').length >= 4");
    browser.value("location.hash = 'configuration'");
    browser.wait_for(
        "document.querySelector('#configuration pre').textContent.includes('<img src=x')",
    );
    take(&browser, &running, "configuration");

    // Nothing was said by the browser, and nobody else asked. What is not HTML here did not become HTML.
    assert_eq!(*browser.complaints.borrow(), [""; 0]);
    let own = format!("http://{}/", running.host);
    let requests = browser.requests.borrow();
    let foreign = requests.iter().filter(|url| !url.starts_with(&own) && *url != "about:blank");
    assert_eq!(foreign.collect::<Vec<_>>(), [""; 0]);
    assert!(browser.value("document.title").as_str().unwrap().starts_with("Millrace"));
    assert_eq!(browser.value("document.querySelectorAll('main img, #page img').length"), 0);
    drop(requests);

    // Another configuration comes, as far as the page can tell, and its graph is drawn.
    browser.value("location.hash = 'graph'; document.querySelector('.box').remove()");
    let swap = "import('./console/model.js').then((model) => model.take({ ...structuredClone(model.state.now), \
                generation: 7, seconds: model.state.now.seconds + 0.1 }))";
    assert_eq!(browser.value(swap), "graph");
    browser.wait_for("document.querySelector('#notice').textContent.includes('runs now')");
    browser.wait_for(&format!("document.querySelectorAll('.box').length === {}", shown.len()));

    // The router goes, and the page says so.
    running.stop();
    browser.wait_for(
        "document.body.dataset.state === 'lost' && !document.querySelector('#notice').hidden",
    );
}

/// Writes pictures, if they are wanted: wide and narrow, light and dark.
fn take(browser: &Browser, running: &Running, name: &str) {
    let Some(folder) = std::env::var_os(PICTURES).map(PathBuf::from) else { return };
    // There is something to see on charts after a while.
    let seconds = |snapshot: Value| snapshot["seconds"].as_f64().unwrap();
    while seconds(running.get("/api/v1/snapshot").json()) < 60.0 {
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
    for (width, scheme) in [(1280, "light"), (1280, "dark"), (420, "light"), (420, "dark")] {
        browser.look(width, 800, scheme);
        // A second later all figures are drawn anew.
        std::thread::sleep(std::time::Duration::from_millis(2500));
        let file = folder.join(format!("console-{name}-{width}-{scheme}.png"));
        std::fs::write(file, browser.picture()).unwrap();
    }
    browser.look(1280, 800, "light");
}

#[test]
fn the_page_is_for_everybody_and_the_router_is_not() {
    let running = Running::start("Idle -> Discard");
    for path in ["/", "/console/main.js", "/console/console.css", "/console/icon.svg"] {
        let answer = running.get(path);
        assert_eq!(answer.status, 200, "{path}");
        let policy = answer.header("content-security-policy").unwrap();
        for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"] {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(running.put(path, b"").status, 405, "{path}");
    }
    let page = running.get("/").text();
    assert!(
        !page.contains("://") && !page.contains("style=") && !page.contains("onclick"),
        "{page}"
    );
    assert_eq!(running.get("/console/../openapi.json").status, 404);
    assert_eq!(running.get("/console/mod.rs").status, 404);
    let rebound = running.say(&super::client::request(
        "GET",
        "/console/layout",
        &["Host: evil.example"],
        b"",
    ));
    assert_eq!(super::client::Answer::of(&rebound).status, 403);
    running.stop();
}

#[test]
fn the_layout_follows_what_is_folded() {
    let running = Running::start(ROUTER);
    let names = |query: &str| -> Vec<String> {
        let layout = running.get(&format!("/console/layout{query}")).json();
        let boxes = layout["drawing"]["boxes"].as_array().unwrap();
        boxes.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let all = names("");
    assert!(all.iter().any(|name| name == "left/check/ip"), "{all:?}");
    let left = names("?folded=left");
    assert!(left.iter().any(|name| name == "left"), "{left:?}");
    assert!(left.iter().any(|name| name == "right/check/ip"), "{left:?}");
    assert_eq!(all.len(), left.len() + 3);
    assert_eq!(names("?all=&open=right&open=right/check"), left);
    running.stop();
}
