"""Scores XGBoost as MIRAGE used it on a kernel corpus, in the JSON of `wattgate-lab kernels evaluate`:

xgboost-peer.py CORPUS.csv TEST-UNITS [OURS.json]

Inputs are the kernel's parameters and the clocks, targets are logarithms. The hyper-parameters lie in the
middle of MIRAGE's space. Time of predictions is that of all rows of the test units, best of three. With the
JSON of `kernels evaluate`, both are printed beside each other.
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


def main(corpus, units, ours=None):
    rows = pd.read_csv(corpus, dtype={"unit": str}, low_memory=False)
    columns = list(rows.columns)
    parameters = columns[columns.index("batch") : columns.index("inputs") + 1]
    inputs = parameters + ["cpu_khz", "gpu_khz", "emc_khz"]
    units = units.split(",")
    results, predicting, training, predicted_rows = [], 0.0, 0.0, 0
    for kernel, of_kernel in rows.groupby("kernel", sort=False):
        used = of_kernel[inputs].dropna(axis=1, how="all").astype(np.float32)
        test = of_kernel["unit"].isin(units)
        for target, column in (("time", "time_ms"), ("power", "power_mw")):
            measured = of_kernel[column]
            start = time.perf_counter()
            model = xgboost.XGBRegressor(**SETTINGS)
            model.fit(used[~test], np.log(measured[~test]))
            training += time.perf_counter() - start
            wanted = used[test].to_numpy()
            best = np.inf
            for _ in range(3):
                start = time.perf_counter()
                logs = model.predict(wanted)
                best = min(best, time.perf_counter() - start)
            predicting += best
            predicted_rows += len(wanted)
            results.append(score(kernel, target, np.exp(logs), measured[test].to_numpy()))
    document = {
        "version": 1,
        "learner": f"XGBoost {xgboost.__version__}",
        "results": results,
        "training_s": training,
        "predict_us": 1e6 * predicting / predicted_rows,
    }
    if ours is None:
        print(json.dumps(document, indent=2))
        return
    with open(ours) as file:
        ours = json.load(file)
    print(f"{'':<28}{'XGBoost: within 5, 10, 15, 20 %':>36}{'MAPE':>8}{'wattgate':>34}{'MAPE':>8}")
    other = {(of["kernel"], of["target"]): of for of in ours["results"]}
    shares = lambda of: "".join(f"{of['within_pct'][str(limit)]:>8.1f}" for limit in WITHIN)
    for target in ("time", "power"):
        own = [of for of in results if of["target"] == target]
        for of in own:
            beside = other[of["kernel"], target]
            name = f"{of['kernel']}, {target}"
            print(f"{name:<28}{shares(of):>36}{of['mape']:>8.2f}{shares(beside):>34}{beside['mape']:>8.2f}")
        mean = [np.mean([of["mape"] for of in own]), np.mean([other[of["kernel"], target]["mape"] for of in own])]
        print(f"{'mean, ' + target:<28}{'':>36}{mean[0]:>8.2f}{'':>34}{mean[1]:>8.2f}")
    print(f"XGBoost trains {training:.0f} s, predicts a row in {document['predict_us']:.2f} µs")


if __name__ == "__main__":
    main(*sys.argv[1:])
