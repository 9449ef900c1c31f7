#!/usr/bin/env bash
# All checks, as CI runs them: tools/ci.sh. Installs the Debian packages that it needs and
# that are missing. Steps that fail are listed at the end.
#
# Tests on measured data read ../shared/data; where that is absent each of them says so and
# is skipped, unless WATTGATE_REQUIRE_DATA is set.
set -uo pipefail
cd "$(dirname "$0")/.."

passed=0
failed=()

step() {
    local name=$1
    shift
    echo "== $name"
    local start=$SECONDS
    if "$@"; then
        passed=$((passed + 1))
        echo "== $name: ok, $((SECONDS - start)) s"
    else
        failed+=("$name")
        echo "== $name: FAILED, $((SECONDS - start)) s"
    fi
}

# quick COMMAND…: without LTO across crates, which would optimise each of the many test programs
# anew. The images and the packaged daemon are tested as they ship, with it.
quick() {
    CARGO_PROFILE_RELEASE_LTO=false "$@"
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
    git grep -lE '^(burn|clap)\b' -- '*/Cargo.toml' ':!trainer/Cargo.toml'
    [ $? -eq 1 ]
}

format() {
    cargo fmt --all --check && cargo fmt --all --check --manifest-path firmware-tests/Cargo.toml &&
        cargo fmt --check --manifest-path tools/fuzz/Cargo.toml
}

lint() {
    cargo clippy --release --locked --workspace --all-targets -- -D warnings &&
        cargo clippy --release --locked --manifest-path firmware-tests/Cargo.toml \
            -p wattgate-report -p wattgate-harness --target-dir target -- -D warnings &&
        (cd firmware-tests &&
            ../tools/cross.sh aarch64-unknown-none clippy --release --locked -- -D warnings &&
            ../tools/cross.sh thumbv7em-none-eabihf clippy --release --locked -- -D warnings)
}

documentation() {
    RUSTDOCFLAGS="-D warnings" cargo doc --release --locked --no-deps --workspace && links
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

# The demo from its start to a page that is drawn, on a phone as well.
demo() {
    cargo run --release --locked -p wattgate-demo -- -o target/demo-report &&
        tools/demo-page.sh target/demo-report/index.html
}

# The runtime with vectors in plain Rust, where a sum that leaves its range is a panic: what a
# debug build of a user does on a processor without vectors of its own. Then what only a build
# for firmware has: it refuses the large shape.
checked() {
    local -x WATTGATE_LANES=plain CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true \
        CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_LTO=off
    local test=(cargo test --release --locked -p wattgate-runtime --target-dir target/checked)
    "${test[@]}" --features large-shapes --no-fail-fast && "${test[@]}" --lib --test refusals
}

# The tests of the governor and the estimator simulate hours, for which an emulator is too slow; the
# golden report runs both.
aarch64() {
    local test=(tools/cross.sh aarch64-unknown-linux-gnu test --release --locked
        -p wattgate-runtime --features large-shapes)
    "${test[@]}" --lib --test front --test golden --test network --test refusals &&
        "${test[@]}" --doc
}

# Targets without std; the latter two have none of the vector instructions of their processors.
bare_metal() {
    local target
    for target in aarch64-unknown-none aarch64-unknown-none-softfloat x86_64-unknown-none; do
        tools/cross.sh $target rustc --release --locked -p wattgate-runtime -- -D warnings ||
            return
    done
}

step "packages" tools/packages.sh gcc git libc6-dev systemd
step "toolchain" toolchain
step "format" format
step "dependencies" dependencies
step "lint" quick lint
step "documentation" quick documentation
step "host tests" quick cargo test --release --locked --workspace --no-fail-fast
step "runtime tests with overflow checks and plain vectors" checked
step "demo" quick demo
step "no_std, bare metal with and without vectors" bare_metal
step "fuzzing" tools/fuzz.sh 20
step "images in QEMU, budgets, planted faults" firmware-tests/run.sh
step "Debian package, emulated" tools/deb.sh
step "host tests on AArch64" quick aarch64

for failure in "${failed[@]}"; do
    echo "FAILED $failure"
done
echo "steps: $passed passed, ${#failed[@]} failed"
[ ${#failed[@]} -eq 0 ]
