# SPDX-License-Identifier: GPL-2.0-only
# Shared by the scripts in this folder: where things are kept, and how a step reports itself.
# shellcheck shell=bash

set -euo pipefail

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=${IMRSIM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/imrsim}
LOGS=$CACHE/logs
mkdir -p "$LOGS"

# What is downloaded, pinned. A later version may work; override it from the environment to try.
KERNEL_SOURCE_PKG=${IMRSIM_KERNEL_PKG:-linux-source-7.3}
KERNEL_SOURCE_VERSION=${IMRSIM_KERNEL_VERSION:-7.3.4-1~bpo13+1}
BINDGEN_VERSION=0.72.1
CARGO_FUZZ_VERSION=0.13.2
LLVM_MAJOR=19

say()  { printf '==> %s\n' "$*"; }
note() { printf '    %s\n' "$*"; }
die()  { printf 'error: %s\n' "$1" >&2; shift; [ $# -eq 0 ] || printf '       %s\n' "$@" >&2; exit 1; }

# print_help FILE: the comment block at the head of a script is its --help text.
print_help() { awk 'NR>2 && /^#/ {sub(/^# ?/, ""); print; next} NR>2 {exit}' "$1"; }

# step TITLE EXPECTED LOGNAME COMMAND...
# Runs COMMAND with its output in a log file and prints one line that grows while it works. When
# it fails, the tail of the log is shown and the script ends. EXPECTED is a hint such as "8 min".
# The last line of the log that starts with "progress:" is shown behind the elapsed time.
step() {
    local title=$1 expected=$2 log=$LOGS/$3.log
    shift 3
    printf '==> %s (about %s; log: %s)\n' "$title" "$expected" "$log"
    local start=$SECONDS pid rc=0 shown=0
    : >"$log"
    "$@" >"$log" 2>&1 </dev/null &
    pid=$!
    while kill -0 "$pid" 2>/dev/null; do
        sleep 1
        local elapsed=$((SECONDS - start)) every=30
        [ -t 1 ] && every=2
        if [ $((elapsed - shown)) -ge "$every" ]; then
            shown=$elapsed
            local progress
            progress=$(tail -c 20000 "$log" | grep -a '^progress:' | tail -1 | cut -c10- || :)
            if [ -t 1 ]; then
                printf '\r    ... %d s%s \033[K' "$elapsed" "$progress"
            else
                printf '    ... %d s%s\n' "$elapsed" "$progress"
            fi
        fi
    done
    wait "$pid" || rc=$?
    [ -t 1 ] && [ "$shown" -gt 0 ] && printf '\r\033[K'
    if [ "$rc" -ne 0 ]; then
        printf '    failed after %d s with exit code %d; the end of %s:\n' $((SECONDS - start)) "$rc" "$log"
        tail -n 30 "$log" | sed 's/^/    | /'
        die "$title failed" "The whole log is $log."
    fi
    note "done in $((SECONDS - start)) s"
}

# lock NAME: two checkouts that prepare the same cache wait for each other.
lock() {
    exec {lock_fd}>"$CACHE/$1.lock"
    flock -n "$lock_fd" || { say "waiting for another build of $1"; flock "$lock_fd"; }
}

have_package() { dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed; }

rustc_version() { rustc --version | cut -d' ' -f2; }

# The library sources of exactly this rustc, wherever they are; empty when there are none.
find_rust_src() {
    local candidate
    for candidate in "${RUST_LIB_SRC:-}" \
        "$(rustc --print sysroot)/lib/rustlib/src/rust/library" \
        "$CACHE/rust-src-$(rustc_version)/usr/src/rustc-$(rustc_version)/library" \
        "/usr/src/rustc-$(rustc_version)/library"; do
        if [ -n "$candidate" ] && [ -f "$candidate/core/src/lib.rs" ]; then
            printf '%s\n' "$candidate"
            return
        fi
    done
}

# What every kernel and module build needs in its environment.
build_env() {
    RUST_LIB_SRC=$(find_rust_src)
    [ -n "$RUST_LIB_SRC" ] || die "the Rust library sources for rustc $(rustc_version) are missing" \
        "Run 'make setup'."
    export RUST_LIB_SRC
    export LIBCLANG_PATH=/usr/lib/llvm-$LLVM_MAJOR/lib
    export PATH=$CACHE/tools/bindgen-$BINDGEN_VERSION/bin:$PATH
    export KBUILD_BUILD_USER=imrsim KBUILD_BUILD_HOST=imrsim
}

KERNEL_SRC=$CACHE/src/$KERNEL_SOURCE_PKG-$KERNEL_SOURCE_VERSION

# kernel_dir VARIANT: the build tree of a kernel, keyed by everything that went into it.
kernel_dir() {
    local key
    key=$( (printf '%s\n' "$KERNEL_SOURCE_PKG $KERNEL_SOURCE_VERSION" "$(rustc --version)" \
        "$BINDGEN_VERSION $LLVM_MAJOR" "$(find_rust_src)"; cat "$TOP/scripts/kernel.config"; \
        cat "$TOP/scripts/kernel-$1.config") | sha256sum | cut -c1-12)
    printf '%s/kernel/%s-%s\n' "$CACHE" "$1" "$key"
}
