#!/usr/bin/env bash
# The tests that a change of the code needs: those of all crates but the benches, without the long ones
# (tools/long-tests.txt). tools/ci.sh full runs the rest: lint, long tests, other processors, packages.
#
#     tools/test.sh
#
# Tests on measured data read ../shared/data; where that is absent they say so and are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/ready.sh

[ $# -eq 0 ] || fail "it takes no arguments, found $*"
ready 1600 14 gcc libc6-dev
tests=(--release --locked --workspace --exclude wattgate-bench)
cargo test "${tests[@]}" --lib --bins --tests --no-run || not_built
built
skipped=()
while read -r name; do skipped+=(--skip "$name"); done <tools/long-tests.txt
cargo test "${tests[@]}" --lib --bins --tests --no-fail-fast -- "${skipped[@]}" ||
    fail "a test failed; its name and message are above, after \`failures:\`"
cargo test "${tests[@]}" --doc || fail "an example in the documentation failed; it is above"
echo "test.sh: all passed"
