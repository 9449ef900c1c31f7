#!/usr/bin/env bash
# Counts the steps of present tools with `wattgate --steps-from NAME`, and compares them with the steps that each tool
# has done: tools/steps.sh [TOOL…]
#
# The tools are tqdm, keras, hf, lightning, ultralytics and llama.cpp, in their newest versions from PyPI: 3.1 GB to download,
# 7 GB below target/ on disk. Each runs in a pipe and in terminals, for a quarter of an hour in all. A pace that is
# off by more than 3 % fails.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/packages.sh python3-venv
place=${CARGO_TARGET_DIR:-target}/steps
mkdir -p "$place"
place=$(realpath "$place")
# Any answer of the registry will do, but none says that there is no network.
/usr/bin/python3 -m venv "$place/venv"
"$place/venv/bin/pip" download -q --no-deps -d "$place/reached" tqdm 2>"$place/why" || {
    echo "PyPI is not reached: skipped"
    exit
}
"$place/venv/bin/pip" install -q --upgrade tqdm keras torch transformers accelerate lightning rich ultralytics xllamacpp gguf
if [ -z "${WATTGATE_BUILT-}" ]; then
    cargo build --release --locked -p wattgate-profiler --example count_recorded
fi
"$place/venv/bin/python" tools/steps/compare.py "${CARGO_TARGET_DIR:-target}/release/examples/count_recorded" "$place" "$@"
