//! The icons of servers.
//!
//! They are in the state of every session that has the server, and are sent to every client: so they are few and small, and
//! only web addresses are passed on (F17).

use serde_json::Value;

use crate::engine::paging::text;

/// The number of icons of one server.
const MAX_ICONS: usize = 4;
/// The longest address, and the largest `data:` icon.
const MAX_ADDRESS_BYTES: usize = 2 << 10;
const MAX_DATA_BYTES: usize = 4 << 10;
/// The number of `data:` icons.
const MAX_DATA: usize = 2;
/// The number of sizes of one icon, and the longest media type.
const MAX_SIZES: usize = 8;
const MAX_WORD_BYTES: usize = 64;

/// An icon of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Icon {
    /// An `https:` address, or the image itself as a `data:` address.
    pub src: String,
    /// The media type, if it is known.
    pub content_type: Option<String>,
    /// The sizes, such as `48x48`.
    pub sizes: Vec<String>,
    /// The background that it is for: `light` or `dark`.
    pub theme: Option<String>,
}

/// Returns the icons of a server that are passed on.
pub(crate) fn read(icons: Option<&Value>) -> Vec<Icon> {
    let icons = icons.and_then(Value::as_array).into_iter().flatten();
    let mut with_data = 0;
    let fitting = icons.filter_map(|icon| {
        let src = text(icon, "src").filter(|src| may_be_shown(src))?;
        with_data += usize::from(is_data(&src));
        let fits = with_data <= MAX_DATA || !is_data(&src);
        fits.then(|| read_one(icon, src))
    });
    fitting.take(MAX_ICONS).collect()
}

fn read_one(icon: &Value, src: String) -> Icon {
    let sizes = icon.get("sizes").and_then(Value::as_array).into_iter().flatten();
    let sizes = sizes.filter_map(Value::as_str).filter(|size| is_size(size));
    Icon {
        src,
        content_type: text(icon, "mimeType").filter(|kind| is_image(kind)),
        sizes: sizes.take(MAX_SIZES).map(str::to_owned).collect(),
        theme: text(icon, "theme").filter(|theme| matches!(theme.as_str(), "light" | "dark")),
    }
}

fn may_be_shown(src: &str) -> bool {
    let is_clean = src.bytes().all(|byte| byte.is_ascii_graphic());
    let fits = match is_data(src) {
        true => src.len() <= MAX_DATA_BYTES,
        false => begins(src, "https://") && src.len() <= MAX_ADDRESS_BYTES,
    };
    is_clean && fits
}

fn is_data(src: &str) -> bool {
    begins(src, "data:image/")
}

fn begins(src: &str, start: &str) -> bool {
    let begin = src.get(..start.len());
    begin.is_some_and(|begin| begin.eq_ignore_ascii_case(start))
}

fn is_image(kind: &str) -> bool {
    kind.starts_with("image/") && kind.len() <= MAX_WORD_BYTES && kind.bytes().all(|byte| byte.is_ascii_graphic())
}

fn is_size(size: &str) -> bool {
    let is_number = |part: &str| (1..=5).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    let pair = size.split_once('x');
    size == "any" || pair.is_some_and(|(width, height)| is_number(width) && is_number(height))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn f17_icons_of_servers_are_few_small_and_of_the_web() {
        let icon = |src: &str| json!({ "src": src });
        let mut icons: Vec<Value> = [
            "javascript:alert(1)",
            "file:///etc/passwd",
            "http://a.test/icon.png",
            "data:text/html,<b>",
            "https://a.test/an icon",
            "",
        ]
        .map(icon)
        .into();
        icons.push(icon(&format!("data:image/png;base64,{}", "A".repeat(MAX_DATA_BYTES))));
        icons.push(icon(&format!("https://a.test/{}", "a".repeat(MAX_ADDRESS_BYTES))));
        icons.push(json!(7));
        assert_eq!(read(Some(&json!(icons))), []);
        let small = icon("data:image/png;base64,AAAA");
        assert_eq!(read(Some(&json!(vec![small; 9]))).len(), MAX_DATA);
        let good = json!({
            "src": "https://a.test/icon.png", "mimeType": "image/png", "sizes": ["48x48", "any", "large", "9x"],
            "theme": "dark",
        });
        icons.extend(std::iter::repeat_n(good, 9));
        let shown = read(Some(&json!(icons)));
        assert_eq!(shown.len(), MAX_ICONS);
        let expected = Icon {
            src: "https://a.test/icon.png".to_owned(),
            content_type: Some("image/png".to_owned()),
            sizes: vec!["48x48".to_owned(), "any".to_owned()],
            theme: Some("dark".to_owned()),
        };
        assert_eq!(shown.first(), Some(&expected));
        assert_eq!(read(None), []);
    }
}
