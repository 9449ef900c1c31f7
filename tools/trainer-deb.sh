#!/usr/bin/env bash
# Builds the Debian package of the trainer for a Jetson, target/debian/wattgate-trainer_*_arm64.deb,
# and checks it: its files, that the program is static, its manual pages. In an emulator the packaged
# trainer then plans and trains on a few modes of the TX1, as `wattgate learn` lets it, and its model
# and that of this machine's trainer are compared with the measurements.
#
#     tools/trainer-deb.sh
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/debian.sh

most_bytes=$((10 * 1024 * 1024))
# Highest mean error on the modes that a model was trained on; seen were 0.3 %.
most_percent=2

tools/packages.sh binutils gcc libc6-dev mandoc python3 qemu-user-static
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
# As the tests of tools/ci.sh, which have built the same macros and build scripts.
lto=off
# As tools/ci.sh has built them for the tests. The trainer writes the manual pages and completions, for which the
# packaged program would need the emulator. The pages of the laboratory, which no package has, are checked with them.
[ -n "${WATTGATE_BUILT-}" ] || cargo build --release --locked -p wattgate-trainer -p wattgate-lab
trainer=$target/release/wattgate-trainer
pages=$target/$triple/release/wattgate-trainer.pages
rm -rf "$pages"
mkdir -p "$pages"
date=$(git log -1 --format=%cs -- trainer)
"$trainer" pages "$pages" --date "$date"
mkdir "$place/lab"
"$target/release/wattgate-lab" pages "$place/lab" --date "$date"
# clap_mangen breaks lines around the space before lists, which does no harm.
mandoc -T lint -W warning "$pages"/*.1 "$place"/lab/*.1 >"$place/lint" 2>/dev/null || true
! grep -v 'skipping paragraph macro: br' "$place/lint" || fail "manual pages"
bash -n "$pages/wattgate-trainer.bash" || fail "completions of bash"
# cargo-deb compresses pages only if they are no output of the build.
gzip -9n "$pages"/*.1
# For size, burn-flex builds in 80 s of processor time instead of 135, and training takes 11 % longer.
package wattgate-trainer wattgate-trainer 'MIT|Apache-2.0|MPL-2.0|Zlib' -p wattgate-trainer \
    --config 'profile.release.package.burn-flex.opt-level="s"' \
    --config 'profile.release.package.wattgate-trainer.strip="symbols"'

contents control <<'FILES'
-rwxr-xr-x 0/0 ./usr/bin/wattgate-trainer
-rw-r--r-- 0/0 ./usr/share/bash-completion/completions/wattgate-trainer
-rw-r--r-- 0/0 ./usr/share/doc/wattgate-trainer/changelog.gz
-rw-r--r-- 0/0 ./usr/share/doc/wattgate-trainer/copyright
-rw-r--r-- 0/0 ./usr/share/doc/wattgate-trainer/crates
-rw-r--r-- 0/0 ./usr/share/fish/vendor_completions.d/wattgate-trainer.fish
-rw-r--r-- 0/0 ./usr/share/man/man1/wattgate-trainer-check.1.gz
-rw-r--r-- 0/0 ./usr/share/man/man1/wattgate-trainer-completions.1.gz
-rw-r--r-- 0/0 ./usr/share/man/man1/wattgate-trainer-fit.1.gz
-rw-r--r-- 0/0 ./usr/share/man/man1/wattgate-trainer-inspect.1.gz
-rw-r--r-- 0/0 ./usr/share/man/man1/wattgate-trainer-plan.1.gz
-rw-r--r-- 0/0 ./usr/share/man/man1/wattgate-trainer-predict.1.gz
-rw-r--r-- 0/0 ./usr/share/man/man1/wattgate-trainer-select.1.gz
-rw-r--r-- 0/0 ./usr/share/man/man1/wattgate-trainer.1.gz
-rw-r--r-- 0/0 ./usr/share/zsh/vendor-completions/_wattgate-trainer
FILES
program wattgate-trainer "$most_bytes"

emulated=(qemu-aarch64-static "$root/usr/bin/wattgate-trainer")
python3 tools/trainer-deb.py "$most_percent" "$trainer" -- "${emulated[@]}"
echo "$deb"
