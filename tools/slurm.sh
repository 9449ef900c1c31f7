#!/usr/bin/env bash
# Runs a computation as an array job on a Slurm of this machine alone, with one node of two cores, and compares the merged
# parts with the whole. A shard fails on purpose, is named, and runs again alone. Needs root.
#
#     tools/slurm.sh
set -euo pipefail
cd "$(dirname "$0")/.."

tools/packages.sh gcc libc6-dev munge slurm-wlm
[ -n "${WATTGATE_BUILT-}" ] || cargo build --release --locked -p wattgate-judge
simulator=$(realpath -m "${CARGO_TARGET_DIR:-target}")/release/wattgate-simulator
place=$(mktemp -d /tmp/slurm.XXXXXX)
end() {
    for daemon in slurmd slurmctld munged; do
        [ ! -s "$place/$daemon.pid" ] || kill "$(cat "$place/$daemon.pid")" || true
    done
    sleep 1
    rm -rf "$place"
}
trap end EXIT
fail() {
    echo "slurm.sh: FAILED, $1" >&2
    tail -n 20 "$place"/*.log >&2 || true
    exit 1
}

# A key and a socket of its own, so that a munge of this machine is left alone.
chmod 755 "$place"
mkdir -m 700 "$place/key"
dd if=/dev/urandom of="$place/key/key" bs=1024 count=1 status=none
chmod 400 "$place/key/key"
munged --force --key-file="$place/key/key" --socket="$place/munge" --pid-file="$place/munged.pid" \
    --log-file="$place/munged.log" --seed-file="$place/seed"
cat >"$place/slurm.conf" <<CONFIG
ClusterName=wattgate
SlurmctldHost=$(hostname -s)
AuthType=auth/munge
AuthInfo=socket=$place/munge
SlurmUser=root
SlurmctldPort=26817
SlurmdPort=26818
StateSaveLocation=$place/state
SlurmdSpoolDir=$place/spool
SlurmctldPidFile=$place/slurmctld.pid
SlurmdPidFile=$place/slurmd.pid
SlurmctldLogFile=$place/slurmctld.log
SlurmdLogFile=$place/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
NodeName=$(hostname -s) CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
CONFIG
mkdir "$place/state" "$place/spool" "$place/parts"
export SLURM_CONF=$place/slurm.conf
slurmctld
slurmd
for _ in {1..60}; do
    [ "$(sinfo -h -o %T)" != idle ] || break
    sleep 1
done
[ "$(sinfo -h -o %T)" = idle ] || fail "the node is not idle: $(sinfo -h -o '%T %E')"

command=("$simulator" loads --kind llm --seeds 3)
echo "slurm.sh: ${command[*]}"
# Shard 2 cannot write its part.
mkdir "$place/parts/part-2.new"
sbatch --wait --array=1-3 tools/shards.sbatch "$place/parts" "${command[@]}" && fail "a shard failed, and the job did not"
rmdir "$place/parts/part-2.new"
said=$("$simulator" merge "$place"/parts/part-[0-9] 2>&1) && fail "a part is missing, and merge does not say so"
echo "$said"
[[ $said = *"shard 2/3 is missing"* ]] || fail "merge names another shard"
SHARDS=3 sbatch --wait --array=2 tools/shards.sbatch "$place/parts" "${command[@]}" || fail "shard 2 failed again"
"$simulator" merge "$place"/parts/part-[0-9] >"$place/merged"
"${command[@]}" >"$place/whole"
cmp "$place/merged" "$place/whole" || fail "the merged parts are not the whole"
echo "slurm.sh: three shards give the whole, $(wc -l <"$place/whole") lines"
