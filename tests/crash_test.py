#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Crash points: recordings of dm-log-writes, cut at every place, and what must then be on the drive.

Needs the kernel and its module, and the tools (scripts/kernel, scripts/module, scripts/util). A workload is recorded
in a guest, writes and discards; the host then looks at every prefix of the recording and at other states that a crash
could have left behind, with the same library that the module is built from; the module itself comes back from a sample
of them, and 'imrsim_util check' must agree with both. The same with ext4 on the drive, and its journal, e2fsck and
synced files. Takes about five minutes.

With IMRSIM_RESULTS=FILE a line 'pass|fail|skip NAME WHY' is written for each test. Other settings in the environment:
IMRSIM_KERNEL=release|debug, IMRSIM_SEED=N for another workload, IMRSIM_THOROUGH=N for N times as many points.
"""

from __future__ import annotations

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

VM = TOP / "scripts/vm"
HERE = TOP / "tests/crash"
TOOL = TOP / "target/release/imrsim-crashtool"
UTIL = TOP / "target/release/imrsim_util"
KERNEL = os.environ.get("IMRSIM_KERNEL", "release")
SEED = int(os.environ.get("IMRSIM_SEED", "1"))
TIMES = int(os.environ.get("IMRSIM_THOROUGH", "1"))
SCALE = {"debug": 4}.get(KERNEL, 1)

# What 'imrsim_util check' ends with.
SOUND, REPAIRABLE, REFUSED = 0, 3, 4

ZONE = 1024 * 8
STRIDE = 81920


def content(number: int) -> bytes:
    """The file that tests/crash/ext4.sh writes."""
    lines = (f"file {number} line {i} {i * number * 7919 % 10007}\n" for i in range(20 + number * 37 % 400))
    return "".join(lines).encode()


class CrashLines(Lines):
    """The same under our own name."""

    def name(self, test: unittest.TestCase) -> str:
        return "crash." + ".".join(test.id().split(".")[1:])


class Recording:
    """A recording in a directory of its own."""

    def __init__(self, path: Path, script: str, zones: int, ops: int, **env: int) -> None:
        self.path, self.zones = path, zones
        self.log = path / "log"
        self.ops = [path / f"ops{i}" for i in range(ops)]
        for file, size in [(path / "device", STRIDE * 512), (self.log, 192 << 20), *[(file, 4 << 20) for file in self.ops]]:
            with file.open("wb") as out:
                out.truncate(size)
        self.code, self.output = guest(script, [path / "device", self.log, *self.ops],
                                       SIZE=zones * ZONE, ROOM=STRIDE, SEED=SEED, **env)

    def tool(self, command: str, *args: object) -> tuple[int, str]:
        """Runs the tool on the recording."""
        ops = ["--ops", ",".join(map(str, self.ops))] if self.ops else []
        words = [TOOL, command, self.log, *ops, "--zones", self.zones, "--seed", SEED, *args]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=1800, check=False)
        return done.returncode, done.stdout + done.stderr


def guest(script: str, disks: list[Path], files: list[str] | None = None, **env: int) -> tuple[int, str]:
    """Runs one of our scripts in a guest; its exit code and what it printed."""
    words = [VM, "run", HERE / script, "--kernel", KERNEL, "--file", f"{TOOL}:/bin/crashtool"]
    for disk in disks:
        words += ["--disk", disk]
    for file in files or []:
        words += ["--file", file]
    for name, value in env.items():
        words += ["--env", f"{name}={value}"]
    done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=1800, check=False)
    return done.returncode, done.stdout


class Crash(unittest.TestCase):
    """One recording, and all that is made of it."""

    def good(self, result: tuple[int, str]) -> str:
        """It must have gone well."""
        code, output = result
        self.assertEqual(code, 0, output)
        print(*[f"\n    {line}" for line in output.splitlines() if re.match(r"\d+ |damaged", line)], end=" ")
        return output

    @classmethod
    def setUpClass(cls) -> None:
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.path = Path(directory.name)
        cls.recording = cls.record()

    def setUp(self) -> None:
        if self.recording.code:
            self.fail(f"the recording failed: {self.recording.output}")


class Points(Crash):
    """Sectors that can be told apart, written straight to the drive."""

    @classmethod
    def record(cls) -> Recording:
        return Recording(cls.path, "record.sh", 4, 3, REQUESTS=150 // SCALE)

    def test_every_prefix(self) -> None:
        output = self.good(self.recording.tool("points", "--variants", 2 * TIMES))
        found = re.search(r"(\d+) points .* (\d+) prefixes, (\d+) marks.* (\d+) of them zeros by (\d+) discards",
                          output)
        assert found
        points, prefixes, marks, zeros, discards = map(int, found.groups())
        self.assertGreaterEqual(prefixes, 1000)
        self.assertGreaterEqual(points, 3 * prefixes)
        self.assertGreaterEqual(marks, 20)
        self.assertGreaterEqual(zeros, 1000 // SCALE)
        self.assertGreaterEqual(discards, 100 // SCALE)

    def test_damage(self) -> None:
        self.good(self.recording.tool("corrupt", "--states", 30, "--times", 600 * TIMES))

    def test_check_agrees_with_recovery(self) -> None:
        words = ["check", "--util", UTIL, "--image", self.path / "image"]
        output = self.good(self.recording.tool(*words, "--states", 300 * TIMES, "--times", 0))
        sound = re.search(r"(\d+) can be resumed, and check ends with 0", output)
        # The others were cut in the middle of a superblock or an entry.
        self.assertGreaterEqual(int(sound[1]) if sound else 0, 270 * TIMES)
        output = self.good(self.recording.tool(*words, "--states", 100 * TIMES, "--times", 40))
        for outcome in ("are refused, and check ends with 4", "can be resumed, and check ends with 0",
                        "can be resumed, and check ends with 3"):
            self.assertRegex(output, rf"[0-9]{{3,}} {outcome}")

    def check(self, images: Path, index: int, stride: int) -> int:
        """The exit code of 'imrsim_util check' for one of the images in a file."""
        words = [UTIL, "check", images, "--start", index * stride, "--geometry", "57,71,8", "--sectors", 4 * ZONE]
        done = subprocess.run([str(word) for word in words], stdout=subprocess.DEVNULL, timeout=60, check=False)
        return done.returncode

    def test_sample_in_the_guest(self) -> None:
        count = 20 // min(SCALE, 2)
        images, expected = self.path / "images", self.path / "expected"
        self.good(self.recording.tool("sample", "--images", images, "--expected", expected, "--stride", STRIDE,
                                      "--count", count))
        for index in range(count):
            self.assertIn(self.check(images, index, STRIDE), (SOUND, REPAIRABLE), f"image {index}")
        output = self.good(guest("samples.sh", [images], [f"{expected}:/expected"], SIZE=4 * ZONE, STRIDE=STRIDE,
                                 COUNT=count))
        self.assertIn(f"{count} images are right", output)
        for index in range(count):
            self.assertEqual(self.check(images, index, STRIDE), SOUND, f"image {index}, after it was in use")

    def test_damage_in_the_guest(self) -> None:
        count = 40 // min(SCALE, 2)
        images, expected, outcomes = (self.path / name for name in ("damaged", "expected2", "outcomes"))
        self.good(self.recording.tool("sample", "--images", images, "--expected", expected, "--outcomes", outcomes,
                                      "--stride", STRIDE // 2, "--count", count))
        right = [line.startswith("right ") for line in outcomes.read_text().splitlines()]
        for index, good in enumerate(right):
            codes = (SOUND, REPAIRABLE) if good else (REFUSED,)
            self.assertIn(self.check(images, index, STRIDE // 2), codes, f"image {index}, {good=}")
        # Here it is seen that the kernel agrees.
        output = self.good(guest("damaged.sh", [images], [f"{expected}:/expected", f"{outcomes}:/outcomes"],
                                 SIZE=4 * ZONE, STRIDE=STRIDE // 2))
        self.assertIn(f"{count} damaged images", output)
        for index, good in enumerate(right):
            code = self.check(images, index, STRIDE // 2)
            self.assertEqual(code, SOUND if good else REFUSED, f"image {index}, afterwards")


class Ext4(Crash):
    """A file system on the drive."""

    FILES = 60 // SCALE

    @classmethod
    def record(cls) -> Recording:
        return Recording(cls.path, "ext4.sh", 6, 0, FILES=cls.FILES)

    def test_on_the_host(self) -> None:
        directory = self.path / "extracted"
        directory.mkdir()
        self.good(self.recording.tool("extract", "--directory", directory, "--count", 60 * TIMES))
        checked = 0
        for image in sorted(directory.iterdir()):
            number, at, mark = image.name.split("-")
            if mark.startswith("file"):
                self.file_system(image, int(mark[4:]), f"image {number}, before entry {at}")
                checked += 1
            image.unlink()
        self.assertGreaterEqual(checked, 20 * TIMES)
        print(f"\n    {checked} file systems are right", end=" ")

    def file_system(self, image: Path, files: int, name: str) -> None:
        """The journal can be replayed, and then all is in order and the synced files are there."""
        env = os.environ | {"PATH": os.environ["PATH"] + ":/usr/sbin:/sbin", "DEBUGFS_PAGER": "cat"}

        def tool(*words: object) -> subprocess.CompletedProcess[bytes]:
            return subprocess.run([str(word) for word in words], capture_output=True, env=env, timeout=60, check=False)

        done = tool("e2fsck", "-p", image)
        self.assertIn(done.returncode, (0, 1), f"{name}: {done.stdout.decode()}")
        done = tool("e2fsck", "-f", "-n", image)
        self.assertEqual(done.returncode, 0, f"{name}: {done.stdout.decode()}")
        with tempfile.TemporaryDirectory() as found:
            tool("debugfs", "-R", f"rdump /files {found}", image)
            for number in range(1, files + 1):
                file = Path(found) / "files" / str(number)
                self.assertTrue(file.exists(), f"{name}: file {number} of {files} is not there")
                self.assertEqual(file.read_bytes(), content(number), f"{name}: file {number} of {files}")

    def test_sample_in_the_guest(self) -> None:
        images, marks = self.path / "images", self.path / "marks"
        self.good(self.recording.tool("sample", "--images", images, "--marks", marks, "--stride", STRIDE, "--count",
                                      12 // min(SCALE, 2)))
        output = self.good(guest("ext4_samples.sh", [images], [f"{marks}:/marks"], SIZE=6 * ZONE, STRIDE=STRIDE))
        self.assertIn("file systems are right", output)


if __name__ == "__main__":
    if not TOOL.exists() or not shutil.which("e2fsck", path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
        sys.exit("error: imrsim-crashtool or e2fsck is missing\n       Run 'make setup' and 'scripts/util'.")
    unittest.main(testRunner=unittest.TextTestRunner(verbosity=2, resultclass=CrashLines), exit=False)
    if where := os.environ.get("IMRSIM_RESULTS"):
        Path(where).write_text("".join(f"{line}\n" for line in Lines.lines), encoding="utf-8")
    sys.exit(any(line.startswith("fail") for line in Lines.lines))
