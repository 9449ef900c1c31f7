#!/usr/bin/env bash
# Fuzzes the reader of model files for SECONDS (default 60), guided by coverage: tools/fuzz.sh
# [SECONDS]. Starts from the shipped and golden models; what was found before is kept in
# target/fuzz. A finding ends it with an error and a file in target/fuzz/found.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/packages.sh g++
corpus=target/fuzz/corpus
mkdir -p "$corpus" target/fuzz/found
cp weights/*.wgt weights/golden/*.wgt "$corpus"
# What `cargo fuzz` passes, but for its sanitizer, which needs a nightly compiler. The reader is
# safe code without allocations: what it can do wrong is panic, overflow or loop.
export RUSTFLAGS="--cfg fuzzing -C passes=sancov-module -C codegen-units=1
    -C llvm-args=-sanitizer-coverage-level=4
    -C llvm-args=-sanitizer-coverage-inline-8bit-counters
    -C llvm-args=-sanitizer-coverage-pc-table
    -C llvm-args=-sanitizer-coverage-trace-compares"
target=$(rustc -vV | sed -n 's/^host: //p')
cargo build --release --locked --manifest-path tools/fuzz/Cargo.toml --target "$target" \
    --target-dir target/fuzz
"target/fuzz/$target/release/wattgate-fuzz" "$corpus" -max_total_time="${1:-60}" -max_len=1200 \
    -timeout=5 -print_final_stats=1 -artifact_prefix=target/fuzz/found/
