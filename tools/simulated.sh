# Sourced by scripts that run the daemon on a simulated board: simulated.sh MKTEMP-OPTION.
# Creates the directory $place and a config in it. At the end, kills the processes $daemon and
# $board and removes the directory.
place=$(mktemp -d "$@")
board=
daemon=
end() {
    for process in $daemon $board; do
        kill "$process" && wait "$process" || true
    done
    rm -rf "$place"
}
trap end EXIT
cat >"$place/wattgated.toml" <<CONFIG
version = 1
model = "$PWD/weights/orin-agx-64-resnet18.wgt"
limit = "30W"
CONFIG
