// SPDX-License-Identifier: GPL-2.0-only

//! IMRSim's ioctls as one safe function.
//!
//! This crate holds the only `unsafe` of the user-space side, and nothing else; every other crate
//! forbids it. With the feature `raw` it has what tests need to send ioctls that are wrong, too.

#![deny(unsafe_op_in_unsafe_fn)]

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

use imrsim_core::uapi::{self, Request, ZoneSnapshot};
use nix::{errno::Errno, libc};

#[cfg(feature = "raw")]
pub mod raw;

/// Sends `request` to the device `fd` is open on, with `buf` as its struct.
///
/// `buf` holds the struct in the layout of [`uapi`] and receives the reply, if the request has one. Behind a
/// [`ZoneSnapshot`], there is room for as many bytes as it says.
///
/// # Errors
///
/// `InvalidInput` if `buf` has not the size of the request's struct and what follows; nothing was sent then.
/// Otherwise the kernel's error: `ENOTTY` if `fd` is not an IMRSim device, and those that
/// `docs/ioctl.md` lists.
pub fn ioctl(fd: BorrowedFd<'_>, request: Request, buf: &mut [u8]) -> io::Result<()> {
    let cmd = request.cmd();
    let size = uapi::size_of_cmd(cmd) + behind(request, buf);
    if buf.len() != size {
        let len = buf.len();
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("ioctl {request:?}: the struct has {size} bytes, the buffer {len}"),
        ));
    }
    // CAST: the type depends on the C library; the same 32 bits reach the kernel.
    #[allow(clippy::cast_lossless)]
    let number = cmd as libc::Ioctl;
    // SAFETY: `cmd` is one of IMRSim's own numbers, not any the caller likes. Whichever driver
    // gets it reads and writes at most the size encoded in it, at the address given, during the
    // call, and ours as many bytes behind it as the struct of a snapshot says; `buf` is exclusively
    // borrowed, initialised, and was just checked to have that size. Its bytes are plain integers to
    // the kernel, never addresses.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), number, buf.as_mut_ptr()) };
    Errno::result(result)?;
    Ok(())
}

/// How many bytes follow a request's struct, in or out.
fn behind(request: Request, buf: &[u8]) -> usize {
    match (request, ZoneSnapshot::from_bytes(buf)) {
        (Request::GetSnapshot, Some(it)) => it.mapping_bytes as usize,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, os::fd::AsFd};

    use super::*;

    fn null() -> File {
        File::open("/dev/null").expect("/dev/null opens")
    }

    #[test]
    fn a_buffer_of_another_size_is_not_sent() {
        for &request in Request::ALL {
            let size = uapi::size_of_cmd(request.cmd());
            for len in [0, size - 1, size + 1] {
                let error = ioctl(null().as_fd(), request, &mut vec![0; len])
                    .expect_err("the size is wrong");
                assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            }
        }
    }

    #[test]
    fn a_snapshot_has_the_room_that_it_says() {
        let mut question = ZoneSnapshot::default();
        for (room, len, sent) in [
            (0, 0, true),
            (8, 8, true),
            (8, 7, false),
            (8, 9, false),
            (0, 1, false),
        ] {
            question.mapping_bytes = room;
            let mut buf = question.to_bytes().to_vec();
            buf.resize(buf.len() + len, 0);
            let error =
                ioctl(null().as_fd(), Request::GetSnapshot, &mut buf).expect_err("not a drive");
            assert_eq!(
                error.raw_os_error() == Some(libc::ENOTTY),
                sent,
                "{room} {len}"
            );
        }
    }

    #[test]
    fn another_device_says_enotty_and_leaves_the_buffer_alone() {
        for &request in Request::ALL {
            let mut sent = vec![0xa5; uapi::size_of_cmd(request.cmd())];
            if let Some(question) = ZoneSnapshot::from_bytes(&sent) {
                // Nothing follows.
                let mapping_bytes = 0;
                let question = ZoneSnapshot {
                    mapping_bytes,
                    ..question
                };
                sent[..ZoneSnapshot::SIZE].copy_from_slice(&question.to_bytes());
            }
            let mut buf = sent.clone();
            let error = ioctl(null().as_fd(), request, &mut buf).expect_err("not a drive");
            assert_eq!(error.raw_os_error(), Some(libc::ENOTTY));
            assert_eq!(buf, sent);
        }
    }
}
