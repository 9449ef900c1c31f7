#!/usr/bin/env bash
# How fast the runtime is, beside tract and ONNX Runtime on the same networks, and what it must
# reach; fails where a bound is missed.
#
#     tools/bench.sh
#
# Builds `sweep` twice, for any x86-64 and for x86-64-v3. Then it measures for some four minutes;
# leave the machine alone meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/packages.sh gcc libc6-dev python3-venv valgrind

python=target/bench-venv/bin/python
if [ ! -x "$python" ]; then
    python3 -m venv target/bench-venv
fi
"$python" -m pip install -q tract==0.23.9 onnxruntime==1.31.0 numpy==2.4.6

export CARGO_PROFILE_RELEASE_LTO=thin
cargo build --release --locked -p wattgate-bench
RUSTFLAGS=-Ctarget-cpu=x86-64-v3 cargo build --release --locked -p wattgate-bench \
    --target-dir target/v3

# The instructions of so many sweeps with a shape.
instructions() {
    local sweep=$1 shape=$2 sweeps=$3
    valgrind --tool=callgrind --callgrind-out-file=/dev/null \
        "$sweep" --sweeps "$sweeps" --shape "$shape" 2>&1 |
        awk '/Collected/ { print $NF }'
}

missed=0
for sweep in target/release/sweep target/v3/release/sweep; do
    echo
    echo "\$ $sweep --peer $python"
    "$sweep" --peer "$python"

    echo
    echo "Instructions a mode, of 18,096, with the tables, by callgrind"
    for shape in 16 32 8-8 16-16 256-128-64; do
        once=$(instructions "$sweep" "$shape" 1)
        twice=$(instructions "$sweep" "$shape" 2)
        awk -v shape="$shape" -v more=$((twice - once)) \
            'BEGIN { printf "%-11s %9.1f\n", shape, more / 18096 }'
    done

    echo
    echo "\$ $sweep --bounds --peer $python --rounds 500"
    "$sweep" --bounds --peer "$python" --rounds 500 || missed=1
done
exit $missed
