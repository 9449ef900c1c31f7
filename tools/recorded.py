"""Prints a row of a Markdown table from the JSON of `wattgate-simulator loads` or `scenarios` (recorded.sh).

    tools/recorded.py BOARD MODES FILE.json
"""

import json
import statistics
import sys

board, modes, path = sys.argv[1:]
with open(path) as file:
    rows = json.load(file)


def worst(figure, rows):
    return max(row[figure]["worst"] for row in rows)


def cells(*cells):
    print("|", " | ".join(cells), "|", flush=True)


if "scenario" in rows[0]:
    # With a backstop the hardware holds the limit.
    rows = [row for row in rows if row["governor"] == "wattgate" and not row["scenario"].endswith("backstop")]
    most = max(rows, key=lambda row: row["time_over_pct"]["worst"])
    least = min(rows, key=lambda row: row["speed_vs_oracle_pct"]["median"])
    cells(
        board,
        f"{most['time_over_pct']['worst']:.2f} ({most['scenario']})",
        f"{least['speed_vs_oracle_pct']['median']:.1f} ({least['scenario']})",
    )
else:
    # Boards that differ from their corpus are another question.
    rows = [row for row in rows if not row["kind"].startswith("constant, ")]
    speeds = []
    for limit in sorted({row["limit_pct"] for row in rows}):
        of_limit = [row["speed_vs_fixed_pct"]["median"] for row in rows if row["limit_pct"] == limit]
        speeds.append(f"{statistics.median_low(of_limit):.1f}/{min(of_limit):.1f}")
    cells(board, modes, f"{worst('over_430ms_pct', rows):.2f}", f"{worst('excess_430ms_pct', rows):.1f}", *speeds)
