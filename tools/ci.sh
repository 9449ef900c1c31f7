#!/usr/bin/env bash
# The checks. Installs the Debian packages that it needs and that are missing. Steps that fail are listed
# at the end.
#
#     tools/ci.sh         what every change must pass, within 30 minutes: the tests of tools/test.sh, lint, links,
#                         a build without std, figures of RESULTS.json
#     tools/ci.sh full    those and all others: documentation, images of firmware in QEMU, long tests, other
#                         processors, packages, demo, fuzzing
#
# Tests on measured data, and a part of the trainer's bounds, read ../shared/data; where that is
# absent each of them says so and is skipped, unless WATTGATE_REQUIRE_DATA is set.
set -uo pipefail
cd "$(dirname "$0")/.."

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

# Sets `used` to the seconds of processor time that the programs of this lane have taken.
processor() {
    # Not through a pipe: that would be another process, with programs of its own.
    local file=$place/times.$BASHPID
    times >"$file"
    used=$(awk -F '[ms ]+' 'NR == 2 { printf "%d", 60 * $1 + $2 + 60 * $3 + $4 }' "$file")
}

# step NAME COMMAND…: runs a check and keeps what became of it, and its last lines if it failed.
step() {
    local name=$1 start=$SECONDS used before became=ok output=$place/output.$BASHPID
    shift
    processor
    before=$used
    echo "== $name"
    "$@" > >(tee "$output") 2>&1 || became=FAILED
    # A moment for `tee`, which a program that stays behind may keep alive.
    [ $became = ok ] || { sleep 1; echo "== $name"; tail -n 8 "$output"; } >>"$place/failures"
    processor
    printf '%-6s %5d s %5d s  %s\n' "$became" $((SECONDS - start)) $((used - before)) "$name" \
        >>"$place/steps"
    echo "== $name: $became, $((SECONDS - start)) s"
}

# rustup's minimal profile has neither; elsewhere they come with the toolchain.
toolchain() {
    { cargo fmt --version && cargo clippy --version; } ||
        rustup component add rustfmt clippy
}

# The runtime depends on these five crates and on nothing else, and nothing but the trainer
# on burn or clap.
dependencies() {
    local direct
    direct=$(cargo tree --locked -p wattgate-runtime -e normal --depth 1 --prefix none -f '{lib}' |
        tail -n +2 | sort | tr '\n' ' ')
    if [ "$direct" != "heapless libm nalgebra postcard serde " ]; then
        echo "wattgate-runtime depends on: $direct"
        return 1
    fi
    # 1: nothing was found. Any other status is an error of git.
    git grep -lE '^(burn|clap)\b' -- '*/Cargo.toml' ':!trainer'
    [ $? -eq 1 ]
}

format() {
    cargo fmt --all --check && cargo fmt --all --check --manifest-path firmware-tests/Cargo.toml &&
        cargo fmt --check --manifest-path tools/fuzz/Cargo.toml
}

lint() {
    cargo clippy --release --locked --workspace --all-targets -- -D warnings
}

# The same of the images, for two of their processors.
lint_images() {
    cargo clippy --release --locked --manifest-path firmware-tests/Cargo.toml \
        -p wattgate-report -p wattgate-harness --target-dir target -- -D warnings &&
        (cd firmware-tests &&
            ../tools/cross.sh aarch64-unknown-none clippy --release --locked -- -D warnings &&
            ../tools/cross.sh thumbv7em-none-eabihf clippy --release --locked -- -D warnings)
}

documentation() {
    RUSTDOCFLAGS="-D warnings" cargo doc --release --locked --no-deps --workspace
}

# Links from a text of the project to a file of it.
links() {
    local file link broken=0
    while IFS=: read -r file link; do
        if [ ! -e "$(dirname "$file")/$link" ]; then
            echo "$file: there is no $link"
            broken=1
        fi
    done < <(git grep -oE '\]\([^):#]+\)' -- '*.md' | sed -E 's/\]\((.*)\)$/\1/')
    return $broken
}

# The demo from its start to a page that is drawn, on a phone as well. Its tests have built it:
# cargo would build burn again, with the features that the demo alone asks for.
demo() {
    target/release/wattgate-demo -o target/demo-report &&
        tools/demo-page.sh target/demo-report/index.html &&
        picture
}

