"""Which tasks waited longest for a CPU, and who ran meanwhile?

python who_waited.py TRACE
"""

import sys

import latlab

segments = latlab.sched(sys.argv[1]).segments().to_pandas()
segments["start_ns"] = segments.time_ns - segments.run_ns
for wait in segments.nlargest(5, "ready_ns").itertuples():
    end, begin = wait.start_ns, wait.start_ns - wait.ready_ns
    during = segments[(segments.cpu == wait.cpu) & (segments.time_ns > begin) & (segments.start_ns < end)]
    overlap = during.time_ns.clip(upper=end) - during.start_ns.clip(lower=begin)
    shares = overlap.groupby(during.name).sum().nlargest(3)
    ran = ", ".join(f"{name} {ns / 1e6:.2f} ms" for name, ns in shares.items())
    print(f"{wait.name}:{wait.tid} waited {wait.ready_ns / 1e6:.2f} ms on CPU {wait.cpu}: {ran}")
