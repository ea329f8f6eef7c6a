"""The rows of bench/why-faults: which fault, in which machine, and which verdicts are right.

A row is data. SIZE and EVERY in a fault stand for the size and the period that the seed draws.

`right`    one set for each fault: (mechanism, beginning of who); any member of the set is the right cause.
`honest`   what the events of that kernel can tell at most, where that is less than the cause: it counts as
           the right alternatives, not as the right cause.
`also`     what else makes wake-ups late in the machine of the fault: named beside the right cause it is right,
           without that it is wrong.
An empty `right`: nothing may be late, because PREEMPT_RT keeps the fault from the measured task.
"""
from dataclasses import dataclass, field

RT, FAIR = ("-p", "90"), ("-p", "0")
# Timers of an ordinary task are late by this much to begin with, µs: PR_SET_TIMERSLACK(2).
SLACK = 50
LOCK = ("--lock", "/dev/shm/latlab-lock")

# Machines by what decides a verdict: PREEMPT_RT or not, in virtual time (one CPU) or not.
RT_KERNELS = ("armv7-rt", "x86_64-rt", "x86_64-rt-6.12", "aarch64-rt")
PLAIN_KERNELS = ("armv7", "x86_64")
X86 = ("x86_64-rt", "x86_64-rt-6.12", "x86_64")
ALL = RT_KERNELS + PLAIN_KERNELS
NEW = ("x86_64-rt-6.12",)


@dataclass(frozen=True)
class Row:
    name: str
    # Mechanism: rows of one mechanism and one way to produce it are counted once for each guest.
    mechanism: str
    faults: tuple = ()
    right: tuple = ()
    honest: tuple = ()
    also: tuple = ()
    guests: tuple = RT_KERNELS
    task: tuple = RT
    # Smallest and largest size, µs, and period, ms.
    size: tuple = (100, 1000)
    every: tuple = (7.0, 14.0)
    # Whether the size that is reported can be compared with the one that was drawn.
    sized: bool = True
    # Limit in µs, instead of half the size.
    limit: int = 0
    # Options of `why` and of the machine; a shell command that runs before `why`, in its process.
    options: tuple = ()
    machine: str = ",icount=0"
    before: str = ""
    length: str = "3s"
    # Without virtual time the emulator's own pauses are late wake-ups too.
    paused: bool = False
    # Each stroke of the fault is written down, which tells its late wake-ups from the emulator's pauses.
    logged: bool = False
    # The fault acts on the measured task while that runs: it takes a lock then.
    running: bool = False
    # Rows that decide little beside another one; left out by -q.
    extra: bool = False


def one(*verdicts):
    """One fault, with these verdicts."""
    return (frozenset(verdicts),)


# What is in step with the task delays it by a few of the delays that it could: the length of a section, which is
# estimated from the longest, is then too short.
SECTION = "us=SIZE,every=EVERY,jitter=20"
IRQS = f"irqs-off:{SECTION}"
HARD = "hardirq:us=SIZE,every=EVERY"
INTERRUPTS, PREEMPTION = "interrupts-off", "preemption-off"
TWO = dict(machine=",smp=2", guests=("x86_64-rt", "x86_64-rt-6.12", "armv7-rt"), size=(8_000, 20_000), every=(90.0, 130.0),
           paused=True, logged=True, sized=False, options=("-a", "0", "-t", "1"), length="4s")


def busy(kind, cause, load):
    """A fault from inside a kernel thread of the fair class with this share of the CPU, per cent."""
    return Row(f"busy-{kind}-{load}", f"{kind} in a thread with {load} % of the CPU",
               (f"busy-{kind}:{SECTION},load={load}",), one((cause, "fault")),
               guests=ALL, extra=load == 80)


def call(kind, cause, load):
    """The same from a system call of a process."""
    return Row(f"call-{kind}-{load}", f"{kind} in a system call of a process with {load} % of the CPU",
               (f"call-{kind}:{SECTION},load={load}",), one((cause, "sh")),
               guests=ALL, extra=load == 80)