# README.md's picture of a held limit is the one that the demo draws. Coordinates may differ, since a
# training differs a little between processors.
picture() {
    local picture=tools/demo/held-limit.svg drawn=target/demo-report/held-limit.svg bytes
    diff <(sed -E 's/points="[^"]*"//; s/[0-9]+//g' $picture) <(sed -E 's/points="[^"]*"//; s/[0-9]+//g' $drawn) || {
        echo "$drawn is drawn in another way than $picture; copy it there"
        return 1
    }
    bytes=$(stat -c %s $picture)
    [ "$bytes" -le 100000 ] || { echo "$picture has $bytes bytes, at most 100000"; return 1; }
}

# From a board to a held limit at half of the board's span, with what the tests have built. The
# bounds are wide: the board's time runs ten times as fast, whatever else this machine does.
learned() {
    local json figure name relation bound
    json=$(WATTGATE_BUILT=yes tools/learn.sh --limit 26W --json) || return
    echo "$json"
    for figure in 'board_minutes < 9' 'modes >= 15' 'time_mape < 20' 'power_mape < 15' \
        'over_430ms_pct < 0.5' 'excess_430ms_pct < 5' 'speed_vs_fixed_pct > 80'; do
        read -r name relation bound <<<"$figure"
        awk -v name="$name" -v relation="$relation" -v bound="$bound" '
            match($0, "\"" name "\": *[-0-9.e]+") {
                value = substr($0, RSTART, RLENGTH)
                sub(/.*: */, "", value)
                found = 1
                ok = relation == "<" ? value + 0 < bound : relation == ">" ? value + 0 > bound : \
                    value + 0 >= bound
            }
            END {
                if (!found || !ok) print name " is " value ", expected " relation " " bound
                exit !(found && ok)
            }' <<<"$json" || return
    done
}

# A part of the trainer's bounds, with priors that were learned without the scored corpus.
gate() {
    if [ ! -d ../shared/data ] && [ -z "${WATTGATE_REQUIRE_DATA:-}" ]; then
        echo "no ../shared/data: skipped"
        return
    fi
    # With the whole workspace, as the tests: for the trainer alone cargo would build burn again.
    cargo build --release --locked --workspace --exclude wattgate-bench --example bounds &&
        WATTGATE_BUILT=yes tools/bounds.sh ../shared/data gate
}

# The runtime with vectors in plain Rust, where a sum that leaves its range is a panic: what a
# debug build of a user does on a processor without vectors of its own. Then what only a build
# for firmware has: it refuses the large shape.
checked() {
    local -x WATTGATE_LANES=plain CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true \
        CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true
    local test=(cargo test --release --locked -p wattgate-runtime --target-dir target/checked)
    "${test[@]}" --features large-shapes --no-fail-fast && "${test[@]}" --lib &&
        "${test[@]}" --test it refusals::
}

# The tests of the governor and the estimator simulate hours, for which an emulator is too slow; the
# golden report runs both.
aarch64() {
    local test=(tools/cross.sh aarch64-unknown-linux-gnu test --release --locked
        -p wattgate-runtime --features large-shapes)
    "${test[@]}" --lib && "${test[@]}" --test it -- front:: golden:: network:: refusals:: &&
        "${test[@]}" --doc
}

# bare_metal TARGET…: the runtime for targets without std.
bare_metal() {
    local target
    for target in "$@"; do
        tools/cross.sh "$target" rustc --release --locked -p wattgate-runtime -- -D warnings ||
            return
    done
}

# RESULTS.md and the figures of other texts are those of RESULTS.json, and what is quick to run prints the same again.
figures() {
    target/release/wattgate-lab figures --check --run quick-loads,quick-methods
}

# The oldest compiler of the runtime, where rustup can fetch it.
oldest() {
    command -v rustup >/dev/null || { echo "no rustup: skipped"; return; }
    local version
    version=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' runtime/Cargo.toml)
    timeout 300 rustup toolchain install "$version" --profile minimal --no-self-update || {
        echo "rustup cannot fetch Rust $version: skipped"
        return
    }
    cargo "+$version" check --locked -p wattgate-runtime
}

