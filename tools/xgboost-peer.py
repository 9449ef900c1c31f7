"""Scores XGBoost as MIRAGE used it on a kernel corpus, beside the JSON of `wattgate-lab kernels evaluate`:

xgboost-peer.py CORPUS.csv TEST-UNITS OURS.json INPUTS.csv

Targets are logarithms. Inputs are the kernel's parameters and the clocks, as MIRAGE has them; and once more those of our
own models, which the example `kernel_inputs` writes. The hyper-parameters lie in the middle of MIRAGE's space. Time of
predictions is that of all rows of the test units, best of three.
"""

import json
import sys
import time

import numpy as np
import pandas as pd
import xgboost

SETTINGS = dict(
    n_estimators=1000,
    max_depth=9,
    learning_rate=0.05,
    min_child_weight=6,
    subsample=0.9,
    colsample_bytree=0.9,
    reg_alpha=1e-3,
    reg_lambda=1e-3,
    tree_method="hist",
    n_jobs=2,
    random_state=1,
)
WITHIN = (5, 10, 15, 20)


def score(kernel, target, predicted, measured):
    relative = 100 * np.abs(predicted / measured - 1)
    unit = 1 if target == "time" else 1e-3
    errors = unit * (predicted - measured)
    return {
        "kernel": kernel,
        "target": target,
        "rows": len(measured),
        "within_pct": {str(limit): 100 * float((relative <= limit).mean()) for limit in WITHIN},
        "mape": float(relative.mean()),
        "rmse": float(np.sqrt((errors**2).mean())),
        "mae": float(np.abs(errors).mean()),
    }


def raw(corpus, units):
    """Of each kernel: parameters and clocks, whether a row is held out, times and powers."""
    rows = pd.read_csv(corpus, dtype={"unit": str}, low_memory=False)
    columns = list(rows.columns)
    parameters = columns[columns.index("batch") : columns.index("inputs") + 1]
    for kernel, own in rows.groupby("kernel", sort=False):
        used = own[parameters + ["cpu_khz", "gpu_khz", "emc_khz"]]
        yield kernel, used, own["unit"].isin(units), {"time": own["time_ms"], "power": own["power_mw"]}


def ours(inputs):
    """The same with the inputs of our models."""
    with open(inputs) as file:
        width = max(line.count(",") for line in file) + 1
    rows = pd.read_csv(inputs, header=None, names=range(width), low_memory=False)
    for kernel, own in rows.groupby(0, sort=False):
        yield kernel, own.iloc[:, 4:], own[1] == 1, {"time": own[2], "power": own[3]}


def peer(kernels):
    results, predicting, predicted_rows = {}, 0.0, 0
    for kernel, inputs, test, targets in kernels:
        used = inputs.dropna(axis=1, how="all").astype(np.float32)
        for target, measured in targets.items():
            model = xgboost.XGBRegressor(**SETTINGS)
            model.fit(used[~test], np.log(measured[~test]))
            wanted = used[test].to_numpy()
            best = np.inf
            for _ in range(3):
                start = time.perf_counter()
                logs = model.predict(wanted)
                best = min(best, time.perf_counter() - start)
            predicting += best
            predicted_rows += len(wanted)
            results[kernel, target] = score(kernel, target, np.exp(logs), measured[test].to_numpy())
    return results, 1e6 * predicting / predicted_rows


def main(corpus, units, json_of_ours, inputs):
    with open(json_of_ours) as file:
        own = {(row["kernel"], row["target"]): row for row in json.load(file)["results"]}
    plain, plain_us = peer(raw(corpus, units.split(",")))
    same, same_us = peer(ours(inputs))
    print(f"XGBoost {xgboost.__version__}: MAPE in %, and rows within 10 %; units that no model has seen; simulated")
    print("| kernel, target | XGBoost, parameters and clocks | XGBoost, our inputs | wattgate |")
    print("|---|---|---|---|")
    for target in ("time", "power"):
        names = [key for key in plain if key[1] == target]
        for key in names:
            cells = [f"{row[key]['mape']:.2f}; {row[key]['within_pct']['10']:.1f}" for row in (plain, same, own)]
            print(f"| {key[0]}, {target} | {' | '.join(cells)} |")
        means = [np.mean([row[key]["mape"] for key in names]) for row in (plain, same, own)]
        print(f"| mean, {target} | {' | '.join(f'{mean:.2f}' for mean in means)} |")
    print(f"a prediction takes {plain_us:.2f} and {same_us:.2f} µs")


if __name__ == "__main__":
    main(*sys.argv[1:])
