//! Compresses the files in `dist` and writes the table of them.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() -> Result<(), Box<dyn Error>> {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("dist");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    println!("cargo::rerun-if-changed=dist");
    let mut files = Vec::new();
    collect(&dist, &mut files)?;
    files.sort();
    let mut table = String::from("&[\n");
    for (number, file) in files.iter().enumerate() {
        let path = file.strip_prefix(&dist)?.to_str().ok_or("a file name is not UTF-8")?;
        let compressed = out.join(format!("{number}.gz"));
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&fs::read(file)?)?;
        fs::write(&compressed, encoder.finish()?)?;
        writeln!(
            table,
            "    WebFile {{ path: {:?}, content_type: {:?}, gzip: include_bytes!({compressed:?}) }},",
            format!("/{path}"),
            content_type(path)?,
        )?;
    }
    table.push(']');
    fs::write(out.join("files.rs"), table)?;
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

fn content_type(path: &str) -> Result<&'static str, String> {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => Ok("text/html; charset=utf-8"),
        Some("js") => Ok("text/javascript; charset=utf-8"),
        Some("css") => Ok("text/css; charset=utf-8"),
        Some("svg") => Ok("image/svg+xml"),
        Some("png") => Ok("image/png"),
        Some("webmanifest") => Ok("application/manifest+json"),
        _ => Err(format!("no content type is known for {path}")),
    }
}
