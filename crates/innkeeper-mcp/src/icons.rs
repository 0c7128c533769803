//! The pictures that servers show themselves with.
//!
//! They stand in the state of every session that has the server, and every client gets them: so they are few
//! and small, and clients are sent nowhere but to the web (F17).

use rmcp::model::{Icon as Told, IconTheme};

/// Most pictures of one server.
const MOST_ICONS: usize = 4;
/// The longest address, and the largest picture that stands in one.
const MOST_ADDRESS_BYTES: usize = 2 << 10;
const MOST_DATA_BYTES: usize = 4 << 10;
/// Most pictures that stand in their addresses.
const MOST_DATA: usize = 2;
/// Most sizes of one picture, and the longest word about it.
const MOST_SIZES: usize = 8;
const MOST_WORD_BYTES: usize = 64;

/// A picture of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Icon {
    /// An `https:` address, or the picture itself as a `data:` address.
    pub src: String,
    /// Its media type, if the server says it.
    pub content_type: Option<String>,
    /// The sizes that it is for, such as `48x48`.
    pub sizes: Vec<String>,
    /// Whether it is for a `light` or a `dark` background.
    pub theme: Option<String>,
}

/// Those of a server's pictures that are passed on.
pub(crate) fn read(told: &[Told]) -> Vec<Icon> {
    let mut with_data = 0;
    let fitting = told.iter().filter(|icon| may_be_shown(&icon.src));
    let fitting = fitting.filter(|icon| {
        with_data += usize::from(is_data(&icon.src));
        with_data <= MOST_DATA || !is_data(&icon.src)
    });
    let fitting = fitting.take(MOST_ICONS);
    let icons = fitting.map(|icon| Icon {
        src: icon.src.clone(),
        content_type: icon.mime_type.clone().filter(|kind| is_image(kind)),
        sizes: icon
            .sizes
            .iter()
            .flatten()
            .filter(|size| is_size(size))
            .take(MOST_SIZES)
            .cloned()
            .collect(),
        theme: icon.theme.as_ref().and_then(|theme| match theme {
            IconTheme::Light => Some("light".to_owned()),
            IconTheme::Dark => Some("dark".to_owned()),
            _ => None,
        }),
    });
    icons.collect()
}

fn may_be_shown(src: &str) -> bool {
    let is_clean = src.bytes().all(|byte| byte.is_ascii_graphic());
    let fits = match is_data(src) {
        true => src.len() <= MOST_DATA_BYTES,
        false => begins(src, "https://") && src.len() <= MOST_ADDRESS_BYTES,
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
    kind.starts_with("image/") && kind.len() <= MOST_WORD_BYTES && kind.bytes().all(|byte| byte.is_ascii_graphic())
}

fn is_size(size: &str) -> bool {
    let is_number = |part: &str| (1..=5).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    let pair = size.split_once('x');
    size == "any" || pair.is_some_and(|(width, height)| is_number(width) && is_number(height))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f17_pictures_of_servers_are_few_small_and_of_the_web() {
        let mut told: Vec<Told> = [
            "javascript:alert(1)",
            "file:///etc/passwd",
            "http://a.test/icon.png",
            "data:text/html,<b>",
            "https://a.test/an icon",
            "",
        ]
        .map(Told::new)
        .into();
        told.push(Told::new(format!(
            "data:image/png;base64,{}",
            "A".repeat(MOST_DATA_BYTES)
        )));
        told.push(Told::new(format!("https://a.test/{}", "a".repeat(MOST_ADDRESS_BYTES))));
        assert_eq!(read(&told), []);
        let small = Told::new("data:image/png;base64,AAAA");
        assert_eq!(read(&vec![small; 9]).len(), MOST_DATA);
        let mut good = Told::new("https://a.test/icon.png");
        good.mime_type = Some("image/png".to_owned());
        good.sizes = Some(["48x48", "any", "large", "9x"].map(str::to_owned).into());
        good.theme = Some(IconTheme::Dark);
        told.extend(std::iter::repeat_n(good, 9));
        let shown = read(&told);
        assert_eq!(shown.len(), MOST_ICONS);
        let expected = Icon {
            src: "https://a.test/icon.png".to_owned(),
            content_type: Some("image/png".to_owned()),
            sizes: vec!["48x48".to_owned(), "any".to_owned()],
            theme: Some("dark".to_owned()),
        };
        assert_eq!(shown.first(), Some(&expected));
    }
}