# The tests that tools/test.sh leaves out, with their times, for which libtest has an unstable switch.
# Each name of the list must be that of a test.
long_tests() {
    local names name test=(cargo test --release --locked --workspace --no-fail-fast)
    "${test[@]}" --lib --bins --tests -- --list >"$place/list" || return
    names=$(<tools/long-tests.txt)
    for name in $names; do
        grep -q "^$name: test$" "$place/list" || { echo "tools/long-tests.txt: there is no test $name"; return 1; }
    done
    local -x "$(runner)=timeout -k 10 1800 env RUSTC_BOOTSTRAP=1"
    # shellcheck disable=SC2086
    "${test[@]}" --lib --bins --tests -- -Z unstable-options --report-time --exact $names | tee -a "$place/tests" &&
        cargo test --release --locked -p wattgate-bench
}

# The variable that names what runs the programs which cargo has built for this machine.
runner() {
    local host
    host=$(rustc -vV | sed -n 's/^host: //p')
    host=${host^^}
    echo "CARGO_TARGET_${host//-/_}_RUNNER"
}

# A test that hangs fails, and the other steps still run.
tests() {
    local -x "$(runner)=timeout -k 10 900"
    tools/test.sh | tee "$place/tests"
}

# What needs no burn, beside the steps that build and test with it: at the lowest priority, since
# some of those run in real time. The package is last, when `target` is no longer locked.
beside() {
    renice -n 19 $BASHPID >/dev/null
    step "no_std" apart bare_metal aarch64-unknown-none
    [ "$which" = full ] || return
    step "oldest compiler of the runtime" apart oldest
    # Without the vector instructions of their processors.
    step "no_std without vectors" apart bare_metal aarch64-unknown-none-softfloat x86_64-unknown-none
    step "images in QEMU, budgets, planted faults" firmware-tests/run.sh
    step "runtime tests with overflow checks and plain vectors" checked
    step "host tests on AArch64" apart aarch64
    step "fuzzing" tools/fuzz.sh 20
    step "Debian package, emulated" tools/deb.sh
}

# What needs the build of the tests and is left out of the gate.
others() {
    step "lint of the images" lint_images
    step "documentation" documentation
    step "long tests" long_tests
    step "bounds of the trainer, a part" gate
    step "shards under Slurm" env WATTGATE_BUILT=yes tools/slurm.sh
    step "networks of the package onnx" env WATTGATE_BUILT=yes tools/networks.sh compose
    step "demo" demo
    step "commands of README.md" env WATTGATE_BUILT=yes tools/readme.sh
    step "learning on a simulated board" learned
    step "characterising, with a living board" env WATTGATE_BUILT=yes tools/characterize.sh --quick
    step "Python package" tools/python.sh
    step "steps of present tools" tools/steps.sh
    step "Debian package of the trainer, emulated" env WATTGATE_BUILT=yes tools/trainer-deb.sh
}

apart() {
    CARGO_TARGET_DIR=target/apart "$@"
}

which=${1-gate}
if [ $# -gt 1 ] || { [ $# -eq 1 ] && [ "$1" != full ]; }; then
    echo "ci.sh: it takes nothing or \`full\`, found $*" >&2
    exit 2
fi
packages=(gcc git libc6-dev python3 systemd)
[ "$which" = gate ] || packages+=(binutils chromium g++ gcc-aarch64-linux-gnu libc6-dev-arm64-cross mandoc
    python3-torch python3-venv qemu-system-arm qemu-user-static)
# All at once, as two of the lanes may not install at the same time.
step "packages" tools/packages.sh "${packages[@]}"
step "toolchain" toolchain
step "format" format
step "dependencies" dependencies
step "links" links
beside >"$place/beside" 2>&1 &
step "tests" tests
step "figures" figures
step "lint" lint
[ "$which" = gate ] || others
wait
cat "$place/beside"

echo "== slowest tests, in seconds"
sed -nE 's/^test (.*) \.\.\. .*<([0-9.]+)s>$/\2 \1/p' "$place/tests" | sort -rn | head -n 10
echo "== steps, with their times and those of the processor"
cat "$place/steps"
# Last, where a reader of the end of a long log finds them: what failed, and why.
[ ! -e "$place/failures" ] || cut -c 1-300 "$place/failures"
sed -n 's/^test \(.*\) \.\.\. FAILED.*/FAILED test \1/p; /^thread .* panicked at/{N;p}' "$place/tests" |
    cut -c 1-300
! grep -q ^FAILED "$place/steps"
