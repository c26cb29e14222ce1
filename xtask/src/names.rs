//! Class names and file names: `DecIPTTL` and `dec_ip_ttl`.

/// Words that are written in capitals in class names. If one begins with another, the longer comes first.
const ACRONYMS: &[&str] = &[
    "AFXDP", "ARP", "BW", "BPF", "CE", "CPU", "CRC", "DF", "DPDK", "DSCP", "DHCP", "DNS", "ECN",
    "ESP", "FTP", "FIFO", "GCM", "GPU", "GRE", "GTP", "GW", "HMAC", "HTTP", "ICMP", "IDS", "ID",
    "IP", "LIFO", "MAC", "MP", "MTU", "NAT", "QOS", "RED", "RCP", "RIP", "RR", "RTP", "SACK",
    "SDN", "SFQ", "SHA", "SRC", "TAP", "TCP", "TOS", "TSC", "TTL", "TUN", "UDP", "VLAN", "VXLAN",
    "XDP",
];

/// The words of a class name in lower case: `ICMPPingResponder` is `icmp_ping_responder`, and `DecIPTTL`, whose
/// capitals are two words, is `dec_ip_ttl`.
pub(crate) fn snake_case(class: &str) -> String {
    // Terms that are written with capitals and small letters.
    let class = class.replace("IPsec", "Ipsec").replace("CoDel", "Codel");
    let characters: Vec<char> = class.chars().collect();
    let mut words: Vec<String> = Vec::new();
    let mut at = 0;
    while at < characters.len() {
        let capitals = characters[at..].iter().take_while(|c| c.is_ascii_uppercase()).count();
        let end = at + capitals;
        let lower_follows = characters.get(end).is_some_and(char::is_ascii_lowercase);
        // The last capital before small letters begins a word.
        let acronyms = if lower_follows { capitals.saturating_sub(1) } else { capitals };
        let run: String = characters[at..at + acronyms].iter().collect();
        words.extend(split_acronyms(&run));
        at += acronyms;

        let is_rest = |c: &&char| c.is_ascii_lowercase() || c.is_ascii_digit() || **c == '_';
        let first = usize::from(lower_follows && capitals > 0);
        let rest = characters[at + first..].iter().take_while(is_rest).count();
        let word: String = characters[at..at + first + rest].iter().collect();
        match words.last_mut() {
            // Digits directly after an acronym belong to it: IP6.
            Some(last) if first == 0 && acronyms > 0 => last.push_str(&word),
            _ if word.is_empty() => {}
            _ => words.push(word),
        }
        at += first + rest;
        // No class name contains this character; [`check`] rejects it.
        at += usize::from(acronyms + first + rest == 0);
    }
    words.join("_").to_lowercase()
}

/// Splits a run of capitals into known acronyms. A run that does not consist of them stays whole.
fn split_acronyms(run: &str) -> Vec<String> {
    fn cut(run: &str) -> Option<Vec<String>> {
        if run.is_empty() {
            return Some(Vec::new());
        }
        let starts = ACRONYMS.iter().filter_map(|word| Some((word, run.strip_prefix(word)?)));
        starts.into_iter().find_map(|(word, rest)| {
            let mut words = cut(rest)?;
            words.insert(0, (*word).to_string());
            Some(words)
        })
    }
    if run.is_empty() {
        return Vec::new();
    }
    cut(run).unwrap_or_else(|| vec![run.to_string()])
}

/// The name of a class's Rust type: like the class, with acronyms as words (`DecIpTtl`).
pub(crate) fn type_name(class: &str) -> String {
    let capitalised = |word: &str| {
        let mut characters = word.chars();
        let first = characters.next().map(|c| c.to_ascii_uppercase());
        first.into_iter().chain(characters).collect::<String>()
    };
    snake_case(class).split('_').map(capitalised).collect()
}

/// Checks the name of a class. It must begin with a capital, and consist of letters, digits and underscores.
pub(crate) fn check(class: &str) -> Result<(), String> {
    let starts = class.chars().next().is_some_and(|c| c.is_ascii_uppercase());
    if starts && class.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Ok(());
    }
    Err(format!("`{class}` is not a valid class name: write it like DecIPTTL or CheckIPHeader2"))
}

