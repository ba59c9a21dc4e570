# SPDX-License-Identifier: GPL-2.0-only
"""What the console of the guest that scripts/vm boots says: results of tests, and complaints of the kernel."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field

# What a kernel says when something is wrong. Looked for in kernel messages only.
COMPLAINT = re.compile("|".join([
    "WARNING:", r"\bBUG\b", "Oops", "[Kk]ernel panic", "panicked at", "general protection", "invalid opcode",
    "Unable to handle", "stack guard page", "KASAN", "UBSAN", "KCSAN", "refcount_t:", "list_(add|del) corruption",
    "bad page state", "Objects remaining", "INFO: (task|rcu|possible|trying)", "blocked for more than", "detected stall",
    "soft lockup", "hard LOCKUP", "circular locking", "recursive locking", "inconsistent lock state",
    "lock held when returning", "still has locks", "DEBUG_LOCKS_WARN_ON", "sleeping function", "scheduling while atomic",
    "suspicious RCU", "new suspected memory leaks", "unreferenced object",
]))
# What the kernel says when QEMU 7.2, emulating two CPUs, runs code that has just been patched as it was before.
EMULATOR = "Oops: int3"
# How often that is excused in one run.
EMULATOR_DEATHS = 3
KERNEL_LINE = re.compile(r"\[ *\d+\.\d{6}\](?:\[ *[TC]\d+\])? (.*)")


@dataclass
class Result:
    """What became of one test."""

    name: str
    outcome: str
    seconds: float
    why: str

    def __str__(self) -> str:
        return f"  {self.outcome:4} {self.name:44} {self.seconds:6.1f} s   {self.why}".rstrip()


@dataclass
class Run:
    """Follows the console of one or more boots of the guest."""

    # What stands before the guest's own lines.
    prefix: str
    # Kernel messages that are no complaint are held back and shown only with a failure.
    hold: bool
    held: list[str] = field(default_factory=list)
    current: str = ""
    last: str = ""
    started: float = 0.0
    up: bool = False
    done: bool = False
    exit_code: int | None = None
    results: dict[str, Result] = field(default_factory=dict)
    complaints: list[tuple[str, str]] = field(default_factory=list)
    emulator_deaths: int = 0

    def finish(self, name: str, outcome: str, seconds: float, why: str) -> None:
        """Notes a result. A test that passed is failed by the kernel's complaints during it."""
        heard = [text for place, text in self.complaints if place == name]
        if outcome != "fail" and heard:
            outcome, why = "fail", f"the kernel said: {heard[0]}"
        if outcome == "fail":
            for text in self.held[-12:]:
                print(f"{self.prefix}kernel: {text}")
        self.held.clear()
        self.results[name] = Result(name, outcome, seconds, why)
        print(self.results[name], flush=True)
        self.current, self.last = "", name

    def where(self) -> str:
        """Which test a line belongs to."""
        return self.current or (f"after {self.last}" if self.last else "script" if self.up else "boot")

    def line(self, text: str) -> None:
        """Takes one line of the console."""
        kernel = KERNEL_LINE.search(text)
        if kernel and kernel[1].startswith("@@ "):
            self.report(kernel[1][3:])
        elif kernel:
            bad = COMPLAINT.search(kernel[1])
            if bad:
                self.complaints.append((self.where(), kernel[1]))
            if bad or (self.up and not self.done and not self.hold):
                print(f"{self.prefix}kernel: {kernel[1]}", flush=True)
            elif self.up:
                self.held.append(kernel[1])
        elif text.strip():
            print(f"{self.prefix}{text}", flush=True)

    def report(self, text: str) -> None:
        """Takes one line of the protocol; tests/vm/init describes it."""
        word, _, rest = text.partition(" ")
        name, _, detail = rest.partition(" ")
        if word == "up":
            self.up = True
        elif word == "start":
            self.current, self.started = name, time.monotonic()
        elif word in ("pass", "fail", "skip"):
            seconds, _, why = detail.partition(" ")
            self.finish(name, word, float(seconds), why)
        elif word == "exit":
            self.exit_code, self.last = int(name), "script"
        elif word == "done":
            self.done = True

    def cut_short(self, why: str) -> None:
        """The guest is gone; the test that was running, if any, has failed."""
        if self.current:
            heard = [text for place, text in self.complaints if place == self.current]
            self.finish(self.current, "fail", time.monotonic() - self.started,
                        f"the kernel said: {heard[0]}" if heard else why)

    def blame_emulator(self) -> bool:
        """Whether a mistake of the emulator ended the guest. If so, that is forgotten, for the test to be run again."""
        place = self.where()
        if self.emulator_deaths == EMULATOR_DEATHS or (place, EMULATOR) not in [
                (where, text[:len(EMULATOR)]) for where, text in self.complaints]:
            return False
        self.emulator_deaths += 1
        print(f"    the emulator ran code that had been patched as it was before; once more from {place}", flush=True)
        self.complaints = [it for it in self.complaints if it[0] != place]
        self.current = ""
        self.held.clear()
        return True

    def stray(self) -> list[str]:
        """Complaints that no failed test accounts for."""
        return [f"{place}: {text}" for place, text in self.complaints
                if place not in self.results or self.results[place].outcome != "fail"]
