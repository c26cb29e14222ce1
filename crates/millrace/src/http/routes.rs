//! From a request to its answer.

use std::borrow::Cow;
use std::sync::Arc;

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::ACCEPT;
use hyper::{Method, Request, StatusCode};
use percent_encoding::percent_decode_str;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use super::answer::{Answer, BYTES, Content, JSON, Refusal, TEXT, answer, json, whole};
use super::console::{self, Folds};
use super::events::Source;
use super::guard::{self, Peer};
use super::limits::{ASKING_THREADS, BODY, HELD, HELD_UNIT, REQUEST, WRONG_TOKEN};
use super::metrics;
use super::site::Site;
use crate::control::Access;

/// The description of what is served.
const OPENAPI: &str = include_str!("openapi.json");

const EVENTS: &str = "text/event-stream";

/// All that answers need.
pub(super) struct Desk {
    site: Arc<Site>,
    access: Access,
    events: Source,
    /// Room for answers in memory.
    room: Arc<Semaphore>,
    /// Threads that may ask the router.
    asking: Arc<Semaphore>,
}

/// The bytes of an answer, and the room that they take until they are sent.
struct Held {
    bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// What is asked of the router.
enum Question {
    Snapshot,
    Elements,
    Element(String),
    Handlers,
    Graph,
    Configuration,
    Layout(Folds),
    Metrics(String),
    Read(String, Vec<u8>),
    Write(String, Bytes),
}

impl Desk {
    pub(super) fn new(site: Arc<Site>, access: Access, events: Source) -> Self {
        let room = Arc::new(Semaphore::new(HELD / HELD_UNIT));
        Self { site, access, events, room, asking: Arc::new(Semaphore::new(ASKING_THREADS)) }
    }

    /// Answers a request.
    pub(super) async fn answer(&self, peer: Peer, request: Request<Incoming>) -> Answer {
        match timeout(REQUEST, self.respond(peer, request)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(refusal)) => {
                if refusal.status == StatusCode::UNAUTHORIZED {
                    sleep(WRONG_TOKEN).await;
                }
                refusal.answer()
            }
            Err(_) => {
                let why = "the answer takes too long";
                Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why).answer()
            }
        }
    }

    async fn respond(&self, peer: Peer, request: Request<Incoming>) -> Result<Answer, Refusal> {
        let (head, body) = request.into_parts();
        let admitted = guard::admit(&self.access, peer, &head.method, &head.headers);
        match (console::file(&head.method, &head.uri), admitted) {
            // It asks for the token, and comes by any name of this host; but a request must be one.
            (Some(file), Ok(())) => return file,
            (Some(file), Err(refusal)) if refusal.status != StatusCode::BAD_REQUEST => return file,
            (_, admitted) => admitted?,
        }
        let path = decoded(head.uri.path())?;
        let reads = || match head.method {
            Method::GET | Method::HEAD => Ok(()),
            _ => Err(Refusal::method("GET, HEAD")),
        };
        let question = match path.strip_prefix("/api/v1/") {
            Some(path) => match path.split_once('/').unwrap_or((path, "")) {
                ("snapshot", "") => Question::Snapshot,
                ("elements", "") => Question::Elements,
                ("elements", name) => Question::Element(name.to_owned()),
                ("handlers", "") => Question::Handlers,
                ("handlers", name) => match head.method {
                    Method::PUT | Method::POST => {
                        Question::Write(name.to_owned(), read(body).await?)
                    }
                    Method::GET | Method::HEAD => {
                        Question::Read(name.to_owned(), parameter(head.uri.query()))
                    }
                    _ => return Err(Refusal::method("GET, HEAD, PUT, POST")),
                },
                ("graph", "") => Question::Graph,
                ("configuration", "") => Question::Configuration,
                ("events", "") => {
                    reads()?;
                    let events = self.events.follow().ok_or_else(|| {
                        let why = "too many clients follow the events";
                        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why)
                    })?;
                    return Ok(answer(StatusCode::OK, EVENTS, Content::Events(events)));
                }
                ("openapi.json", "") => {
                    reads()?;
                    return Ok(whole(JSON, OPENAPI));
                }
                _ => return Err(nothing_at(&format!("/api/v1/{path}"))),
            },
            None => match path.as_ref() {
                console::LAYOUT => Question::Layout(Folds::of(head.uri.query())),
                "/metrics" => {
                    let accepted = head.headers.get(ACCEPT).and_then(|value| value.to_str().ok());
                    Question::Metrics(accepted.unwrap_or_default().to_owned())
                }
                path => return Err(nothing_at(path)),
            },
        };
        if !matches!(question, Question::Write(..)) {
            reads()?;
        }
        let failed = || Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the answer failed");
        let thread = self.asking.clone().acquire_owned().await.map_err(|_| failed())?;
        let site = self.site.clone();
        // On a thread that may wait. It is taken until the router has answered, even if the client does not wait for that.
        let answered = tokio::task::spawn_blocking(move || {
            let answer = ask(&site, question);
            drop(thread);
            answer
        });
        self.hold(answered.await.map_err(|_| failed())??)
    }

    /// Takes room for an answer until it is sent.
    fn hold(&self, answer: Answer) -> Result<Answer, Refusal> {
        let (head, Content::Whole(bytes)) = answer.into_parts() else {
            return Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the answer failed"));
        };
        let units = u32::try_from(bytes.len().div_ceil(HELD_UNIT)).ok();
        let room = units.and_then(|units| self.room.clone().try_acquire_many_owned(units).ok());
        let Some(room) = room else {
            let why = "clients ask for too much at a time";
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why));
        };
        let bytes = Bytes::from_owner(Held { bytes, _room: room });
        Ok(Answer::from_parts(head, Content::Whole(bytes)))
    }
}

