#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Power cuts: a guest is killed in the middle of its work, and what it was promised must be there at the next boot.

Needs the kernel and its module, and the tools. The guest writes sectors that can be told apart, with flushes and
durable writes, and prints each request that has ended; fio with verify and fsync works beside it. After a random time
QEMU is killed. The next guest resumes the drive from the same file, checks every promise that was printed, and goes on.

IMRSIM_CUTS=N cuts the power N times (default 3). With IMRSIM_RESULTS=FILE a line 'pass|fail|skip NAME WHY' is written.
IMRSIM_KERNEL=release|debug. Takes about 20 seconds for each cut.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests"))
sys.dont_write_bytecode = True
from runner_test import Lines  # noqa: E402 # pylint: disable=wrong-import-position
from console import EMULATOR  # noqa: E402 # pylint: disable=wrong-import-position,wrong-import-order # runner_test finds it

VM = TOP / "scripts/vm"
TOOL = TOP / "target/release/imrsim-crashtool"
KERNEL = os.environ.get("IMRSIM_KERNEL", "release")
CUTS = int(os.environ.get("IMRSIM_CUTS", "3"))
SEED = int(os.environ.get("IMRSIM_SEED", "1"))
ZONES = 4
REQUEST = re.compile(r"[wd] \d+ \d+ \d+ \d+|f \d+ \d+")
LIMIT = {"debug": 600}.get(KERNEL, 240)


class CutLines(Lines):
    """The results under our own name."""

    def name(self, test: unittest.TestCase) -> str:
        return "power_cut." + ".".join(test.id().split(".")[1:])


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(word) for word in (task / "children").read_text().split()]
    return found


class PowerCut(unittest.TestCase):
    """Rounds on one disk."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.disk = Path(directory.name) / "disk"
        self.known = Path(directory.name) / "known"
        self.requests: list[str] = []
        with self.disk.open("wb") as out:
            out.truncate(40 << 20)
        self.random = random.Random(SEED)

    def round(self, number: int, first: int) -> str:
        """Boots a guest; cuts its power if it is to write. What it printed."""
        body = "".join(f"{line}\n" for line in self.requests)
        self.known.write_text(f"ops {len(body)}\n{body}")
        words = [VM, "run", TOP / "tests/crash/power_cut.sh", "--kernel", KERNEL, "--disk", self.disk, "--env", f"FIRST={first}",
                 "--env", f"SIZE={ZONES * 8192}", "--file", f"{TOOL}:/bin/crashtool", "--file", f"{self.known}:/known"]
        output, new = [], 0
        with subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True) as vm:
            late = threading.Timer(LIMIT, vm.kill)
            late.start()
            try:
                assert vm.stdout
                # So that a cut may come in the first moments, too, but mostly in the middle.
                wanted = self.random.choice([1, 20, 100, 300, 600])
                for line in vm.stdout:
                    line = line.rstrip("\n")
                    if REQUEST.fullmatch(line):
                        self.requests.append(line)
                        new += 1
                        if new == wanted:
                            time.sleep(self.random.random() * 0.2)
                            for pid in children(vm.pid):
                                os.kill(pid, signal.SIGKILL)
                    else:
                        output.append(line)
            finally:
                late.cancel()
        text = "\n".join(output)
        if first and EMULATOR in text:
            print("\n    the emulator has cut the power itself", end=" ")
            return text
        self.assertIn("verified", text, f"round {number}: {text}")
        self.assertNotIn("fio:", text)
        if first:
            self.assertGreater(new, 0, f"round {number}: {text}")
        return text

    def test_rounds(self) -> None:
        for number in range(CUTS):
            self.round(number, 1 + number * 10_000_000)
        text = self.round(CUTS, 0)
        print(f"\n    {CUTS} cuts, {len(self.requests)} requests; at last {text.splitlines()[-3:]}", end=" ")


if __name__ == "__main__":
    if not TOOL.exists():
        sys.exit("error: imrsim-crashtool is missing\n       Run 'scripts/util'.")
    unittest.main(testRunner=unittest.TextTestRunner(verbosity=2, resultclass=CutLines), exit=False)
    if where := os.environ.get("IMRSIM_RESULTS"):
        Path(where).write_text("".join(f"{line}\n" for line in CutLines.lines), encoding="utf-8")
    sys.exit(any(line.startswith("fail") for line in CutLines.lines))
