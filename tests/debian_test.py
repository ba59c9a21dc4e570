#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The Debian packages on Debian 13 with the kernel of its backports.

Builds the packages, installs them in a fresh Debian 13, where DKMS builds the module for the stock kernel, boots that
kernel in QEMU with Debian's own modules and ours, and runs the core of tests/vm on it. A Debian with systemd boots twice
and finds its drive again. Then everything is removed; and of what the build needs, one thing after the other is taken
away. Takes about ten minutes, and five more the first time, for two Debians, which are kept in the cache.

Needs root, mmdebstrap and overlayfs; skipped without. With IMRSIM_RESULTS=FILE a line 'pass|fail|skip NAME WHY' is
written for each test.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests"))
sys.dont_write_bytecode = True
from runner_test import Lines  # noqa: E402 # pylint: disable=wrong-import-position

CACHE = Path(os.environ.get("IMRSIM_CACHE")
             or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "imrsim")
SOURCES = CACHE / "apt/backports.sources"
LOG = CACHE / "logs/debian.log"
# The stock kernel: that of the kernel source which scripts/setup fetches.
RELEASE = "7.3.4+deb13-cloud-amd64"
SERIES = "7.3"
# The one of the series before, for which the module is only built.
OLDER, OLDER_SERIES = "7.2.12+deb13-cloud-amd64", "7.2"
PACKAGES = ["ca-certificates", "lintian", "dkms", "dmsetup", "bc", "bindgen", "bison", "flex", "gcc", "kmod", "libelf-dev",
            "libssl-dev", "make", "pahole", "python3", "rust-src", "rustc", "xz-utils", f"linux-source-{SERIES}",
            f"linux-headers-{RELEASE}", f"linux-source-{OLDER_SERIES}", f"linux-headers-{OLDER}"]
# What of tests/vm runs on the stock kernel: each part of the module once.
CORE = ("10-table.status 10-table.messages 12-control.conditions_persist 15-tool.create_and_remove 15-tool.list "
        "20-data.model 20-data.fio_mixed_unaligned 30-strategy.switch_under_load 35-rewrites.lost_update_fault_09 "
        "40-filesystems.ext4_on_small_zones 40-filesystems.xfs 45-devices.stacked 50-errors.failed_write_back "
        "60-counters.*hand 60-counters.replay_as_simulated 65-discard.fstrim 70-durability.stop_preserves_all "
        "70-durability.promises_survive 85-stress.everything_at_once 95-fuzz.everything_at_once 99-leaks.nothing_is_left")


# What a Debian that boots needs, to be small enough for an initramfs.
SMALL_PACKAGES = ["systemd", "systemd-sysv", "udev", "dmsetup", "kmod"]


class DebianLines(Lines):
    """The same under our own name, and with skips."""

    def name(self, test: unittest.TestCase) -> str:
        return "debian." + ".".join(test.id().split(".")[-2:])

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self.lines.append(f"skip {self.name(test)} {reason}")


def why_not() -> str | None:
    """Why this cannot run here, if it cannot."""
    if os.geteuid() != 0:
        return "it needs root"
    for tool in ("mmdebstrap", "unshare", "dpkg-buildpackage", "dh_dkms"):
        if not shutil.which(tool):
            return f"{tool} is missing (run 'make setup')"
    if not SOURCES.exists():
        return "there is no Debian mirror with trixie-backports (run 'make setup')"
    with tempfile.TemporaryDirectory() as empty:
        for name in ("lower", "upper", "work", "merged"):
            (Path(empty) / name).mkdir()
        if logged(["unshare", "--mount", "sh", "-c", MOUNT, "sh", empty, f"{empty}/lower", "true"]):
            return "overlayfs cannot be mounted here"
    return None


# sh FOLDER LOWER COMMAND...: mounts an overlay of LOWER in FOLDER, and runs a command.
MOUNT = """
set -e
folder=$1 lower=$2
shift 2
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$folder/upper,workdir=$folder/work" "$folder/merged"
exec "$@"
"""
# The same, and the command runs inside.
ENTER = MOUNT.replace('exec "$@"', """
for name in proc sys dev; do mount --rbind "/$name" "$folder/merged/$name"; done
exec chroot "$folder/merged" "$@"
""")


def logged(command: list[str], **options) -> int:
    """Runs a command with its output in the log."""
    with LOG.open("ab") as log:
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False, **options).returncode


