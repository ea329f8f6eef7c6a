"""What do late wake-ups consist of that on-time ones do not? As a table and as the report's first plot.

python why_late.py TRACE LIMIT_NS PLOT.svg
"""

import sys
from pathlib import Path

import latlab

explanation = latlab.explain(sys.argv[1], limit_ns=int(sys.argv[2]))
parts = explanation.breakdown.to_pandas()
wakeups = explanation.wakeups.to_pandas()
parts["cause"] = parts.cause.str.cat(parts.who, sep=" ").str.strip()
table = parts.pivot_table(index="cause", columns="late", values="ns", aggfunc="sum", fill_value=0)
table = (table / wakeups.groupby("late").size()).rename(columns={False: "on time", True: "late"})
print("ns a wake-up")
print(table.sort_values("late", ascending=False).head(8).round().to_string())
Path(sys.argv[3]).write_text(explanation.run.plots()[0].svg)
