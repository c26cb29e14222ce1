//! Who may ask for what.
//!
//! A token (`Authorization: Bearer`) opens everything. Without one, this machine may read. A web page of somebody else that
//! the user visits must not get at the router through the user's browser: its requests carry an `Origin` that is not ours, or
//! a `Host` that is a name of theirs whose address they have changed to ours. So such names and origins are refused, and as
//! no answer allows another origin anything, browsers send no token for one either.

use std::net::IpAddr;

use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::{Method, StatusCode};

use super::answer::Refusal;
use crate::control::Access;

/// From where a request comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// A Unix socket, which only its owner can open.
    Owner,
    /// A program on this machine.
    Local,
    /// Another machine.
    Remote,
}

impl Peer {
    pub(super) fn of(address: IpAddr) -> Self {
        match address.to_canonical().is_loopback() {
            true => Self::Local,
            false => Self::Remote,
        }
    }
}

/// Whether a request may be answered.
///
/// # Errors
/// It may not, and why.
pub(super) fn admit(
    access: &Access,
    peer: Peer,
    method: &Method,
    headers: &HeaderMap,
) -> Result<(), Refusal> {
    let writes = *method != Method::GET && *method != Method::HEAD;
    let has_token = offers_token(access, headers)?;
    let host = only(headers, &HOST)?;
    if peer != Peer::Owner {
        let Some(host) = host else {
            return Err(Refusal::new(StatusCode::BAD_REQUEST, "there is no ‘Host’"));
        };
        if !has_token && !is_own_name(host) {
            let why = "the name of this host must be its address or ‘localhost’, unless the request \
                       carries the token";
            return Err(Refusal::new(StatusCode::FORBIDDEN, why));
        }
    }
    if let Some(origin) = only(headers, &ORIGIN)? {
        let own = origin.split_once("://").map(|(_, own)| own);
        if own.is_none() || own != host {
            return Err(Refusal::new(StatusCode::FORBIDDEN, "pages of other sites may not ask"));
        }
    }
    // Browsers say from where a request comes, even where it has no origin. Who follows a link may.
    let fetch = |name| only(headers, &HeaderName::from_static(name));
    let (site, mode) = (fetch("sec-fetch-site")?, fetch("sec-fetch-mode")?);
    let follows_link = !writes && mode == Some("navigate");
    if !follows_link && site.is_some_and(|site| site != "same-origin" && site != "none") {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "pages of other sites may not ask"));
    }
    match (has_token, peer, writes) {
        (true, ..) | (_, Peer::Local, false) => Ok(()),
        (false, Peer::Owner, _) if !writes || access.token.is_none() => Ok(()),
        _ if access.token.is_none() => {
            let why = "there is no token: start the router with --token-file to write over HTTP";
            Err(Refusal::new(StatusCode::FORBIDDEN, why))
        }
        _ => {
            let why = "this needs the token: ‘Authorization: Bearer TOKEN’";
            Err(Refusal::new(StatusCode::UNAUTHORIZED, why))
        }
    }
}

/// Whether a request carries the token.
fn offers_token(access: &Access, headers: &HeaderMap) -> Result<bool, Refusal> {
    let Some(offered) = only(headers, &AUTHORIZATION)? else { return Ok(false) };
    let wrong = || Refusal::new(StatusCode::UNAUTHORIZED, "the token is not the right one");
    let (scheme, token) = offered.split_once(' ').ok_or_else(wrong)?;
    let right = access.token.is_some() && access.opens_for(token.trim().as_bytes());
    match right && scheme.eq_ignore_ascii_case("bearer") {
        true => Ok(true),
        false => Err(wrong()),
    }
}

/// The value of a header that may come once.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Refusal> {
    let refuse = |what: &str| {
        Err(Refusal::new(StatusCode::BAD_REQUEST, format!("the header ‘{name}’ {what}")))
    };
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(_), Some(_)) => refuse("comes twice"),
        (Some(value), None) => match value.to_str() {
            Ok(text) => Ok(Some(text)),
            Err(_) => refuse("is not text"),
        },
    }
}

