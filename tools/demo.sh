#!/usr/bin/env bash
# The main job on a board that plays back what a real Jetson TX1 did: profiles a workload, learns from it, chooses a
# mode for each limit, and lets the watchdog hold a limit that changes. Then a second workload on a simulated Jetson.
#
#     tools/demo.sh [OPTION…]
#
# The options are those of target/release/wattgate-demo, which tells them with --help once it is built.
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1-} in -h | --help) exec sed -n '2,/^set/s/^# \{0,1\}//p' tools/demo.sh ;; esac
# A build takes minutes, so an option that the program does not have is refused before.
for word in "$@"; do
    case $word in
    -o | -o?* | --output | --output=* | --seed | --seed=* | --json | -h | --help) ;;
    -*)
        echo "error: there is no option $word; expected -o DIR, --seed S or --json" >&2
        exit 2
        ;;
    esac
done
. tools/ready.sh

ready 1100 11 gcc libc6-dev
cargo build --release --locked -p wattgate-demo || not_built
built
"$target/release/wattgate-demo" "$@"