fn ask(site: &Site, question: Question) -> Result<Answer, Refusal> {
    Ok(match question {
        Question::Snapshot => json(&site.snapshot()),
        Question::Elements => json(&site.elements()),
        Question::Element(name) => json(&site.element(&name)?),
        Question::Handlers => json(&site.handlers()),
        Question::Graph => json(&site.graph()),
        Question::Configuration => json(&site.configuration()),
        Question::Layout(folds) => json(&site.layout(&folds)),
        Question::Metrics(accepted) => {
            let (kind, text) = metrics::text(site.snapshot(), &accepted).ok_or_else(|| {
                Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written")
            })?;
            whole(kind, text)
        }
        Question::Read(path, parameter) => {
            let text = site.read(&path, &parameter)?;
            whole(if std::str::from_utf8(&text).is_ok() { TEXT } else { BYTES }, text)
        }
        Question::Write(path, text) => json(&site.write(&path, &text)?),
    })
}

fn nothing_at(path: &str) -> Refusal {
    let why = format!("there is nothing at ‘{path}’; /api/v1/openapi.json describes what there is");
    Refusal::new(StatusCode::NOT_FOUND, why)
}

fn decoded(path: &str) -> Result<Cow<'_, str>, Refusal> {
    let refuse = |_| Refusal::new(StatusCode::BAD_REQUEST, "the path is not UTF-8");
    percent_decode_str(path).decode_utf8().map_err(refuse)
}

/// The parameter of a read: `?parameter=...`.
fn parameter(query: Option<&str>) -> Vec<u8> {
    let pairs = form_urlencoded::parse(query.unwrap_or("").as_bytes());
    let mut values = pairs.filter(|(name, _)| name == "parameter").map(|(_, value)| value);
    values.next().map_or(Vec::new(), |value| value.into_owned().into_bytes())
}

/// The body of a request.
async fn read(body: Incoming) -> Result<Bytes, Refusal> {
    let too_long = || {
        let why = format!("a body may have {BODY} bytes");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, why)
    };
    if body.size_hint().lower() > BODY as u64 {
        return Err(too_long());
    }
    match Limited::new(body, BODY).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_long()),
        Err(error) => Err(Refusal::new(StatusCode::BAD_REQUEST, error.to_string())),
    }
}
