//! URIs after RFC 3986.

/// Whether `text` is a URI with a scheme: `scheme:rest`, of the characters that RFC 3986 allows.
pub fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else {
        return false;
    };
    let mut scheme = scheme.bytes();
    if !scheme.next().is_some_and(|first| first.is_ascii_alphabetic())
        || !scheme.all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    {
        return false;
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (hierarchy, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path = match hierarchy.strip_prefix("//") {
        Some(after) => {
            let end = after.find('/').unwrap_or(after.len());
            if !is_authority(&after[..end]) {
                return false;
            }
            &after[end..]
        }
        None => hierarchy,
    };
    is_made_of(path, b"/:@") && is_made_of(query, b"/?:@") && is_made_of(fragment, b"/?:@")
}

/// `[user@]host[:port]`, where the host may be an address in brackets.
fn is_authority(authority: &str) -> bool {
    let (user, host_port) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (host, port, extra): (_, _, &[u8]) = match host_port.strip_prefix('[') {
        Some(after) => match after.split_once(']') {
            Some((address, "")) => (address, "", b":"),
            Some((address, port)) => match port.strip_prefix(':') {
                Some(port) => (address, port, b":"),
                None => return false,
            },
            None => return false,
        },
        None => {
            let (host, port) = host_port.split_once(':').unwrap_or((host_port, ""));
            (host, port, b"")
        }
    };
    is_made_of(user, b":") && is_made_of(host, extra) && port.bytes().all(|b| b.is_ascii_digit())
}

/// Whether `text` has only unreserved characters, sub-delimiters, percent-encoded bytes and those of `extra`.
fn is_made_of(text: &str, extra: &[u8]) -> bool {
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let allowed = match byte {
            b'%' => {
                let mut hex = || bytes.next().is_some_and(|digit| digit.is_ascii_hexdigit());
                hex() && hex()
            }
            _ => byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte) || extra.contains(&byte),
        };
        if !allowed {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::is_uri;

    #[test]
    fn uris_are_told_from_other_text() {
        for uri in [
            "https://example.com",
            "https://user:pw@example.com:8080/a/b?c=d/?#e",
            "http://[2001:db8::1]:80/x",
            "http://[::1]",
            "s3://bucket/key%20name",
            "mailto:a@example.com",
            "file:///tmp/x",
            "urn:isbn:0451450523",
        ] {
            assert!(is_uri(uri), "{uri}");
        }
        for text in [
            "",
            "example.com/path",
            "/path",
            "//host/path",
            ":x",
            "1http://x",
            "ht tp://x",
            "http://a b",
            "http://a/b#c#d",
            "http://a/%2",
            "http://a/%zz",
            "http://a:port/",
            "http://[::1",
            "http://[::1]x",
            "http://ä.example",
        ] {
            assert!(!is_uri(text), "{text}");
        }
    }
}