/// Adds `mod name;` to the text of a module, in alphabetical order.
///
/// Returns the text unchanged if it contains the line.
pub(crate) fn add_mod(text: &str, name: &str) -> String {
    let declared = |line: &str| {
        let line = line.strip_prefix("pub ").unwrap_or(line);
        Some(line.strip_prefix("mod ")?.strip_suffix(';')?.to_string())
    };
    let lines: Vec<&str> = text.lines().collect();
    let mods: Vec<(usize, String)> =
        lines.iter().enumerate().filter_map(|(at, line)| Some((at, declared(line)?))).collect();
    if mods.iter().any(|(_, other)| other == name) {
        return text.to_string();
    }
    let public = mods.first().is_none_or(|(at, _)| lines[*at].starts_with("pub "));
    let line = format!("{}mod {name};", if public { "pub " } else { "" });
    let after = mods.iter().rev().find(|(_, other)| other.as_str() < name).map(|(at, _)| at + 1);
    let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_string()).collect();
    match after.or(mods.first().map(|(at, _)| *at)) {
        Some(at) => lines.insert(at, line),
        None => lines.extend([String::new(), line]),
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_names_become_file_names() {
        let cases = [
            ("Null", "null", "Null"),
            ("DecIPTTL", "dec_ip_ttl", "DecIpTtl"),
            ("ICMPPingResponder", "icmp_ping_responder", "IcmpPingResponder"),
            ("IPGWOptions", "ip_gw_options", "IpGwOptions"),
            ("CheckIPHeader2", "check_ip_header2", "CheckIpHeader2"),
            ("CheckIP6Header", "check_ip6_header", "CheckIp6Header"),
            ("UDPIPEncap", "udp_ip_encap", "UdpIpEncap"),
            ("FromDPDKDevice", "from_dpdk_device", "FromDpdkDevice"),
            ("SetIPDSCP", "set_ip_dscp", "SetIpDscp"),
            ("FixIPSrc", "fix_ip_src", "FixIpSrc"),
            ("GTPEncap", "gtp_encap", "GtpEncap"),
            ("CounterMP", "counter_mp", "CounterMp"),
            ("VLANEncap", "vlan_encap", "VlanEncap"),
            ("IPsecESPEncap", "ipsec_esp_encap", "IpsecEspEncap"),
            ("XYZThing", "xyz_thing", "XyzThing"),
            ("RadixIPLookup", "radix_ip_lookup", "RadixIpLookup"),
            ("Tee", "tee", "Tee"),
            ("ToIPSummaryDump", "to_ip_summary_dump", "ToIpSummaryDump"),
        ];
        for (class, file, type_) in cases {
            assert_eq!(snake_case(class), file);
            assert_eq!(type_name(class), type_);
        }
    }

    #[test]
    fn invalid_class_names_are_rejected() {
        for good in ["Tee", "CheckIPHeader2", "My_Element"] {
            assert_eq!(check(good), Ok(()));
        }
        for bad in ["", "tee", "2Tee", "A-B", "A/B", "Ä"] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_mod_line_goes_where_it_belongs() {
        let text = "//! Doc.\n\nmod ant;\nmod cat;\n\npub use ant::Ant;\n";
        let cases = [
            ("bee", "//! Doc.\n\nmod ant;\nmod bee;\nmod cat;\n\npub use ant::Ant;\n"),
            ("aaa", "//! Doc.\n\nmod aaa;\nmod ant;\nmod cat;\n\npub use ant::Ant;\n"),
            ("dog", "//! Doc.\n\nmod ant;\nmod cat;\nmod dog;\n\npub use ant::Ant;\n"),
            ("cat", text),
        ];
        for (name, expected) in cases {
            assert_eq!(add_mod(text, name), expected, "{name}");
        }
        assert_eq!(
            add_mod("//! Doc.\n\npub mod ant;\n", "bee"),
            "//! Doc.\n\npub mod ant;\npub mod bee;\n"
        );
        assert_eq!(add_mod("//! Doc.\n", "bee"), "//! Doc.\n\npub mod bee;\n");
    }
}
