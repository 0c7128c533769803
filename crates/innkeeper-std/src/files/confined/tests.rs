use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;

use super::super::open::read_whole;
use super::*;

/// A root with symlinks of all kinds, and a secret beside it.
fn tree() -> (tempfile::TempDir, Arc<ConfinedRoot>) {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path();
    fs::create_dir_all(path.join("inside/a/b")).expect("a directory");
    fs::create_dir(path.join("outside")).expect("a directory");
    fs::write(path.join("outside/f"), "secret").expect("a file");
    fs::write(path.join("inside/a/f"), "fine").expect("a file");
    symlink("..", path.join("inside/a/up")).expect("a link");
    symlink("../outside", path.join("inside/out")).expect("a link");
    symlink("../../../outside", path.join("inside/a/b/out")).expect("a link");
    symlink(path.join("outside"), path.join("inside/full")).expect("a link");
    symlink(path.join("inside/a"), path.join("inside/back")).expect("a link");
    symlink("/", path.join("inside/root")).expect("a link");
    symlink("nowhere", path.join("inside/dangling")).expect("a link");
    let root = ConfinedRoot::open(path.join("inside")).expect("opened");
    (temp, Arc::new(root))
}

fn content(opened: io::Result<Opened>) -> Option<Vec<u8>> {
    match opened {
        Ok(Opened::File(file)) => read_whole(file, 100).expect("read"),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn res17_no_path_leads_outside(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "..", ".", "a", "b", "f", "up", "out", "full", "back", "root", "dangling", "outside", "inside", "", "new",
            ]),
            0..9,
        ),
    ) {
        let (_temp, root) = tree();
        let path = PathBuf::from(parts.join("/"));
        let path = path.strip_prefix("/").unwrap_or(&path);
        for resolved in [root.existing(path), root.entry(path)].into_iter().flatten() {
            prop_assert!(resolved.relative().components().all(|part| matches!(part, Component::Normal(_))));
            if let Some(bytes) = content(resolved.open_file()) {
                prop_assert_eq!(bytes, b"fine");
            }
        }
        if let Some(bytes) = content(root.act(path, open_regular)) {
            prop_assert_eq!(bytes, b"fine");
        }
        for resolved in [root.target(path), root.target_entry(path)].into_iter().flatten() {
            prop_assert!(resolved.relative().components().all(|part| matches!(part, Component::Normal(_))));
            let mut real = resolved.canonical();
            real.pop();
            while !real.exists() {
                real.pop();
            }
            prop_assert!(fs::canonicalize(real).expect("there").starts_with(root.canonical()) || resolved.is_root());
        }
    }
}

#[test]
fn res17_a_symlink_that_is_swapped_in_leads_nowhere() {
    let (temp, root) = tree();
    let inside = temp.path().join("inside");
    let resolved = root.existing(Path::new("a/f")).expect("there");
    fs::rename(inside.join("a"), inside.join("away")).expect("renamed");
    symlink("../outside", inside.join("a")).expect("a link");
    assert_eq!(content(resolved.open_file()), None);
    assert!(resolved.open_parent().is_err());
    // Also while it is swapped back and forth.
    fs::remove_file(inside.join("a")).expect("removed");
    fs::rename(inside.join("away"), inside.join("a")).expect("renamed");
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                fs::rename(inside.join("a"), inside.join("away")).expect("renamed");
                symlink("../outside", inside.join("a")).expect("a link");
                fs::remove_file(inside.join("a")).expect("removed");
                fs::rename(inside.join("away"), inside.join("a")).expect("renamed");
            }
        });
        for _ in 0..2000 {
            let read = root.existing(Path::new("a/f")).ok();
            let read = read.and_then(|path| content(path.open_file()));
            let acted = content(root.act(Path::new("a/f"), open_regular));
            let is_fine = [read, acted].into_iter().flatten().all(|bytes| bytes == b"fine");
            if !is_fine {
                is_done.store(true, Ordering::Relaxed);
                panic!("the secret was read");
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn an_entry_is_the_symlink_and_not_its_target() {
    let (_temp, root) = tree();
    let relative = |path: &str| root.entry(Path::new(path)).map(|entry| entry.relative().to_owned());
    assert_eq!(relative("a/up/out").expect("there"), Path::new("out"));
    assert_eq!(relative("dangling").expect("there"), Path::new("dangling"));
    assert_eq!(relative(".").expect("there"), Path::new(""));
    assert!(leads_outside(&relative("out/f").expect_err("outside")));
}

#[test]
fn an_invalid_new_path_names_its_fault() {
    let (_temp, root) = tree();
    let target = |path: &str| root.target(Path::new(path));
    let new = target("a/up/new/file").expect("it may be created");
    assert_eq!(new.relative(), Path::new("new/file"));
    assert!(matches!(
        target("dangling"),
        Err(TargetError::Dangling { is_last: true, .. })
    ));
    let Err(TargetError::Dangling { link, is_last: false }) = target("dangling/file") else {
        panic!("it goes through a link to nothing");
    };
    assert_eq!(link, Path::new("dangling"));
    assert!(matches!(target("new/../../file"), Err(TargetError::Dots)));
    assert!(matches!(target("out/new"), Err(TargetError::Io(error)) if leads_outside(&error)));
    let taken = root.target_entry(Path::new("dangling")).expect("its own name");
    assert_eq!(taken.relative(), Path::new("dangling"));
}

#[test]
fn absolute_symlinks_are_followed_only_back_inside() {
    let (_temp, root) = tree();
    let read = |path: &str| {
        content(root.act(Path::new(path), |dir, path| {
            let path = dir.canonicalize(path)?;
            open_regular(dir, &path)
        }))
    };
    assert_eq!(read("back/f").as_deref(), Some(&b"fine"[..]));
    assert_eq!(read("full/f"), None);
    let refused = root.act(Path::new("full/missing"), open_regular).expect_err("outside");
    assert!(leads_outside(&refused), "not even whether it exists is told");
}

#[test]
fn res14_an_exact_root_has_no_symlink_on_the_way() {
    let (temp, _) = tree();
    let real = fs::canonicalize(temp.path()).expect("there");
    let (root, name) = ConfinedRoot::open_exact(&real.join("inside/a")).expect("opened");
    assert_eq!((root.path(), name), (real.join("inside/a").as_path(), None));
    let (root, name) = ConfinedRoot::open_exact(&real.join("inside/a/f")).expect("opened");
    assert_eq!(
        (root.canonical(), name),
        (real.join("inside/a").as_path(), Some("f".into()))
    );
    for link in ["inside/out", "inside/out/f", "inside/a/up/a"] {
        let opened = ConfinedRoot::open_exact(&real.join(link));
        assert!(matches!(opened, Err(ExactError::Symlink)), "{link}");
    }
}

#[test]
fn both_paths_of_a_root_name_it() {
    let (temp, _) = tree();
    symlink("inside", temp.path().join("alias")).expect("a link");
    let root = ConfinedRoot::open(temp.path().join("alias")).expect("opened");
    let file = Path::new("a/f");
    for name in [root.path(), root.canonical()] {
        assert_eq!(root.strip(&name.join(file)), Some(file));
    }
    assert_eq!(root.strip(&temp.path().join("outside/f")), None);
}
