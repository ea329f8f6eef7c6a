"""Which quantiles of two runs differ by more than their intervals?

python tails.py RUN RUN
"""

import sys

import latlab

one, other = (latlab.load_run(path).table().to_pandas().set_index(["name", "part"]) for path in sys.argv[1:3])
for name in one.index.intersection(other.index):
    for q in ("p50", "p90", "p99", "p99.9"):
        a, b = one.loc[[name]].iloc[0], other.loc[[name]].iloc[0]
        if q not in a or q not in b or a[q] != a[q] or b[q] != b[q]:
            continue  # too few values
        apart = a[f"{q}_high"] < b[f"{q}_low"] or b[f"{q}_high"] < a[f"{q}_low"]
        print(
            f"{name[0]} {q}: {a[q]:.0f} ({a[f'{q}_low']:.0f} to {a[f'{q}_high']:.0f}),"
            f" {b[q]:.0f} ({b[f'{q}_low']:.0f} to {b[f'{q}_high']:.0f}) {a.unit}"
            f"{': the intervals do not overlap' if apart else ''}"
        )
