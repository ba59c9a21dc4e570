#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Tests of scripts/vm itself: that it notices what goes wrong in a guest.

Needs the release kernel and its module. Takes about a minute: a guest is booted a dozen times. With
IMRSIM_RESULTS=FILE a line 'pass|fail|skip NAME WHY' is written for each test.
"""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

VM = Path(__file__).resolve().parent.parent / "scripts/vm"
sys.dont_write_bytecode = True
sys.path.insert(0, str(VM.parent))
from console import Run  # noqa: E402

# Tests for the guest, each with what must be made of it.
GUEST_TESTS = r"""
test_good() { dmsetup targets | grep imrsim; }
test_fails() { grep nonsense /proc/version; echo not reached; }
test_fails_in_a_function() { same 'one' 1 2; }
test_skips() { skip 'it is a Sunday'; }
test_warns() { echo '<4>WARNING: CPU: 0 PID: 1 at fs/a.c:1 a+0x1/0x2' >/dev/kmsg; }
test_after_warning() { true; }
test_leaves_a_drive() { imr t /dev/ram0 1 $SMALL; }
test_runs_long() { # limit 2
    sleep 1000
}
test_after_long_one() { true; }
test_hangs_in_the_kernel() { # limit 8
    imr t /dev/ram0 1 $SMALL
    dmsetup suspend --noudevsync t
    iotool expect /dev/mapper/t
}
test_after_hang() { true; }
test_crashes() { echo c >/proc/sysrq-trigger; }
test_after_crash() { true; }
test_dies_as_in_the_emulator() { echo '<0>Oops: int3: 0000 [#1] SMP' >/dev/kmsg; poweroff -f; }
test_keeps_the_module_busy() {
    imr t /dev/ram0 1 $SMALL
    setsid sleep 1000 </dev/mapper/t &
    sleep 0.2
}
test_after_busy_module() { true; }
test_powers_off() { poweroff -f; }
test_after_power_off() { true; }
"""
EXPECTED = {
    "good": "pass",
    "fails": "fail exit code 1 after: grep nonsense",
    "fails_in_a_function": "fail one is 1, expected 2",
    "skips": "skip it is a Sunday",
    "warns": "fail the kernel said: WARNING: CPU: 0",
    "after_warning": "pass",
    "leaves_a_drive": "pass",
    "runs_long": "fail it took longer than 2 s",
    "after_long_one": "pass",
    "hangs_in_the_kernel": "fail it hangs in the kernel",
    "after_hang": "pass",
    "crashes": "fail the kernel said: Kernel panic",
    "after_crash": "pass",
    "dies_as_in_the_emulator": "fail the kernel said: Oops: int3",
    "keeps_the_module_busy": "fail the module does not unload",
    "after_busy_module": "pass",
    "powers_off": "fail the guest ended in the middle",
    "after_power_off": "pass",
}

COMPLAINTS = """
WARNING: CPU: 1 PID: 77 at drivers/md/dm.c:1 dm_x+0x1/0x2
------------[ cut here ]------------ kernel BUG at mm/slub.c:1!
BUG: KASAN: slab-use-after-free in dm_x+0x1/0x2
BUG: sleeping function called from invalid context at kernel/a.c:1
BUG: unable to handle page fault for address: 0
BUG: scheduling while atomic: sh/1/0x2
Oops: general protection fault, probably for non-canonical address 0x1: 0000 [#1] SMP
WARNING: possible circular locking dependency detected
WARNING: inconsistent lock state
WARNING: suspicious RCU usage
INFO: task kworker/0:1:10 blocked for more than 122 seconds.
INFO: trying to register non-static key.
rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
watchdog: BUG: soft lockup - CPU#0 stuck for 22s!
kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)
unreferenced object 0xffff888003c4a000 (size 64):
refcount_t: underflow; use-after-free.
list_del corruption. prev->next should be 1
rust_kernel: panicked at kernel/a.rs:1:2:
UBSAN: shift-out-of-bounds in a.c:1:2
Kernel panic - not syncing: Fatal exception
=============================================================================
BUG kmalloc-64 (Tainted: G): Objects remaining on __kmem_cache_shutdown()
""".strip().splitlines()

HARMLESS = """
device-mapper: table: 252:0: imrsim: phases takes a number from 1 to 64 (-22)
dm_imrsim: loading out-of-tree module taints kernel.
Buffer I/O error on dev dm-0, logical block 0, async page read
sysrq: Show Blocked State
EXT4-fs (dm-0): mounted filesystem with ordered data mode
""".strip().splitlines()


def processes_with(text: str) -> list[int]:
    """The processes that have a text on their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text.encode() in entry.read_bytes() and int(entry.parent.name) != os.getpid():
                found.append(int(entry.parent.name))
        except OSError:
            pass
    return found


