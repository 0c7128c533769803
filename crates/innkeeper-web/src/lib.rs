//! The files of the web app, built from the folder `web` of the repository and compiled in.

#![warn(missing_docs)]

/// One file, compressed with gzip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebFile {
    /// The path in a URL, such as `/index.html`.
    pub path: &'static str,
    /// The media type.
    pub content_type: &'static str,
    /// The content, which every browser accepts compressed.
    pub gzip: &'static [u8],
}

impl WebFile {
    /// Whether the name has a digest of the content, so that the file never changes.
    pub fn is_immutable(&self) -> bool {
        self.path.starts_with("/assets/")
    }
}

/// All files.
pub const FILES: &[WebFile] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Returns the file at the path of a URL; `/` is the page itself.
pub fn find(path: &str) -> Option<&'static WebFile> {
    let path = match path {
        "/" => "/index.html",
        path => path,
    };
    FILES.iter().find(|file| file.path == path)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn text(path: &str) -> String {
        let file = find(path).unwrap_or_else(|| panic!("{path} is missing"));
        let mut text = String::new();
        let mut decoder = flate2::read::GzDecoder::new(file.gzip);
        decoder.read_to_string(&mut text).expect("valid gzip");
        text
    }

    /// The files that the page needs before anything is shown.
    fn first_load() -> Vec<&'static WebFile> {
        let page = text("/");
        let named = page.split('"').filter(|part| part.starts_with('/'));
        let mut files: Vec<&WebFile> = named.filter_map(find).collect();
        files.extend(find("/"));
        files
    }

    #[test]
    fn first_load_is_at_most_200_kb() {
        let files = first_load();
        assert!(files.iter().any(|file| file.path.ends_with(".js")), "{files:?}");
        let bytes: usize = files.iter().map(|file| file.gzip.len()).sum();
        println!("first load: {bytes} bytes");
        assert!(bytes <= 200 * 1000, "{bytes} bytes");
    }

    #[test]
    fn page_has_no_inline_code_and_no_foreign_address() {
        let page = text("/");
        assert!(!page.contains("<style") && !page.contains("style=") && !page.contains("onload="));
        for script in page.split("<script").skip(1) {
            let tag = script.split('>').next().unwrap_or_default();
            assert!(tag.contains("src=\"/assets/"), "{tag}");
        }
        assert!(!page.contains("http://") && !page.contains("https://"), "{page}");
    }

    #[test]
    fn paths_outside_the_table_are_not_found() {
        for path in ["", "/../Cargo.toml", "/assets/", "/assets/none.js", "//"] {
            assert_eq!(find(path), None, "{path}");
        }
    }
}
