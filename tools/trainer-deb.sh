#!/usr/bin/env bash
# Builds the Debian package of the trainer for a Jetson, target/debian/wattgate-trainer_*_arm64.deb,
# and checks it: its files, that the program is static, its manual page. In an emulator the packaged
# trainer then plans and trains on a few modes of the TX1, as `wattgate learn` lets it, and its model
# is compared with the one of this machine's trainer.
#
#     tools/trainer-deb.sh
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/debian.sh

most_bytes=$((10 * 1024 * 1024))
# Highest difference of a prediction. Sums of floating-point numbers differ between processors, and
# training amplifies that; seen were 3.1 %.
most_percent=5

tools/packages.sh binutils gcc libc6-dev mandoc python3 qemu-user-static
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
# As the tests of tools/ci.sh, which have built the same macros and build scripts.
export CARGO_PROFILE_RELEASE_LTO=off
# For size, burn-flex builds in 80 s of processor time instead of 135, and training takes 11 % longer.
package wattgate-trainer wattgate-trainer 'MIT|Apache-2.0|MPL-2.0|Zlib' -p wattgate-trainer \
    --config 'profile.release.package.burn-flex.opt-level="s"'

contents control <<'FILES'
-rwxr-xr-x 0/0 ./usr/bin/wattgate-trainer
-rw-r--r-- 0/0 ./usr/share/doc/wattgate-trainer/changelog.gz
-rw-r--r-- 0/0 ./usr/share/doc/wattgate-trainer/copyright
-rw-r--r-- 0/0 ./usr/share/doc/wattgate-trainer/crates
-rw-r--r-- 0/0 ./usr/share/man/man1/wattgate-trainer.1.gz
FILES
program wattgate-trainer "$most_bytes"

mandoc -T lint -W style trainer/wattgate-trainer.1 >"$place/lint" 2>/dev/null || true
! grep -v 'referenced manual not found' "$place/lint" || fail "manual page"
emulated=(qemu-aarch64-static "$root/usr/bin/wattgate-trainer")
"${emulated[@]}" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | grep -vx help |
    diff - <(sed -n 's/^\.It Cm //p' trainer/wattgate-trainer.1) ||
    fail "the manual page has other commands than the program"

# As tools/ci.sh has built it for the tests.
[ -n "${WATTGATE_BUILT-}" ] || cargo build --release --locked -p wattgate-trainer
python3 tools/trainer-deb.py "$most_percent" "$target/release/wattgate-trainer" -- "${emulated[@]}"
echo "$deb"
