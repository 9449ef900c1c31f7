"""Converts published measurements to corpora, for tools/measured.sh: measured.py SOURCES OUTPUT REFERENCE

Each function below reads one source from the folder SOURCES/OWNER+NAME and yields its corpora: file name, names of
the columns after the common ones, rows. Rows keep the order of the source. A blank cell is unknown.
"""

import csv
import json
import sys
from pathlib import Path

COMMON = ["device", "workload", "cores", "cpu_khz", "gpu_khz", "emc_khz", "time_ms", "power_mw"]


def table(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def khz(hertz):
    return int(float(hertz)) // 1000


def number(value, digits=9):
    return f"{float(value):.{digits}g}"


def bofl(folder):
    """Trainings. A file maps a mode, "CPU in kHz,GPU in Hz,memory in Hz", to seconds and joules of a minibatch."""
    jobs = {"ImageNet": "train-resnet50-imagenet-mb8", "CIFAR10": "train-vit-cifar10-mb32"}
    for board, device, cores in (("AGX", "xavier-agx", 8), ("TX2", "tx2", 6)):
        for job, workload in jobs.items():
            rows = []
            for mode, (seconds, joules) in json.loads((folder / board / f"{job}.json").read_text()).items():
                cpu_khz, gpu_hz, emc_hz = mode.split(",")
                measured = number(1000 * seconds), number(1000 * joules / seconds), number(joules)
                rows.append([device, workload, cores, cpu_khz, khz(gpu_hz), khz(emc_hz), *measured])
            yield f"{device}__{workload}__bofl.csv", ["energy_j"], rows


def translucence(folder):
    """Inference over 5,000 images. Its energy is a sum of power samples of unstated period: power is relative."""
    # The period in the same author's other code.
    sampling_s = 0.5
    knobs = (
        "cache_pressure swappiness dirty_ratio dirty_bg_ratio drop_caches policy sched_rt_runtime"
        " sched_child_runs_first memory_growth"
    ).split()
    counters = ["cycles", "instructions", "cache-misses", "context-switches", "major-faults"]
    for device in ("tx1", "tx2"):
        rows = []
        for row in table(folder / f"data/{device}_5000_image_target.csv"):
            seconds, samples_mw = float(row["inference_time"]), float(row["total_energy_consumption"])
            clocks = int(row["core_freq"]), khz(row["gpu_freq"]), khz(row["emc_freq"])
            power_mw = round(samples_mw * sampling_s / seconds, 3)
            measured = number(1000 * seconds, 10), number(power_mw, 10), number(samples_mw, 10)
            others = [number(row[column], 15) for column in knobs + counters]
            cores = int(float(row["num_cores"]))
            rows.append([device, "infer-image-5000", cores, *clocks, *measured, *others])
        yield f"{device}__image5000__translucence.csv", ["energy_raw_sum", *knobs, *counters], rows


def flexibo(folder):
    """Inference with Keras. Its power is a sum of samples whose period depends on the CPU's clock: left blank."""
    sizes = {"inceptionv3": (200, 400, 600, 800), "xception": (200, 600, 800)}
    for network, size in [(network, f"{n}x{n}") for network in sizes for n in sizes[network]]:
        rows = []
        for row in table(folder / f"data/measurements/tx2_sampled_output_{network}_{size}.csv"):
            cores = sum(int(row[f"core{core}_status"]) for core in range(4))
            clocks = int(row["core_freq"]), khz(row["gpu_freq"]), khz(row["emc_freq"])
            time_ms = number(1000 * float(row["inference_time"]), 10)
            others = number(row["power_consumption"], 10), row["config_name"]
            rows.append(["tx2", f"infer-{network}-{size}-keras-b1", cores, *clocks, time_ms, "", *others])
        yield f"tx2__{network}-{size}__flexibo.csv", ["raw_power_sum", "config_name"], rows


def distributed_learning(folder):
    """YOLOv8 over 1,800 frames. A file maps a mode to seconds and the energy of GPU, CPU and memory in µJ."""
    for size in (480, 640):
        rows = []
        file = folder / f"assets/result/energy/YOLOv8-1800-{size}.json"
        for mode, (seconds, gpu, cpu, memory) in json.loads(file.read_text()).items():
            cpu_khz, gpu_hz = mode.split(":")
            # The source averages each sample of CPU and memory with the GPU's sample before it, in place of
            # their own (AGXPowerLogger.py, getTotalEnergy). So each sum is half its own energy, half the GPU's.
            cpu, memory = 2 * cpu - gpu, 2 * memory - gpu
            powers = [number(energy / seconds / 1000) for energy in (gpu + cpu + memory, gpu, cpu, memory)]
            workload = f"infer-yolov8-1800frames-{size}"
            rows.append(["orin-agx-64", workload, "", cpu_khz, khz(gpu_hz), "", number(1000 * seconds), *powers])
        columns = ["gpu_soc_mw", "cpu_cv_mw", "vddq_mw"]
        yield f"orin-agx__infer-yolov8-{size}__distributed-learning.csv", columns, rows


def loudva(folder):
    """Inference with a Triton server. Each GPU clock has a table by concurrency, and mean powers in its order."""
    agx, nx = ("xavier-agx", "agx-xavier"), ("xavier-nx", "xavier-nx")
    for (device, name), concurrency in ((agx, 1), (agx, 4), (nx, 1)):
        measurements = folder / f"measurements/archive/Representative/{name}-00/measurements"
        head = "performance_measurements_freq_"
        rows = []
        for path in (measurements / "performance/freqs").glob(f"{head}*.csv"):
            gpu_hz = path.stem[len(head) :]
            row = next(row for row in table(path) if int(row["Concurrency"]) == concurrency)
            powers = (measurements / f"power/freqs/power_measurement_stats_freq_{gpu_hz}.csv").read_text()
            power_mw = powers.splitlines()[concurrency - 1].split("Mean: ")[1]
            latency_ms = float(row["p50 latency"]) / 1000
            measured = number(1000 / float(row["Inferences/Second"])), number(power_mw), number(latency_ms)
            workload = f"infer-triton-concurrency-{concurrency}"
            rows.append([device, workload, "", "", khz(gpu_hz), "", *measured])
        rows.sort(key=lambda row: row[4])
        yield f"{device}__infer-triton-c{concurrency}__loudva.csv", ["p50_latency_ms"], rows


def energyllm(folder):
    """Decoding by a language model. Each clock has 11 repeats, one for each clock of the prefill before it."""
    # The source numbers the clocks (grpo_early_exit.py).
    clocks_khz = [*range(306000, 1224001, 102000), 1300500]
    results = table(folder / "Code/grpo/logs/grid_search_results_20251128_075945.csv")
    for minibatch in (1, 8):
        rows = []
        for row in results:
            if int(row["effective_batch_size"]) == minibatch:
                time_ms, power_mw = 1000 * float(row["decode_time"]), 1000 * float(row["decode_power_w"])
                measured = number(time_ms), number(power_mw), number(row["temperature"])
                workload, gpu_khz = f"llm-decode-100tokens-mb{minibatch}", clocks_khz[int(row["decode_freq_bin"])]
                rows.append(["orin-agx-64", workload, "", "", gpu_khz, "", *measured])
        yield f"orin-agx__llm-decode-mb{minibatch}__energyllm.csv", ["temperature_c"], rows


SOURCES = {
    "hongpeng-guo+BoFL": bofl,
    "iqbal128855+Translucence": translucence,
    "softsys4ai+FlexiBO": flexibo,
    "lijiaxi2018+Distributed-Learning": distributed_learning,
    "iloudaros+LoudVA": loudva,
    "Zanatticus+EnergyLLM": energyllm,
}


def distance(one, other):
    """Relative difference of two cells in percent; 100 if one of them is no number."""
    if one == other:
        return 0.0
    try:
        one, other = float(one), float(other)
    except ValueError:
        return 100.0
    return 100 * abs(one - other) / max(abs(one), abs(other), 1e-300)


def compare(path, reference):
    """Says whether a new file is equal to the reference, or how far it differs at most."""
    if path.read_bytes() == reference.read_bytes():
        return "equal to the last byte"
    ours, theirs = (list(csv.reader(file.read_text().splitlines())) for file in (path, reference))
    if ours[0] != theirs[0] or len(ours) != len(theirs):
        return f"DIFFERS: other columns, or not {len(theirs) - 1} rows"
    worst, column = max(
        (distance(one, other), column)
        for our_row, their_row in zip(ours[1:], theirs[1:])
        for one, other, column in zip(our_row, their_row, ours[0])
    )
    return f"DIFFERS: by {worst:.3g} % at most, in {column}" if worst else "DIFFERS: in line ends or quotes only"


def main(sources, output, reference):
    """Ends with code 3 if a file differs from the reference."""
    differs = False
    for name, convert in SOURCES.items():
        for file, columns, rows in convert(sources / name):
            path = output / file
            with open(path, "w", newline="") as corpus:
                csv.writer(corpus, lineterminator="\n").writerows([COMMON + columns, *rows])
            known = reference / file
            found = compare(path, known) if known.exists() else ""
            differs |= found.startswith("DIFFERS")
            print(f"{file}: {len(rows)} rows" + (found and f"; beside ../shared/data: {found}"))
    sys.exit(3 if differs else 0)


main(*map(Path, sys.argv[1:]))