class Console(unittest.TestCase):
    """What is made of the lines of a console, without a guest."""

    def run_lines(self, *texts: str):
        run = Run("", hold=True)
        with open(os.devnull, "w", encoding="utf-8") as null:
            sys.stdout, stdout = null, sys.stdout
            try:
                for text in texts:
                    run.line(text)
            finally:
                sys.stdout = stdout
        return run

    def test_complaints_are_known(self) -> None:
        for text in COMPLAINTS[:-2] + COMPLAINTS[-1:]:
            with self.subTest(text):
                run = self.run_lines("[    1.000000] @@ up", "[    2.000000] @@ start a", f"[    3.000000] {text}",
                                     "[    4.000000] @@ pass a 1.0", "[    5.000000] @@ done")
                self.assertEqual(run.results["a"].outcome, "fail")
                self.assertIn("the kernel said", run.results["a"].why)

    def test_harmless_lines_are_no_complaints(self) -> None:
        for text in HARMLESS:
            with self.subTest(text):
                self.assertEqual(self.run_lines("[    1.000000] @@ up", f"[    3.000000] {text}").complaints, [])

    def test_programs_may_say_what_they_like(self) -> None:
        run = self.run_lines("[    1.000000] @@ up", "WARNING: this is mkfs", "BUG: so what")
        self.assertEqual(run.complaints, [])

    def test_a_kernel_line_behind_an_unfinished_one_counts(self) -> None:
        run = self.run_lines("[    1.000000] @@ up", "no newline[    2.000000] @@ start a",
                             "half a line[    3.000000] BUG: KASAN: x", "[    4.000000] @@ pass a 1.0")
        self.assertEqual(run.results["a"].outcome, "fail")

    def test_a_complaint_between_tests_is_not_lost(self) -> None:
        run = self.run_lines("[    1.000000] @@ up", "[    2.000000] @@ start a", "[    3.000000] @@ pass a 1.0",
                             "[    4.000000] WARNING: late", "[    5.000000] @@ done")
        self.assertEqual(run.stray(), ["after a: WARNING: late"])


