#!/usr/bin/env bash
# Builds every bare-metal image, runs it in QEMU and compares its console with the golden
# report. Images that fail are listed at the end.
#
# The report is that of the host test `runtime/tests/golden.rs`: equal consoles are equal
# bits of every prediction, front and answer.
set -uo pipefail
cd "$(dirname "$0")"

../tools/packages.sh qemu-system-arm || exit 1
golden=../weights/golden/report.txt
passed=0
failed=()

# image NAME TARGET QEMU [ARGUMENT…]
image() {
    local name=$1 target=$2
    shift 2
    local elf=target/$target/release/$name console=target/$name.txt
    echo "-- $name"
    if ! ../tools/cross.sh "$target" build --release --locked -p "$name"; then
        failed+=("$name: does not build, or contains code that can panic")
        return
    fi
    # QEMU writes a semihosting console to its standard error.
    if ! timeout 120 "$@" -nographic -nic none -semihosting -kernel "$elf" \
        </dev/null >/dev/null 2>"$console"; then
        failed+=("$name: did not end with success; see firmware-tests/$console")
    elif ! diff -u "$golden" "$console" | head -20; then
        failed+=("$name: its console differs from weights/golden/report.txt")
    else
        passed=$((passed + 1))
        echo "   $(wc -l <"$console") lines of console as in the golden report, the TX1's answer among them:"
        awk '/^model/ { tx1 = /tx1/ } tx1 && /least time within/ { print; exit }' "$console"
    fi
}

image wattgate-aarch64 aarch64-unknown-none qemu-system-aarch64 -M virt -cpu cortex-a76

for failure in "${failed[@]}"; do
    echo "FAILED $failure"
done
echo "images: $passed passed, ${#failed[@]} failed"
[ ${#failed[@]} -eq 0 ]
