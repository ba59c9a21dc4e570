# SPDX-License-Identifier: GPL-2.0-only
# The front door. `make help` lists what there is.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# KDIR=/path: build for a kernel tree of your own instead of the kernels that the tests boot.
export KDIR
# Where 'make install' puts things, and what it takes for the root of the file system.
export PREFIX DESTDIR

.PHONY: help
help: ## this list
	@echo 'IMRSim: an interlaced magnetic recording (IMR) drive in the Linux kernel, simulated'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo '  make module KDIR=/path/to/tree   builds the module for a Rust-enabled kernel of your own'

.PHONY: demo
demo: setup release util ## the main job: an IMR drive in a VM, a trace replayed on it, its cost printed
	@scripts/demo

# WITHIN=80: 'make test' leaves out, and says so, what would not be done within so many minutes.
.PHONY: test
test: ## the tests: lints, host, and VMs with the release and the debug kernel
	@scripts/test $(if $(WITHIN),--within $(WITHIN))

.PHONY: test-all
test-all: ## the same, with every VM test on the debug kernel: an hour and a half more
	@scripts/test --all

.PHONY: bench
bench: setup release util ## what a request costs, beside dm-linear, and metadata: docs/benchmarks.md
	@scripts/bench

.PHONY: experiments
experiments: setup ## the experiments of the IMRSim paper about writes: docs/experiments.md
	@scripts/experiments

.PHONY: figures
figures: setup release util ## the pictures of the README, from a drive in a VM: docs/figures
	@scripts/figures

.PHONY: setup
setup: ## packages, Rust sources, bindgen and the kernel source
	@scripts/setup

.PHONY: kernel
kernel: setup ## both kernels for the VM
	@scripts/kernel release
	@scripts/kernel debug

.PHONY: release
release: setup
	@scripts/kernel release
	@scripts/module release

.PHONY: module
module: setup ## dm-imrsim.ko for the VM's kernel, or for KDIR
	@[ -n "$$KDIR" ] || scripts/kernel release
	@scripts/module release

.PHONY: util
util: ## imrsim_util
	@scripts/util

.PHONY: install
install: util ## imrsim_util, manual pages, completions and a module made with KDIR (PREFIX, DESTDIR)
	@scripts/install

.PHONY: uninstall
uninstall: ## removes what 'make install' installed
	@scripts/install --uninstall

.PHONY: deb
deb: setup ## Debian packages of the tool and, for DKMS, of the module: build/deb
	@scripts/deb

.PHONY: shell
shell: setup release util ## a VM with the module loaded and the tools on the PATH
	@scripts/vm shell

.PHONY: lint
lint: ## formatting, clippy for both sides, the rules of the house
	@scripts/lint

# SECONDS_EACH=600: how long each target runs, instead of 30 s.
.PHONY: fuzz
fuzz: ## fuzzes the parsers of traces with a nightly toolchain, 30 s each
	@scripts/fuzz $(if $(SECONDS_EACH),--seconds $(SECONDS_EACH))

.PHONY: clean
clean: ## removes what was built here; kernels and downloads stay in the cache
	rm -rf build target
