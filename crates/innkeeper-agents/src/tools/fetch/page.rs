//! Extracts the text of an HTML page in one linear pass.
//!
//! `html2text` is not used: it builds a tree with `html5ever`, whose parser takes quadratic time in the nesting depth
//! and has no depth limit (servo/html5ever issue 788: 94 s for 512 KB of `<ul><li>`). The page is untrusted, and such
//! work cannot be cancelled. A guard in front of it would be a second HTML scanner as long as this one.

/// Returns true for text media types.
pub(super) fn is_text(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    essence.starts_with("text/")
        || essence.ends_with("json")
        || essence.ends_with("xml")
        || matches!(
            essence,
            "application/javascript" | "application/toml" | "application/yaml" | "application/x-yaml"
        )
}

/// Returns the text of a page without scripts, styles and markup. It is an approximation, not a parser: anything that
/// looks like a tag is removed.
pub(super) fn text_of_html(html: &str) -> String {
    let mut text = String::with_capacity(html.len() / 2);
    let mut rest = html;
    while let Some((before, tagged)) = rest.split_once('<') {
        text.push_str(before);
        let (tag, after) = match tagged.strip_prefix("!--") {
            Some(comment) => ("", comment.split_once("-->").map_or("", |(_, after)| after)),
            None => tagged.split_once('>').unwrap_or((tagged, "")),
        };
        let name: String = tag
            .chars()
            .take_while(|c| *c == '/' || c.is_ascii_alphanumeric())
            .collect();
        let name = name.to_ascii_lowercase();
        rest = match name.as_str() {
            "script" | "style" | "svg" | "template" => skip_to_end(after, &name),
            _ => after,
        };
        if is_block(name.trim_start_matches('/')) {
            text.push('\n');
        }
    }
    text.push_str(rest);
    tidied(&text)
}

fn is_block(name: &str) -> bool {
    matches!(
        name,
        "p" | "br"
            | "div"
            | "li"
            | "ul"
            | "ol"
            | "tr"
            | "table"
            | "pre"
            | "section"
            | "article"
            | "header"
            | "footer"
            | "title"
            | "h1"
            | "h2"
            | "h3"
            | "h4"
            | "h5"
            | "h6"
            | "blockquote"
            | "dt"
            | "dd"
    )
}

fn skip_to_end<'a>(text: &'a str, name: &str) -> &'a str {
    let names = |after: &str| {
        let start = after.as_bytes().get(..name.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes()))
    };
    // Search in place: copying the rest for each of many short elements would be quadratic.
    let mut ends = text.match_indices("</");
    let after = ends.find_map(|(start, mark)| text.get(start + mark.len()..).filter(|after| names(after)));
    after
        .and_then(|after| after.split_once('>'))
        .map_or("", |(_, after)| after)
}

/// Decodes entities and collapses whitespace and empty lines.
fn tidied(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_doubled = line.is_empty() && lines.last().is_none_or(String::is_empty);
        if !is_doubled {
            lines.push(line);
        }
    }
    let text = lines.join("\n");
    let entities = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&apos;", "'"),
        ("&nbsp;", " "),
        // Last, so that its result is not decoded again.
        ("&amp;", "&"),
    ];
    entities
        .iter()
        .fold(text, |text, (entity, meaning)| text.replace(entity, meaning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_becomes_its_text() {
        let html = "<!doctype html><head><title>Inn</title><style>p { x }</style></head><body><!-- <p>no</p> -->\
                    <h1>Rooms &amp; beds</h1><p>A  <b>warm</b>\n bed.</p><script>if (a < b) {}</script><p>1 &lt; 2</p>";
        let text = text_of_html(html);
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(lines, ["Inn", "Rooms & beds", "A warm", "bed.", "1 < 2"]);
    }

    #[test]
    fn skipped_elements_end_regardless_of_case() {
        assert_eq!(text_of_html("a<SCRIPT>x</b></Script >b<svg></ü></sVG>c"), "abc");
    }

    /// Fails by timeout if every element scans the rest of the page.
    #[test]
    fn a_page_of_many_short_elements_takes_linear_time() {
        assert_eq!(text_of_html(&"<svg></svg>".repeat(400_000)), "");
    }

    #[test]
    fn malformed_pages_do_not_panic() {
        for html in ["<", "<script", "<!-- ", "a < b", "<script>x", "</", "<ü>"] {
            text_of_html(html);
        }
    }

    #[test]
    fn text_media_types_are_recognised() {
        for text in ["text/html; charset=utf-8", "application/json", "application/atom+xml"] {
            assert!(is_text(text), "{text}");
        }
        assert!(!is_text("image/png"));
        assert!(!is_text("application/octet-stream"));
    }
}