/// Whether a host, with its port, is an address or `localhost`: a name that nobody else can give to an address.
fn is_own_name(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let is_local = name.eq_ignore_ascii_case("localhost");
    is_local || bare.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(token: Option<&str>, peer: Peer, method: Method, headers: &[(&str, &str)]) -> u16 {
        let access = Access { read_only: false, token: token.map(Into::into) };
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        match admit(&access, peer, &method, &map) {
            Ok(()) => 200,
            Err(refusal) => refusal.status.as_u16(),
        }
    }

    const HERE: (&str, &str) = ("host", "127.0.0.1:80");
    const TOKEN: (&str, &str) = ("authorization", "Bearer secret");

    #[test]
    fn this_machine_reads_and_the_token_writes() {
        use Peer::{Local, Owner, Remote};
        let some = Some("secret");
        for (token, peer, method, headers, expected) in [
            (None, Local, Method::GET, &[HERE][..], 200),
            (None, Local, Method::PUT, &[HERE], 403),
            (None, Owner, Method::PUT, &[], 200),
            (None, Local, Method::GET, &[HERE, TOKEN], 401),
            (some, Local, Method::GET, &[HERE], 200),
            (some, Local, Method::HEAD, &[HERE], 200),
            (some, Local, Method::PUT, &[HERE], 401),
            (some, Local, Method::POST, &[HERE, TOKEN], 200),
            (some, Local, Method::PUT, &[HERE, ("authorization", "bearer secret")], 200),
            (some, Local, Method::PUT, &[HERE, ("authorization", "Basic secret")], 401),
            (some, Local, Method::PUT, &[HERE, ("authorization", "Bearer secre")], 401),
            (some, Local, Method::GET, &[HERE, ("authorization", "Bearer")], 401),
            (some, Local, Method::PUT, &[HERE, TOKEN, TOKEN], 400),
            (some, Owner, Method::PUT, &[], 401),
            (some, Owner, Method::PUT, &[TOKEN], 200),
            (some, Owner, Method::GET, &[], 200),
            (some, Remote, Method::GET, &[("host", "192.0.2.1")], 401),
            (some, Remote, Method::GET, &[("host", "192.0.2.1"), TOKEN], 200),
            (some, Remote, Method::GET, &[("host", "router.example"), TOKEN], 200),
        ] {
            let got = status(token, peer, method.clone(), headers);
            assert_eq!(got, expected, "{token:?} {peer:?} {method} {headers:?}");
        }
    }

    #[test]
    fn pages_of_other_sites_get_nothing() {
        let get =
            |headers: &[(&str, &str)]| status(Some("secret"), Peer::Local, Method::GET, headers);
        for host in
            ["localhost", "localhost:8080", "LOCALHOST:1", "[::1]:8080", "[::1]", "10.0.0.1"]
        {
            assert_eq!(get(&[("host", host)]), 200, "{host}");
        }
        // The address of such a name may have been changed to ours.
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", ""] {
            assert_eq!(get(&[("host", host)]), 403, "{host}");
        }
        assert_eq!(get(&[]), 400);
        assert_eq!(get(&[HERE, ("host", "localhost")]), 400);
        let own = ("origin", "http://127.0.0.1:80");
        assert_eq!(get(&[HERE, own]), 200);
        for origin in ["null", "http://127.0.0.1:81", "https://evil.example", "127.0.0.1:80", ""] {
            assert_eq!(get(&[HERE, ("origin", origin)]), 403, "{origin}");
            let put = [HERE, TOKEN, ("origin", origin)];
            assert_eq!(status(Some("secret"), Peer::Local, Method::PUT, &put), 403, "{origin}");
        }
        let site = |site| [HERE, TOKEN, ("sec-fetch-site", site)];
        let put = |site_of| status(Some("secret"), Peer::Local, Method::PUT, &site(site_of));
        assert_eq!(
            ["cross-site", "same-site", "same-origin", "none"].map(put),
            [403, 403, 200, 200]
        );
        let foreign = ("sec-fetch-site", "cross-site");
        assert_eq!(get(&[HERE, foreign, ("sec-fetch-mode", "no-cors")]), 403);
        assert_eq!(get(&[HERE, foreign, ("sec-fetch-mode", "navigate")]), 200);
    }
}