class Overlay:
    """A Debian of one's own, on top of that in the cache."""

    def __init__(self, lower: Path) -> None:
        self.lower = lower
        self.folder = tempfile.TemporaryDirectory(prefix="imrsim-debian-", dir=CACHE)
        self.path = Path(self.folder.name)
        for name in ("upper", "work", "merged"):
            (self.path / name).mkdir()

    def run(self, script: str) -> tuple[int, str]:
        """Runs a shell script inside; returns its exit code and output."""
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "HOME": "/root", "LC_ALL": "C"}
        command = ["unshare", "--mount", "sh", "-c", ENTER, "sh", str(self.path), str(self.lower), "sh", "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=env, timeout=1800,
                              check=False)
        with LOG.open("a") as log:
            log.write(f"--- {script}\n{done.stdout}{done.stderr}--- exit code {done.returncode}\n")
        return done.returncode, done.stdout + done.stderr

    def file(self, name: str) -> Path:
        """A file that was written inside."""
        return self.path / "upper" / name

    def remove(self) -> None:
        """Takes it away."""
        self.folder.cleanup()


def debian() -> Path:
    """A Debian 13 with what the packages depend on, made once."""
    key = hashlib.sha256(f"layout 1 {PACKAGES} {SOURCES.read_text()}".encode()).hexdigest()[:12]
    kept = CACHE / "debian" / f"trixie-{key}"
    if (kept / "ready").exists():
        return kept
    print("    making a Debian 13 with what the packages depend on (about 5 min)", flush=True)
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    options = ["--variant=minbase", "--skip=cleanup/apt/lists", "--aptopt=Acquire::Languages none", "--aptopt=Acquire::Check-Valid-Until false",
               "--aptopt=Acquire::Check-Date false", f"--include={','.join(PACKAGES)}"]
    if logged(["mmdebstrap", *options, "trixie", str(kept / "root"), str(SOURCES)]):
        raise RuntimeError(f"mmdebstrap failed; see {LOG}")
    shutil.copy("/etc/resolv.conf", kept / "root/etc/resolv.conf")
    base = Overlay(kept / "root")
    code, output = base.run(f"""
        set -e
        mkdir /stock
        cd /tmp
        apt-get download linux-binary-{RELEASE} linux-modules-{RELEASE}
        for package in *.deb; do dpkg-deb -x $package /stock; done
        ln -s usr/lib /stock/lib
        depmod -b /stock {RELEASE}""")
    if code:
        raise RuntimeError(f"the stock kernel cannot be had: {output}")
    shutil.move(str(base.file("stock")), kept / "stock")
    base.remove()
    (kept / "ready").touch()
    return kept


def small_debian() -> Path:
    """A Debian 13 with systemd, made once."""
    key = hashlib.sha256(f"layout 1 {SMALL_PACKAGES} {SOURCES.read_text()}".encode()).hexdigest()[:12]
    kept = CACHE / "debian" / f"small-{key}"
    if (kept / "ready").exists():
        return kept / "root"
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    options = ["--variant=minbase", "--aptopt=Acquire::Languages none", "--aptopt=Acquire::Check-Valid-Until false",
               "--aptopt=Acquire::Check-Date false", f"--include={','.join(SMALL_PACKAGES)}", "--dpkgopt=path-exclude=/usr/share/doc/*",
               "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*"]
    if logged(["mmdebstrap", *options, "trixie", str(kept / "root"), str(SOURCES)]):
        raise RuntimeError(f"mmdebstrap failed; see {LOG}")
    (kept / "ready").touch()
    return kept / "root"


