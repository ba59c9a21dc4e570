// SPDX-License-Identifier: GPL-2.0-only

//! Files that commands write: they are there when they are whole.

use std::{
    ffi::OsString,
    fs::{self, File, Permissions},
    io::{self, BufWriter, Write},
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::{bail, Context, Result};
use tempfile::NamedTempFile;

use crate::exit::usage;

/// The file to write, which may be there and then is a regular one.
pub(super) fn target(path: &Path) -> Result<PathBuf> {
    let shown = path.display();
    if path == Path::new("-") {
        return Err(usage("a recording needs a file: use -o FILE"));
    }
    match path.metadata() {
        Ok(metadata) if metadata.is_file() => {
            fs::canonicalize(path).with_context(|| format!("cannot write {shown}"))
        }
        Ok(_) => bail!("{shown} is something else than a file"),
        Err(_) => Ok(path.to_owned()),
    }
}

/// A file in the same folder, which is gone if it does not get its place in the end.
pub(super) fn beside(path: &Path) -> Result<NamedTempFile> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    tempfile::Builder::new()
        .prefix(&name)
        // As any new file; the umask takes its part of it.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Whether both are there and the same, by whatever names.
fn is_same(one: &Path, other: &Path) -> bool {
    let id = |path: &Path| path.metadata().map(|it| (it.dev(), it.ino())).ok();
    id(one).is_some_and(|one| Some(one) == id(other))
}

/// Refuses to write to a block device, and to the file that is read.
pub(super) fn check(path: &Path, input: Option<&Path>) -> Result<()> {
    let shown = path.display();
    let Ok(metadata) = path.metadata() else {
        return Ok(());
    };
    if metadata.file_type().is_block_device() {
        bail!("{shown} is a device: this would destroy what is on it");
    }
    if metadata.is_file() && input.is_some_and(|input| is_same(input, path)) {
        return Err(usage(format!("{shown} is the file that is read")));
    }
    Ok(())
}

/// A file that takes its place when it is whole. What is no regular file is written as it is.
#[derive(Debug)]
pub(super) struct Output {
    /// As it was named.
    shown: PathBuf,
    to: To,
}

#[derive(Debug)]
enum To {
    Place(NamedTempFile, PathBuf),
    Direct(File),
}

impl Output {
    /// Begins to write `path`. It is no block device, and not `input`.
    pub(super) fn create(path: &Path, input: Option<&Path>) -> Result<Self> {
        check(path, input)?;
        let metadata = path.metadata().ok();
        let is_special = metadata.as_ref().is_some_and(|it| !it.is_file());
        let to = if is_special || is_same(path, Path::new("/dev/stdout")) {
            let file = File::create(path);
            To::Direct(file.with_context(|| format!("cannot write {}", path.display()))?)
        } else {
            let place = target(path)?;
            let file = beside(&place)?;
            if let Some(metadata) = metadata {
                file.as_file()
                    .set_permissions(metadata.permissions())
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
            To::Place(file, place)
        };
        Ok(Self {
            shown: path.to_owned(),
            to,
        })
    }

    /// Writes to it. Errors have its name.
    pub(super) fn writer(&self) -> Result<Box<dyn Write + Send>> {
        let file = match &self.to {
            To::Place(file, _) => file.as_file(),
            To::Direct(file) => file,
        };
        let path = self.shown.clone();
        let file = file
            .try_clone()
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Box::new(BufWriter::new(Named { path, file })))
    }

    /// Gives it its place; without that, nothing is left of it.
    pub(super) fn finish(self) -> Result<()> {
        match self.to {
            To::Place(file, place) => {
                let placed = file.persist(place).map_err(|error| error.error);
                placed.with_context(|| format!("cannot write {}", self.shown.display()))?;
                Ok(())
            }
            To::Direct(_) => Ok(()),
        }
    }
}

/// A file whose errors have its name.
pub(super) struct Named {
    /// Its name.
    pub(super) path: PathBuf,
    /// The file.
    pub(super) file: File,
}

impl Write for Named {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(|error| {
            let text = format!("cannot write {}: {error}", self.path.display());
            io::Error::new(error.kind(), text)
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_that_is_read_is_known_by_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let [file, hard, soft, other] =
            ["file", "hard", "soft", "other"].map(|name| folder.path().join(name));
        fs::write(&file, "it").unwrap();
        fs::hard_link(&file, &hard).unwrap();
        std::os::unix::fs::symlink(&file, &soft).unwrap();
        for name in [&file, &hard, &soft] {
            let error = Output::create(name, Some(&file)).unwrap_err();
            assert!(error.to_string().ends_with(" is the file that is read"));
        }
        assert!(check(&other, Some(&file)).is_ok());
        fs::write(&other, "it").unwrap();
        assert!(check(&other, Some(&file)).is_ok());
        assert!(check(&other, None).is_ok());
        assert_eq!(fs::read(&file).unwrap(), b"it");
    }

    #[test]
    fn what_was_there_stays_until_the_new_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let there = || fs::read_dir(folder.path()).unwrap().count();
        let path = folder.path().join("it");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let write = || {
            let output = Output::create(&path, None).unwrap();
            let mut writer = output.writer().unwrap();
            writer.write_all(b"new").unwrap();
            writer.flush().unwrap();
            output
        };
        drop(write());
        assert_eq!((fs::read(&path).unwrap(), there()), (b"old".to_vec(), 1));
        write().finish().unwrap();
        assert_eq!((fs::read(&path).unwrap(), there()), (b"new".to_vec(), 1));
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn devices_are_written_as_they_are_and_errors_name_them() {
        let full = Path::new("/dev/full");
        let output = Output::create(full, None).unwrap();
        let mut writer = output.writer().unwrap();
        writer.write_all(b"it").unwrap();
        let error = writer.flush().unwrap_err().to_string();
        assert!(error.starts_with("cannot write /dev/full: "), "{error}");
        output.finish().unwrap();
        assert!(full.metadata().unwrap().file_type().is_char_device());
    }
}
