#!/usr/bin/env bash
# Runs the commands of README.md in its order, as they stand there, and compares what they print with
# what README.md shows. What README.md types on a board runs on a simulated one.
#
#     tools/readme.sh
#
# Fails on a command that is neither run here nor named below as that of another step.
set -euo pipefail
cd "$(dirname "$0")/.."

for package in wattgate-trainer wattgate-judge wattgate-profiler wattgate-watchdog; do
    [ -n "${WATTGATE_BUILT-}" ] || cargo build --release --locked -p $package
done
programs=$(realpath -m "${CARGO_TARGET_DIR:-target}")/release
tmp=/dev/shm
[ -w $tmp ] || tmp=/tmp
. tools/simulated.sh --tmpdir=$tmp
trap 'board=${boards[*]}; end' EXIT
mkdir "$place/bin" "$place/here"
cp -r trainer "$place/here/"

# program NAME BODY: a program that README.md's commands find in PATH.
program() {
    printf '#!/bin/sh\n%s\n' "$2" >"$place/bin/$1"
    chmod +x "$place/bin/$1"
}

# board NAME SPEED: a simulated board, on which the commands run from now on.
board() {
    "$programs/wattgate-simulator" board --board orin-agx-64 --root "$place/$1" --speed "$2x" &
    boards+=($!)
    until [ -s "$place/$1/progress" ]; do sleep 0.1; done
    program wattgate "command=\$1
shift
case \$command in learn | run) speed='--speed $2' ;; esac
exec $programs/wattgate \$command --root $place/$1 \$speed \"\$@\""
    program wattgated "exec $programs/wattgated \"\$@\" --root $place/$1"
    program python3 "exec $programs/wattgate-simulator workload --root $place/$1 --workload mobilenetv3 --steps $3"
}

boards=()
ln -s "$programs/wattgate-trainer" "$place/bin/"
program sudo 'exec "$@"'
program systemctl '[ "$*" = "enable --now wattgated" ]'
board learning 10 1200

# Each line is a command, or behind a tab what it prints.
awk '
    function code(line) { while (match(line, /`[^`]+`/)) {
        print substr(line, RSTART + 1, RLENGTH - 2); line = substr(line, RSTART + RLENGTH) } }
    /^```/ { in_block = !in_block; is_session = in_block && /console/; next }
    in_block && is_session && /^\$ / { print substr($0, 3); next }
    in_block && is_session { print "\t" $0; next }
    in_block { next }
    /^    / { sub(/^ +/, ""); sub(/ +#.*/, ""); print; next }
    { code($0) }' README.md |
    grep -E '^(	|(sudo|tools/[a-z-]+\.sh|firmware-tests/run\.sh|cargo|wattgate[a-z-]*) ?)' |
    grep -vxE 'wattgate(d|-probe.*)?' | awk '/^\t/ || !seen[$0]++' >"$place/commands"

# agree SHOWN PRINTED: whether two texts have the same words, and numbers within a tenth: those of a
# training differ a little between processors. The time of a run, at the end of a line, may be any.
agree() {
    paste -d '\n' <(words "$1") <(words "$2") | awk '
        function is_number(word) { return word ~ /^-?[0-9.]*[0-9]$/ }
        NR % 2 { shown = $0; next }
        is_number(shown) && is_number($0) { if ((shown - $0) ^ 2 > (shown / 10) ^ 2) exit 1; next }
        shown != $0 { exit 1 }'
}

words() {
    sed -E 's/[0-9.]+ s$/s/' "$1" | tr -s ' ' '\n'
}

failed=0
run() {
    local command=$1 status=0
    case $command in
    tools/demo.sh | tools/test.sh) return ;; # tools/fresh.sh
    tools/deb.sh | tools/trainer-deb.sh | firmware-tests/run.sh | 'cargo doc '*) return ;; # tools/ci.sh
    'sudo apt install '*) return ;; # tools/kernel.sh
    'wattgate step' | 'wattgate learn') return ;; # named, not typed
    'cargo build --release -p wattgate-trainer') return ;; # above
    esac
    echo "\$ $command"
    (cd "$place/here" && PATH=$place/bin:$PATH timeout 300 bash -c "$command") >"$place/output" 2>&1 || status=$?
    cat "$place/output"
    case $command in
    *systemctl*) # The daemon's time is the real one.
        board daemon 1 60
        "$programs/wattgated" run --config "$place/learning/etc/wattgated.toml" --root "$place/daemon" &
        daemon=$!
        for _ in {1..100}; do
            "$place/bin/wattgated" status >/dev/null 2>&1 && break
            sleep 0.1
        done
        ;;
    esac
    if [ $status -ne 0 ]; then
        echo "readme.sh: FAILED with $status: $command" >&2
        failed=1
    elif [ -s "$place/shown" ] && ! agree "$place/shown" "$place/output"; then
        diff "$place/shown" "$place/output" || true
        echo "readme.sh: FAILED, README.md shows another output of: $command" >&2
        failed=1
    fi
}

command=
while IFS= read -r line; do
    case $line in
    $'\t'*) echo "${line#?}" >>"$place/shown" ;;
    *)
        [ -z "$command" ] || run "$command"
        command=$line
        : >"$place/shown"
        ;;
    esac
done < <(cat "$place/commands"; echo 'true')
exit $failed
