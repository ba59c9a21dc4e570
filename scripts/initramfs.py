# SPDX-License-Identifier: GPL-2.0-only
"""The file system of the guest that scripts/vm boots: an initramfs with the tools of this machine."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
import time
from pathlib import Path
from typing import BinaryIO

# What busybox lacks. Mind that its shell prefers its own commands to those of the same name here.
TOOLS = ["busybox", "script", "fio", "dmsetup", "blkdiscard", "mkfs.ext4", "e2fsck", "tune2fs", "mkfs.xfs", "xfs_repair", "xfs_db"]
DIRECTORIES = ["proc", "sys", "dev", "tmp", "run", "mnt", "etc", "root"]


class Missing(Exception):
    """Something that is not on this machine; a sentence, and perhaps hints."""


def libraries(program: Path) -> list[Path]:
    """The shared libraries of a program and its loader, as ldd names them."""
    out = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    if "not found" in out.stdout:
        raise Missing(f"{program} lacks a library", *[l.strip() for l in out.stdout.splitlines() if "not found" in l])
    return [Path(p) for p in re.findall(r"(?:=> |^\s*)(/\S+) \(0x", out.stdout, re.M)]


class Cpio:
    """Writes an initramfs: the 'newc' archive of the kernel's initramfs documentation, owned by root."""

    def __init__(self, out: BinaryIO) -> None:
        self.out = out
        self.known: set[str] = set()

    def _entry(self, name: str, mode: int, data: bytes) -> None:
        path = name.encode() + b"\0"
        self.known.add(name)
        words = [len(self.known), mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0]
        header = b"070701" + b"".join(b"%08X" % word for word in words) + path
        for part in (header, data):
            self.out.write(part + b"\0" * (-len(part) % 4))

    def directory(self, name: str) -> None:
        """A directory and its parents, once."""
        name = name.strip("/")
        if name and name not in self.known:
            self.directory(os.path.dirname(name))
            self._entry(name, stat.S_IFDIR | 0o755, b"")

    def file(self, name: str, data: bytes, executable: bool = True) -> None:
        """A regular file."""
        name = name.strip("/")
        if name not in self.known:
            self.directory(os.path.dirname(name))
            self._entry(name, stat.S_IFREG | (0o755 if executable else 0o644), data)

    def link(self, name: str, target: str) -> None:
        """A symbolic link, unless there is something of that name."""
        name = name.strip("/")
        if name not in self.known:
            self.directory(os.path.dirname(name))
            self._entry(name, stat.S_IFLNK | 0o777, target.encode())

    def program(self, name: str, host: Path) -> None:
        """A program of this machine with its libraries."""
        self.file(name, host.read_bytes())
        for library in libraries(host):
            self.file(str(library), library.read_bytes())

    def finish(self) -> None:
        """Ends the archive; another one may follow it."""
        self._entry("TRAILER!!!", 0, b"")
        self.out.write(b"\0" * (-self.out.tell() % 512))


def find_tool(name: str) -> Path:
    """Where this machine keeps a tool."""
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if found is None:
        raise Missing(f"{name} is not installed", "Run 'make setup'.")
    return Path(found)


def base(cache: Path) -> Path:
    """The archive with the tools, made once and kept under a key of what goes into it."""
    tools = {name: find_tool(name) for name in TOOLS}
    key = hashlib.sha256(b"layout 1\n")
    for tool in tools.values():
        for file in [tool, *libraries(tool)]:
            info = file.stat()
            key.update(f"{file} {info.st_size} {info.st_mtime_ns}\n".encode())
    kept = cache / f"base-{key.hexdigest()[:12]}.cpio"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=kept.parent, delete=False) as out:
            cpio = Cpio(out)
            for name in DIRECTORIES:
                cpio.directory(name)
            for name, tool in tools.items():
                cpio.program(f"bin/{name}", tool)
            for applet in subprocess.run([tools["busybox"], "--list"], capture_output=True, text=True,
                                         check=True).stdout.split():
                cpio.link(f"bin/{applet}", "busybox")
            cpio.link("etc/mtab", "/proc/mounts")
            cpio.file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n", executable=False)
            cpio.finish()
        os.replace(out.name, kept)
        for old in kept.parent.glob("base-*.cpio"):
            if old != kept and time.time() - old.stat().st_mtime > 7 * 86400:
                old.unlink()
    return kept