class Guest(unittest.TestCase):
    """Guests that go wrong."""

    def setUp(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.path = Path(self.directory.name)

    def vm(self, *args: str, env: dict[str, str] | None = None, stdin=subprocess.DEVNULL) -> tuple[int, str]:
        """Runs scripts/vm; its exit code and what it printed."""
        done = subprocess.run([VM, *args], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=os.environ | (env or {}), timeout=300, check=False)
        return done.returncode, done.stdout

    def script(self, text: str) -> str:
        """A script for 'scripts/vm run'."""
        name = self.path / "script"
        name.write_text(text)
        return str(name)

    def test_results_of_tests(self) -> None:
        (self.path / "10-guest.sh").write_text(GUEST_TESTS)
        results = self.path / "results"
        code, output = self.vm("test", "--tests", str(self.path), "--disk", "64M", env={"IMRSIM_RESULTS": str(results)})
        self.assertEqual(code, 1, output)
        found = {}
        for line in results.read_text().splitlines():
            outcome, name, *why = line.split(" ", 2)
            found[name.removeprefix("10-guest.")] = " ".join([outcome, *why])
        self.assertEqual(list(found), list(EXPECTED), output)
        for name, start in EXPECTED.items():
            self.assertTrue(found[name].startswith(start), f"{name}: {found[name]!r} does not start with {start!r}\n{output}")
        passed = sum(what == "pass" for what in EXPECTED.values())
        self.assertIn(f"{passed} passed, {len(EXPECTED) - passed - 1} failed, 1 skipped", output)
        self.assertRegex(output, r"console log: \S+")

    def test_good_tests_pass(self) -> None:
        (self.path / "10-guest.sh").write_text(GUEST_TESTS)
        code, output = self.vm("test", "--tests", str(self.path), "--only", "*.good")
        self.assertEqual(code, 0, output)
        self.assertIn("1 passed, 0 failed, 0 skipped", output)

    def test_no_test_is_a_failure(self) -> None:
        code, output = self.vm("test", "--tests", str(self.path), "--only", "*.misspelt")
        self.assertEqual(code, 1, output)
        self.assertIn("no test was run", output)

    def test_script_that_works(self) -> None:
        (self.path / "input").write_text("from the host")
        code, output = self.vm("run", self.script("cat /data/in; echo; echo $COLOUR; blockdev --getsize64 /dev/vda; nproc"),
                               "--file", f"{self.path}/input:/data/in", "--env", "COLOUR=dark red", "--disk", "3M", "--icount")
        self.assertEqual(code, 0, output)
        for text in ("from the host", "dark red", str(3 << 20), "\n1\n"):
            self.assertIn(text, output)

    def test_script_that_fails(self) -> None:
        code, output = self.vm("run", self.script("exit 3"))
        self.assertEqual(code, 1, output)
        self.assertIn("exit code 3", output)

    def test_script_that_crashes(self) -> None:
        code, output = self.vm("run", self.script("echo c >/proc/sysrq-trigger"))
        self.assertEqual(code, 1, output)
        self.assertIn("Kernel panic", output)

    def test_script_that_leaves_the_module_busy(self) -> None:
        code, output = self.vm("run", self.script(
            "echo 0 8192 imrsim /dev/ram0 0 4 geometry 57 71 8 | dmsetup create t --noudevsync; dmsetup status"))
        self.assertEqual(code, 1, output)
        self.assertIn("the module does not unload", output)

    def test_script_without_an_end(self) -> None:
        disk = self.path / "disk"
        disk.write_bytes(bytes(1 << 20))
        begin = time.monotonic()
        code, output = self.vm("run", self.script("sleep 1000"), "--timeout", "6", "--disk", str(disk))
        self.assertEqual(code, 4, output)
        self.assertLess(time.monotonic() - begin, 60)
        self.assertEqual(processes_with(str(disk)), [])

    def test_end_of_the_runner_is_the_end_of_the_guest(self) -> None:
        for sign in (signal.SIGTERM, signal.SIGKILL):
            disk = self.path / f"disk{sign}"
            disk.write_bytes(bytes(1 << 20))
            with subprocess.Popen([VM, "run", self.script("echo here; sleep 1000"), "--disk", disk],
                                  stdout=subprocess.PIPE, text=True) as runner:
                assert runner.stdout
                for line in runner.stdout:
                    if line == "here\n":
                        break
                self.assertEqual(len(processes_with(f"file={disk}")), 1)
                runner.send_signal(sign)
            deadline = time.monotonic() + 10
            while processes_with(f"file={disk}") and time.monotonic() < deadline:
                time.sleep(0.1)
            self.assertEqual(processes_with(f"file={disk}"), [])

    def test_wrong_usage(self) -> None:
        for args in (["frob"], ["run"], ["run", "/nonexistent"], ["run", self.script(""), "--file", "nonsense"],
                     ["run", self.script(""), "--env", "1=2"], ["run", self.script(""), "--disk", "huge"], []):
            code, output = self.vm(*args)
            self.assertEqual(code, 2, f"{args}: {output}")

    def test_missing_module(self) -> None:
        code, output = self.vm("run", self.script(""), "--module", "/nonexistent.ko")
        self.assertEqual(code, 3, output)

    def test_shell_without_a_terminal(self) -> None:
        code, output = self.vm("shell")
        self.assertEqual(code, 2, output)
        self.assertIn("terminal", output)
        done = subprocess.run(f"{VM} shell <&-", shell=True, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 2, done)
        self.assertIn("terminal", done.stderr)

    def test_shell(self) -> None:
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(VM, [str(VM), "shell"])
        output, sent, deadline = "", 0, time.monotonic() + 120
        commands = ["echo $((6 * 7)); dmsetup status imrsim; tty\n", "exit\n"]
        while time.monotonic() < deadline and select.select([terminal], [], [], 120)[0]:
            try:
                output += os.read(terminal, 4096).decode(errors="replace")
            except OSError:
                break
            if sent < 2 and output.count("imrsim # ") > sent:
                os.write(terminal, commands[sent].encode())
                sent += 1
        if sent < 2:
            os.kill(pid, signal.SIGTERM)
        _, status = os.waitpid(pid, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0, output)
        self.assertRegex(output, r"\n42\r*\n", output)
        self.assertRegex(output, r"0 2097152 imrsim rw 0/262144", output)
        self.assertIn("/dev/ttyS0", output)


class Lines(unittest.TextTestResult):
    """Results as lines for scripts/test, besides the usual ones."""

    lines: list[str] = []

    def name(self, test: unittest.TestCase) -> str:
        """runner.Class.test"""
        return "runner." + ".".join(test.id().split(".")[1:])

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self.lines.append(f"pass {self.name(test)}")

    def addFailure(self, test: unittest.TestCase, err) -> None:
        super().addFailure(test, err)
        self.lines.append(f"fail {self.name(test)} {str(err[1]).splitlines()[0]}")

    def addError(self, test: unittest.TestCase, err) -> None:
        super().addError(test, err)
        self.lines.append(f"fail {self.name(test)} {err[1]!r}".splitlines()[0])

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.lines.append(" ".join(f"fail {self.name(test)} {subtest}".split()))


if __name__ == "__main__":
    program = unittest.main(testRunner=unittest.TextTestRunner(verbosity=2, resultclass=Lines), exit=False)
    if where := os.environ.get("IMRSIM_RESULTS"):
        Path(where).write_text("".join(f"{line}\n" for line in Lines.lines), encoding="utf-8")
    sys.exit(not program.result.wasSuccessful())