ROWS = [
    Row("none", "nothing", limit=60, sized=False, guests=ALL),
    Row("timer-slack", "timer slack", right=one(("timer-slack", "")), task=FAIR, limit=40, size=(SLACK, SLACK), guests=ALL),
    # A kernel thread that rarely runs.
    Row("irqs-off", "interrupts off in a rare thread", (IRQS,), one((INTERRUPTS, "fault")), guests=ALL),
    Row("preempt-off", "preemption off in a rare thread", (f"preempt-off:{SECTION}",),
        one((PREEMPTION, "fault")), guests=ALL),
    Row("raw-lock", "preemption off in a rare thread", (f"raw-lock:{SECTION}",), one((PREEMPTION, "fault")), extra=True),
    # The dominant load itself.
    *[busy("irqs-off", INTERRUPTS, load) for load in (60, 80, 95)],
    *[busy("preempt-off", PREEMPTION, load) for load in (60, 80, 95)],
    *[call("irqs-off", INTERRUPTS, load) for load in (60, 80, 95)],
    *[call("preempt-off", PREEMPTION, load) for load in (60, 80, 95)],
    # Interrupts.
    Row("hardirq", "a timer's function in an interrupt", (HARD,), one(("hrtimer-handler", "on_hrtimer")), guests=ALL),
    Row("hardirq-calls", "a timer's function in an interrupt", ("hardirq-calls:us=SIZE,every=EVERY",),
        one(("hrtimer-handler", "on_hrtimer")), extra=True),
    Row("irq", "a device's interrupt", ("irq:us=SIZE,every=EVERY",), one(("interrupt-handler", "fault-device")), guests=ALL),
    Row("irq-storm", "many interrupts of a device", ("irq-storm:us=SIZE,every=EVERY",),
        one(("interrupt-handler", "fault-device")), guests=ALL, sized=False),  # of many short ones
    Row("nmi", "NMI", ("nmi:us=SIZE,every=EVERY",), one(("nmi", "NMI")), guests=X86),
    # Softirqs, timers, work items, RCU.
    Row("timer-calls", "a callback of the timer wheel", ("timer-calls:us=SIZE,every=EVERY",),
        one(("timer-callback", "on_timer")), task=FAIR),
    Row("timer-calls-90", "a callback of the timer wheel", ("timer-calls:us=SIZE,every=EVERY",),
        one(("timer-callback", "on_timer")), guests=PLAIN_KERNELS),
    Row("timer-irqs-off", "interrupts off in a callback of the timer wheel", ("timer-irqs-off:us=SIZE,every=EVERY",),
        one((INTERRUPTS, "on_timer"), (INTERRUPTS, "ktimers"), ("timer-callback", "on_timer")), guests=ALL),
    Row("tasklet-90", "a tasklet", ("tasklet:us=SIZE,every=EVERY",), one(("softirq", "HI")), guests=PLAIN_KERNELS),
    Row("work-irqs-off", "interrupts off in a work item", ("work-irqs-off:us=SIZE,every=EVERY",),
        one((INTERRUPTS, "on_work")), guests=ALL),
    Row("work-preempt-off", "preemption off in a work item", ("work-preempt-off:us=SIZE,every=EVERY",),
        one((PREEMPTION, "on_work")), guests=ALL),
    Row("net-rx-90", "packets received in a softirq", ("net-rx:us=SIZE,every=EVERY",),
        one(("softirq", "NET_RX")), guests=PLAIN_KERNELS),
    Row("net-rx", "packets received in a softirq", ("net-rx:us=SIZE,every=EVERY",),
        one(("softirq", "NET_RX"), ("higher-priority", "fault")), task=FAIR),
    Row("rcu-90", "callbacks of RCU", ("rcu:us=SIZE,every=EVERY",), one(("softirq", "RCU")), guests=PLAIN_KERNELS),
    Row("rcu", "callbacks of RCU", ("rcu:us=SIZE,every=EVERY",),
        one(("higher-priority", "rcu"), ("equal-priority", "rcu"), ("softirq", "RCU")), task=FAIR),
    # Tasks.
    Row("fifo-95", "a task of higher priority", ("fifo:us=SIZE,every=EVERY",), one(("higher-priority", "latlab")), guests=ALL),
    Row("fifo-90", "a task of equal priority", ("fifo:us=SIZE,every=EVERY,prio=90",), one(("equal-priority", "latlab")), guests=ALL),
    Row("throttle", "real-time throttling", ("throttle:us=SIZE,every=97.3ms",), one(("throttling", "")),
        guests=("armv7-rt", "x86_64-rt", "aarch64-rt"), size=(3_000, 6_000), limit=1_000),
    Row("fair-server", "fair server", ("fifo:ms=900,every=1s,prio=50", "busy-irqs-off:ns=1,every=1s,load=100"),
        one(("fair-server", "fault")), guests=NEW, sized=False, limit=500),
    Row("cpu-max", "bandwidth of a control group", (), one(("bandwidth", "")), task=FAIR, sized=False, limit=1_000,
        before="mount -t cgroup2 none /sys/fs/cgroup; echo +cpu > /sys/fs/cgroup/cgroup.subtree_control; mkdir /sys/fs/cgroup/a; "
               "echo 5000 10000 > /sys/fs/cgroup/a/cpu.max; echo $$ > /sys/fs/cgroup/a/cgroup.procs; (while :; do :; done) & "),
    Row("cpu-max-busy", "bandwidth of a control group while another task has the CPU", (), one(("bandwidth", "")), task=FAIR,
        also=(("equal-priority", "sh"),), sized=False, limit=6_000,
        before="mount -t cgroup2 none /sys/fs/cgroup; echo +cpu > /sys/fs/cgroup/cgroup.subtree_control; mkdir /sys/fs/cgroup/a; "
               "echo 5000 20000 > /sys/fs/cgroup/a/cpu.max; (while :; do :; done) & echo $$ > /sys/fs/cgroup/a/cgroup.procs; (while :; do :; done) & "),
    # The measured program itself.
    # The disk that pages are swapped to is one of timers: several pages that it has written are several of them in a row.
    Row("page-fault", "page fault", ("page-fault:us=SIZE,every=97.3ms",), one(("page-fault", "")), honest=(("blocked", ""),),
        also=(("hrtimer-handler", "null_cmd_timer_expired"),), size=(200, 600), machine=",icount=0,mem=512M", length="4s", guests=ALL),
    Row("lock", "a lock whose owner sleeps", ("lock:us=SIZE,every=EVERY",), one(("lock", "latlab")),
        options=LOCK, sized=False, guests=ALL),
    Row("inversion", "priority inversion", ("inversion:us=SIZE,every=EVERY",), one(("priority-inversion", "latlab")),
        options=LOCK, sized=False, guests=ALL),
    Row("inversion-pi", "a lock with priority inheritance", ("inversion-pi:us=SIZE,every=EVERY",), one(("lock", "latlab")),
        options=LOCK, sized=False, guests=ALL),
    # The whole machine, and what only resembles it.
    Row("stop-machine", "stop_machine", ("stop-machine:us=SIZE,every=EVERY",),
        one((INTERRUPTS, "migration"), (PREEMPTION, "migration"), ("higher-priority", "migration")), guests=ALL),
    Row("idle", "late exit from idle", ("idle:us=SIZE,every=EVERY",), one(("idle-exit", "")), guests=ALL),
    Row("printk-90", "messages to a slow console", ("printk:us=SIZE,every=EVERY",),
        one((INTERRUPTS, "fault"), (PREEMPTION, "fault")), guests=PLAIN_KERNELS, sized=False),
    Row("stall", "a stall of the whole machine", ("stall:us=SIZE,every=EVERY",), one(("stall", "")), machine="",
        size=(20_000, 40_000), every=(150.0, 220.0), paused=True, sized=False, options=("-a", "0", "-t", "1"), length="4s"),
    Row("stall-busy", "a stall of the whole machine under load",
        ("stall:us=SIZE,every=EVERY", "busy-irqs-off:ns=1,every=1s,load=90"), one(("stall", "")), machine="",
        size=(20_000, 40_000), every=(150.0, 220.0), paused=True, sized=False, options=("-a", "0", "-t", "1"), length="4s"),
    # Two CPUs.
    Row("ipi-2", "interrupts between CPUs", ("ipi-function:us=SIZE,every=EVERY,cpu=1",), one(("ipi", "")), **TWO),
    # Each takes 20 to 30 µs in QEMU, less than an ordinary wake-up there: what is late is late for another reason.
    Row("ipi-short-2", "short interrupts between CPUs", ("ipi:us=SIZE,every=EVERY,cpu=1",), honest=(("ipi", ""),),
        **{**TWO, "logged": False}),
    Row("tlb-2", "TLB shootdowns", ("tlb:us=SIZE,every=EVERY,cpu=1",), honest=(("ipi", ""),),
        **{**TWO, "limit": 500, "logged": False}),
    Row("irqs-off-2", "interrupts off in a rare thread", (IRQS,), one((INTERRUPTS, "fault")), **TWO),
    Row("hardirq-2", "a timer's function in an interrupt", (HARD,), one(("hrtimer-handler", "on_hrtimer")), **TWO),
    Row("inversion-2", "priority inversion with the owner on another CPU", ("inversion:us=SIZE,every=EVERY,cpu=1",),
        one(("priority-inversion", "latlab")), running=True, **{**TWO, "options": TWO["options"] + LOCK}),
    Row("stop-machine-2", "stop_machine", ("stop-machine:us=SIZE,every=EVERY",),
        one((INTERRUPTS, "migration"), (PREEMPTION, "migration"), ("higher-priority", "migration")), **TWO),
    Row("stall-2", "a stall of the whole machine", ("stall:us=SIZE,every=EVERY",), one(("stall", "")),
        **{**TWO, "size": (20_000, 40_000), "every": (150.0, 220.0), "logged": False}),
    # Two faults at once: both are named.
    Row("two-irqs-hardirq", "two faults", (IRQS, "hardirq:us=SIZE,every=13.1ms"),
        (frozenset([(INTERRUPTS, "fault")]), frozenset([("hrtimer-handler", "on_hrtimer")])), guests=ALL),
    Row("two-preempt-fifo", "two faults", ("preempt-off:us=SIZE,every=EVERY", "fifo:us=SIZE,every=13.1ms"),
        (frozenset([(PREEMPTION, "fault")]), frozenset([("higher-priority", "latlab")])), guests=ALL),
    # What PREEMPT_RT keeps from a task of priority 90.
    Row("tasklet", "a tasklet", ("tasklet:us=SIZE,every=EVERY",), sized=False),
    Row("timer-calls-kept", "a callback of the timer wheel", ("timer-calls:us=SIZE,every=EVERY",), sized=False, extra=True),
    Row("net-rx-kept", "packets received in a softirq", ("net-rx:us=SIZE,every=EVERY",), sized=False),
    Row("workqueue", "work items", ("workqueue:us=SIZE,every=EVERY",), sized=False),
    Row("printk", "messages to a slow console", ("printk:us=SIZE,every=EVERY",), sized=False, extra=True),
    Row("memory", "allocation", ("memory:us=SIZE,every=EVERY",), sized=False, extra=True),
    Row("compaction", "compaction", ("compaction:us=SIZE,every=EVERY",), sized=False, extra=True),
]

# What no guest produces, and why.
NOT_PRODUCED = [
    ("system-management interrupt", "QEMU's firmware returns at once; a stall of the whole machine has the same events"),
    ("change of frequency, thermal throttling", "QEMU emulates neither"),
    ("memory bandwidth, cache contention", "QEMU has no model of memory's speed"),
    ("a bus or register that stalls, wbinvd", "they take no time in QEMU"),
    ("steal time", "QEMU without KVM accounts none"),
    ("clock-source watchdog", "the emulated clocks agree"),
    ("change of kernel code (jump labels, text_poke)", "a few µs on one emulated CPU"),
    ("a task of the same class and other nice value", "the scheduler of 6.1 gives a task that wakes the CPU at once"),
    ("SCHED_DEADLINE", "no program in the guest asks for it"),
    ("a wake-up that short interrupts between CPUs make late, TLB shootdowns", "each takes 20 to 30 µs in QEMU, an ordinary wake-up "
     "on two CPUs in real time 100 to 200 µs"),
    ("the tracer itself", "measured by the tracing overhead of each run"),
]