class Packages(unittest.TestCase):
    """Everything is done with one installation."""

    kept: Path
    installed: Overlay
    output = ""

    @classmethod
    def setUpClass(cls) -> None:
        LOG.write_text("")
        if why := why_not():
            raise unittest.SkipTest(why)
        cls.kept = debian()
        if logged([str(TOP / "scripts/deb")]):
            raise RuntimeError(f"the packages cannot be built; see {LOG}")
        cls.installed = Overlay(cls.kept / "root")
        packages = cls.installed.file("root")
        packages.mkdir(mode=0o700)
        for package in (TOP / "build/deb").glob("*.deb"):
            shutil.copy(package, packages)
        # As in a pristine chroot: no services start.
        code, cls.output = cls.installed.run("""
            set -e
            printf '#!/bin/sh\\nexit 101\\n' >/usr/sbin/policy-rc.d
            chmod +x /usr/sbin/policy-rc.d
            find /usr/src/linux-headers-* /usr/lib/modules -type f | sort | xargs -d '\\n' sha256sum >/before
            apt-get install -y --no-install-recommends /root/imrsim-*.deb""")
        if code:
            raise RuntimeError(f"the packages cannot be installed: {cls.output[-2000:]}")

    @classmethod
    def tearDownClass(cls) -> None:
        if hasattr(cls, "installed"):
            cls.installed.remove()

    def good(self, script: str) -> str:
        """Runs a script in the installation, which must succeed."""
        code, output = self.installed.run(script)
        self.assertEqual(code, 0, output)
        return output

    def test_1_the_module_is_built(self) -> None:
        status = self.good("dkms status")
        for release in (RELEASE, OLDER):
            self.assertIn(f"imrsim/0.1.0, {release}, x86_64: installed", status)
            magic = self.good(f"modinfo -F vermagic /usr/lib/modules/{release}/updates/dkms/dm-imrsim.ko*")
            self.assertRegex(magic, f"^{re.escape(release)} ")
        self.good("imrsim_util --version")
        self.good("test -e /usr/lib/udev/rules.d/60-imrsim.rules -a -e /usr/lib/systemd/system/imrsim@.service")
        self.assertNotIn("warning: objtool", self.good("cat /var/lib/dkms/imrsim/0.1.0/*/x86_64/log/make.log"))

    def test_2_lintian(self) -> None:
        output = self.good("lintian --allow-root /root/*.deb")
        self.assertEqual([line for line in output.splitlines() if re.match("[EW]:", line)], [])

    def test_3_tests_on_the_stock_kernel(self) -> None:
        module = self.kept / f"dm-imrsim-{os.getpid()}.ko"
        self.good(f"cp /usr/lib/modules/{RELEASE}/updates/dkms/dm-imrsim.ko* /dm-imrsim.ko")
        shutil.copy(self.installed.file("dm-imrsim.ko"), module)
        results = self.kept / "results.txt"
        try:
            done = subprocess.run([str(TOP / "scripts/vm"), "test", "--module", str(module), "--only", CORE, "--kernel",
                                   str(self.kept / f"stock/usr/lib/modules/{RELEASE}")],
                                  env=os.environ | {"IMRSIM_RESULTS": str(results)}, check=False)
            found = results.read_text().split("\n")
        finally:
            module.unlink()
            results.unlink(missing_ok=True)
        self.assertEqual(done.returncode, 0)
        self.assertGreaterEqual(sum(line.startswith("pass") for line in found), 20)

    def test_3_a_drive_comes_back_after_a_reboot(self) -> None:
        system = Overlay(small_debian())
        try:
            initramfs, disk = system.path / "initramfs", system.path / "disk"
            self.prepare(system, initramfs)
            with disk.open("wb") as out:
                out.truncate(64 << 20)
            for content, mapped in (("written", 1), ("it came back", 1)):
                said = self.boot(initramfs, disk)
                self.assertEqual(said.get("service"), "active", said)
                self.assertRegex(said.get("link", ""), r"^(/dev/dm-\d+) \1$", said)
                self.assertEqual(said.get("content"), content, said)
                self.assertEqual(said.get("mapped"), str(mapped), said)
                self.assertEqual(said.get("stopped"), "inactive, No devices found", said)
        finally:
            system.remove()

    def prepare(self, system: Overlay, initramfs: Path) -> None:
        """Makes an initramfs of a Debian with the tool, the stock kernel's modules and ours, and a drive to be made.

        udev finds the disk and loads its driver, which takes a while: the drive has to wait for it.
        """
        modules = f"usr/lib/modules/{RELEASE}"
        shutil.copytree(self.kept / "stock" / modules, system.file(modules), symlinks=True,
                        ignore=shutil.ignore_patterns("vmlinuz"))
        system.file(f"{modules}/updates").mkdir()
        self.good(f"cp /{modules}/updates/dkms/dm-imrsim.ko* /dm-imrsim.ko")
        shutil.copy(self.installed.file("dm-imrsim.ko"), system.file(f"{modules}/updates/dm-imrsim.ko"))
        system.file("root").mkdir(mode=0o700, exist_ok=True)
        for package in (TOP / "build/deb").glob("imrsim-util_*.deb"):
            shutil.copy(package, system.file("root"))
        for file, name in (("proof.sh", "usr/local/bin/proof"), ("proof.service", "etc/systemd/system/proof.service"),
                           ("t.conf", "etc/imrsim/t.conf")):
            system.file(name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(TOP / "tests/debian" / file, system.file(name))
        code, output = system.run(f"""
            set -e
            dpkg -i /root/imrsim-util_*.deb
            depmod {RELEASE}
            systemctl enable imrsim@t.service proof.service
            : >/etc/machine-id
            ln -s usr/lib/systemd/systemd /init""")
        self.assertEqual(code, 0, output)
        pack = 'cd "$folder/merged" && find . -xdev | cpio --quiet -o -H newc >"$1"'
        command = ["unshare", "--mount", "sh", "-c", MOUNT.replace('exec "$@"', pack), "sh", str(system.path),
                   str(system.lower), str(initramfs)]
        self.assertEqual(logged(command), 0, f"see {LOG}")

    def boot(self, initramfs: Path, disk: Path) -> dict[str, str]:
        """Boots it; returns what it says of itself."""
        kernel = self.kept / f"stock/usr/lib/modules/{RELEASE}/vmlinuz"
        done = subprocess.run(
            ["qemu-system-x86_64", "-machine", "q35", "-accel", "tcg", "-m", "2048", "-nodefaults", "-no-user-config",
             "-display", "none", "-no-reboot", "-serial", "stdio", "-kernel", str(kernel), "-initrd", str(initramfs),
             "-append", "console=ttyS0 panic=-1 systemd.show_status=0", "-drive",
             f"if=none,id=d0,file={disk},format=raw,cache=unsafe", "-device", "virtio-blk-pci,drive=d0"],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=600, check=False)
        text = done.stdout.decode(errors="replace").replace("\r", "")
        with LOG.open("a") as log:
            log.write(text)
        return dict(re.findall(r"@@ (\w+) (.*)", text))

    def test_4_what_is_missing_is_said(self) -> None:
        build = "/usr/src/imrsim-0.1.0/dkms/build"
        headers = f"/usr/src/linux-headers-{RELEASE}"
        for name, spoil, release, said in [
            ("another series", "true", "6.12.1-amd64", ["6.12.1-amd64 is not supported; 7.2 and 7.3 are"]),
            ("headers", f"rm /lib/modules/{RELEASE}/build", RELEASE, [f"apt install linux-headers-{RELEASE}"]),
            ("Rust", f"sed -i 's/^CONFIG_RUST=y/# CONFIG_RUST is not set/' {headers}/.config", RELEASE,
             ["built without CONFIG_RUST"]),
            ("tools", "rm /usr/bin/bindgen /usr/bin/flex /usr/bin/pahole", RELEASE, ["apt install bindgen flex pahole"]),
            ("rust-src", "dpkg --purge --force-depends rust-src", RELEASE, ["apt install rust-src"]),
            ("another rustc", "printf '#!/bin/sh\\necho rustc 1.95.0\\n' >/usr/bin/rustc", RELEASE,
             ["another Rust compiler", "installed:     rustc 1.95.0"]),
            ("source", f"rm /usr/src/linux-source-{SERIES}.tar.xz", RELEASE, [f"apt install linux-source-{SERIES}"]),
            ("source of another version",
             f"sed -i '/^Package: linux-source-{SERIES}$/,/^$/s/^Version: .*/Version: 7.3.1-1/' /var/lib/dpkg/status", RELEASE,
             ["of different versions", "7.3.1-1"]),
        ]:
            with self.subTest(name):
                spoilt = Overlay(self.kept / "root")
                try:
                    shutil.copytree(self.source(), spoilt.file("usr/src/imrsim-0.1.0"))
                    code, output = spoilt.run(f"({spoil}) >/dev/null 2>&1; {build} {release}")
                finally:
                    spoilt.remove()
                self.assertEqual(code, 1, output)
                self.assertTrue(output.startswith("imrsim: "), output)
                for text in said:
                    self.assertIn(text, output)

    def test_4_secure_boot_is_told_of(self) -> None:
        for value, told in (("1", True), ("0", False)):
            output = self.good(f"""
                printf '\\006\\000\\000\\000\\00{value}' >/variable
                cp -r /usr/src/imrsim-0.1.0 /copy
                IMRSIM_SECURE_BOOT=/variable /copy/dkms/build {RELEASE}
                rm -rf /copy""")
            self.assertEqual("mokutil --import" in output, told, output)

    def source(self) -> Path:
        """The module's source as it is installed."""
        return self.installed.file("usr/src/imrsim-0.1.0")

    def test_5_nothing_is_left(self) -> None:
        self.good("apt-get purge -y imrsim-dkms imrsim-util")
        self.assertEqual(self.good("ls -d /usr/src/imrsim* /var/cache/imrsim /var/lib/dkms/imrsim /etc/imrsim 2>/dev/null || :"), "")
        # depmod has renewed its lists; all else is as it was.
        self.good("""
            find /usr/src/linux-headers-* /usr/lib/modules -type f | sort | xargs -d '\\n' sha256sum >/after
            for list in before after; do grep -v '/modules\\.[a-z.]*$' /$list >/$list.kept; done
            diff /before.kept /after.kept""")


if __name__ == "__main__":
    unittest.main(testRunner=unittest.TextTestRunner(verbosity=2, resultclass=DebianLines), exit=False)
    if where := os.environ.get("IMRSIM_RESULTS"):
        Path(where).write_text("".join(f"{line}\n" for line in Lines.lines), encoding="utf-8")
    sys.exit(any(line.startswith("fail") for line in Lines.lines))
