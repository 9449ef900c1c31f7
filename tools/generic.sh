#!/usr/bin/env bash
# Learns the generic models of weights/, one for each of five boards: how its modes compare under any workload. Their rows
# are geometric means over workloads on a simulated board. `resnet18` is none of these: tools/without-model.sh scores
# with it.
set -euo pipefail
cd "$(dirname "$0")/.."

workloads=(mobilenetv3 yolov8n lstm lenet vgg11)
boards=(orin-agx-64 orin-nano-8-super orin-nx-16 tx2 xavier-agx)

[ "${WATTGATE_BUILT:-}" = yes ] ||
    cargo build --release --locked -p wattgate-judge -p wattgate-trainer
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
for board in "${boards[@]}"; do
    for workload in "${workloads[@]}"; do
        target/release/wattgate-simulator corpus --board "$board" --workload "$workload" --modes random:1000 \
            --seed 1 -o "$place/$board-$workload.csv"
    done
    {
        echo device,workload,cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw,kind
        awk -F, -v OFS=, -v board="$board" '
        FNR == 1 { next }
        {
            mode = $3 OFS $4 OFS $5 OFS $6
            time[mode] += log($7)
            power[mode] += log($8)
            rows[mode]++
        }
        END {
            for (mode in rows)
                printf "%s,generic,%s,%.4f,%.1f,simulated\n", board, mode, exp(time[mode] / rows[mode]),
                    exp(power[mode] / rows[mode])
        }' "$place/$board"-*.csv | sort
    } >"$place/$board.csv"
    target/release/wattgate-trainer fit "$place/$board.csv" --seed 1 -o "weights/$board-generic.wgt"
done
