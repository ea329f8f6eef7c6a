//! The known events and their fields, by the names that the kernel gives them.

use super::values::{FieldNames, Get, Slot, Stack, SysEnter, SysExit, Vector};

typed! {
    /// A CPU goes from one task to the next.
    struct SchedSwitch<'e> {
        /// Name of the task that leaves the CPU.
        prev_comm: text,
        /// Its pid.
        prev_pid: i32,
        /// Its priority in the kernel's counting (0–99 real-time, 100–139 normal, −1 deadline).
        prev_prio: i32,
        /// Its state in this kernel's own bits; 0 (or only bits above those of the format) is runnable.
        prev_state: u64,
        /// Name of the task that gets the CPU.
        next_comm: text,
        /// Its pid.
        next_pid: i32,
        /// Its priority in the kernel's counting.
        next_prio: i32,
    }
    SchedSwitch<'e> = "sched_switch";

    /// A task is woken up.
    struct SchedWake<'e> {
        /// Name of the task that is woken.
        comm: text,
        /// Its pid.
        pid: i32,
        /// Its priority in the kernel's counting.
        prio: i32,
        /// The CPU whose run queue it is put on (for `waking`: where it was last).
        target_cpu: u32 | "cpu",
    }
    SchedWaking<'e> = "sched_waking", SchedWakeup<'e> = "sched_wakeup", SchedWakeupNew<'e> = "sched_wakeup_new";

    /// A task moves to another CPU.
    struct SchedMigrateTask<'e> {
        /// Name.
        comm: text,
        /// Pid.
        pid: i32,
        /// Priority in the kernel's counting.
        prio: i32,
        /// From here.
        orig_cpu: u32,
        /// To here.
        dest_cpu: u32,
    }
    SchedMigrateTask<'e> = "sched_migrate_task";

    /// A task forks.
    struct SchedProcessFork<'e> {
        /// Name of the parent.
        parent_comm: text,
        /// Pid of the parent.
        parent_pid: i32,
        /// Name of the child.
        child_comm: text,
        /// Pid of the child.
        child_pid: i32,
    }
    SchedProcessFork<'e> = "sched_process_fork";

    /// A task starts another program.
    struct SchedProcessExec<'e> {
        /// The program.
        filename: text,
        /// Pid.
        pid: i32,
        /// Pid before.
        old_pid: i32,
    }
    SchedProcessExec<'e> = "sched_process_exec";

    /// A task ends or is released.
    struct SchedProcessEnd<'e> {
        /// Name.
        comm: text,
        /// Pid.
        pid: i32,
        /// Priority in the kernel's counting.
        prio: i32,
    }
    SchedProcessExit<'e> = "sched_process_exit", SchedProcessFree<'e> = "sched_process_free";

    /// A task changes its name.
    struct TaskRename<'e> {
        /// Pid.
        pid: i32,
        /// Name before.
        oldcomm: text,
        /// Name from now on.
        newcomm: text,
    }
    TaskRename<'e> = "task_rename";

    /// CPU time that was charged to a task.
    struct SchedStatRuntime<'e> {
        /// Name.
        comm: text,
        /// Pid.
        pid: i32,
        /// Nanoseconds.
        runtime: u64,
        /// The task's virtual run time after it, ns; 0 where the kernel does not tell.
        vruntime: u64,
    }
    SchedStatRuntime<'e> = "sched_stat_runtime";

    /// Time that a task waited, slept, was blocked or waited for I/O.
    struct SchedStatDelay<'e> {
        /// Name.
        comm: text,
        /// Pid.
        pid: i32,
        /// Nanoseconds.
        delay: u64,
    }
    SchedStatWait<'e> = "sched_stat_wait", SchedStatSleep<'e> = "sched_stat_sleep",
    SchedStatBlocked<'e> = "sched_stat_blocked", SchedStatIowait<'e> = "sched_stat_iowait";

    /// A priority is lent or given back (priority inheritance).
    struct SchedPiSetprio<'e> {
        /// Name.
        comm: text,
        /// Pid.
        pid: i32,
        /// Priority before, in the kernel's counting.
        oldprio: i32,
        /// Priority from now on.
        newprio: i32,
    }
    SchedPiSetprio<'e> = "sched_pi_setprio";

    /// A handler of a device's interrupt begins.
    struct IrqHandlerEntry<'e> {
        /// Interrupt number.
        irq: i32,
        /// Name of the handler.
        name: text,
    }
    IrqHandlerEntry<'e> = "irq_handler_entry";

    /// A handler of a device's interrupt ends.
    struct IrqHandlerExit {
        /// Interrupt number.
        irq: i32,
        /// 0: it was not for this handler; 1: handled.
        ret: i32,
    }
    IrqHandlerExit = "irq_handler_exit";

    /// A softirq; `vec` 0 HI, 1 TIMER, 2 NET_TX, 3 NET_RX, 4 BLOCK, 5 IRQ_POLL, 6 TASKLET, 7 SCHED, 8 HRTIMER, 9 RCU.
    struct Softirq {
        /// Number.
        vec: u32,
    }
    SoftirqRaise = "softirq_raise", SoftirqEntry = "softirq_entry", SoftirqExit = "softirq_exit";

    /// A tasklet begins or ends.
    struct Tasklet {
        /// Its address.
        tasklet: u64,
        /// Its function's address.
        func: u64,
    }
    TaskletEntry = "tasklet_entry", TaskletExit = "tasklet_exit";

    /// Something happens to a timer of the timer wheel.
    struct Timer {
        /// Its address.
        timer: u64,
    }
    TimerInit = "timer_init", TimerCancel = "timer_cancel", TimerExpireExit = "timer_expire_exit";

    /// A timer is set.
    struct TimerStart {
        /// Its address.
        timer: u64,
        /// Its function's address.
        function: u64,
        /// When it expires, in jiffies.
        expires: u64,
        /// When it will be looked at, in jiffies; 0 where the kernel does not say.
        bucket_expiry: u64,
        /// Jiffies now.
        now: u64,
        /// Flags: CPU in the lower bits, then deferrable, pinned, interrupt-safe and the wheel's index.
        flags: u32,
    }
    TimerStart = "timer_start";

    /// A timer's function is called.
    struct TimerExpireEntry {
        /// Its address.
        timer: u64,
        /// Jiffies now.
        now: u64,
        /// Its function's address.
        function: u64,
        /// Jiffies that the wheel stands at.
        baseclk: u64,
    }
    TimerExpireEntry = "timer_expire_entry";

    /// Something happens to a high-resolution timer.
    struct Hrtimer {
        /// Its address.
        hrtimer: u64,
    }
    HrtimerCancel = "hrtimer_cancel", HrtimerExpireExit = "hrtimer_expire_exit";

    /// A high-resolution timer is set up.
    struct HrtimerSetup {
        /// Its address.
        hrtimer: u64,
        /// Clock (1 is `CLOCK_MONOTONIC`).
        clockid: i32,
        /// Mode bits: 1 relative, 2 pinned, 4 softirq, 8 hard interrupt.
        mode: u32,
    }
    HrtimerInit = "hrtimer_init", HrtimerSetup = "hrtimer_setup";

    /// A high-resolution timer is set.
    struct HrtimerStart {
        /// Its address.
        hrtimer: u64,
        /// Its function's address.
        function: u64,
        /// Latest expiry in ns of its clock.
        expires: i64,
        /// Earliest expiry in ns of its clock.
        softexpires: i64,
        /// Mode bits.
        mode: u32,
    }
    HrtimerStart = "hrtimer_start";

    /// A high-resolution timer's function is called.
    struct HrtimerExpireEntry {
        /// Its address.
        hrtimer: u64,
        /// Now, in ns of its clock.
        now: i64,
        /// Its function's address.
        function: u64,
    }
    HrtimerExpireEntry = "hrtimer_expire_entry";

    /// The tick could be stopped, or not, and why not.
    struct TickStop {
        /// 1: stopped.
        success: i32,
        /// What needs it.
        dependency: u32,
    }
    TickStop = "tick_stop";

    /// Work is queued.
    struct WorkqueueQueueWork {
        /// Address of the work.
        work: u64,
        /// Its function's address.
        function: u64,
        /// CPU that was asked for.
        req_cpu: i32,
        /// CPU of the pool.
        cpu: i32,
    }
    WorkqueueQueueWork = "workqueue_queue_work";

    /// Work becomes active, begins or ends.
    struct Work {
        /// Address of the work.
        work: u64,
        /// Its function's address; 0 where the kernel does not say.
        function: u64,
    }
    WorkqueueActivateWork = "workqueue_activate_work",
    WorkqueueExecuteStart = "workqueue_execute_start", WorkqueueExecuteEnd = "workqueue_execute_end";

    /// A page fault.
    struct PageFault {
        /// The address that was touched.
        address: u64,
        /// The instruction that touched it.
        ip: u64,
        /// The processor's error code.
        error_code: u64,
    }
    PageFaultUser = "page_fault_user", PageFaultKernel = "page_fault_kernel";

    /// A function is entered (tracer `function_graph`).
    struct FuncgraphEntry {
        /// Its address.
        func: u64,
        /// Depth of the call.
        depth: i32,
    }
    FuncgraphEntry = "funcgraph_entry";

    /// A function is left (tracer `function_graph`).
    struct FuncgraphExit {
        /// Its address.
        func: u64,
        /// Depth of the call.
        depth: i32,
        /// Calls that found no room.
        overrun: u64,
        /// When it was entered, in ns of the trace's clock.
        calltime: u64,
        /// When it was left.
        rettime: u64,
    }
    FuncgraphExit = "funcgraph_exit";

    /// A function is called (tracer `function`).
    struct Function {
        /// Its address.
        ip: u64,
        /// The caller's.
        parent_ip: u64,
    }
    Function = "function";

    /// A line that was written to `trace_marker` or printed by the kernel.
    struct Print<'e> {
        /// Who printed it.
        ip: u64,
        /// The text, as written (often with a newline at its end).
        buf: text,
    }
    Print<'e> = "print";

    /// A binary `trace_printk`: the format's address; `report` prints it.
    struct Bprint {
        /// Who printed it.
        ip: u64,
        /// Address of the format.
        fmt: u64,
    }
    Bprint = "bprint";

    /// A constant `trace_puts`.
    struct Bputs {
        /// Who printed it.
        ip: u64,
        /// Address of the text.
        str: u64,
    }
    Bputs = "bputs";

    /// A period of the `osnoise` tracer.
    struct Osnoise {
        /// Length in µs.
        runtime: u64,
        /// Noise in it, µs.
        noise: u64,
        /// The longest single noise, µs.
        max_sample: u64,
        /// Stalls that no interrupt or task explains.
        hw_count: u32,
        /// Non-maskable interrupts.
        nmi_count: u32,
        /// Interrupts.
        irq_count: u32,
        /// Softirqs.
        softirq_count: u32,
        /// Other tasks.
        thread_count: u32,
    }
    Osnoise = "osnoise";

    /// A noise above the threshold of `osnoise`.
    struct SampleThreshold {
        /// When it began, ns of the trace's clock.
        start: u64,
        /// Its length, ns.
        duration: u64,
        /// How many interruptions there were in it.
        interference: u64,
    }
    SampleThreshold = "sample_threshold";

    /// Noise by a task.
    struct ThreadNoise<'e> {
        /// Its name.
        comm: text,
        /// Its pid.
        pid: i32,
        /// When it began.
        start: u64,
        /// Its length less that of interrupts in it, ns.
        duration: u64,
    }
    ThreadNoise<'e> = "thread_noise";

    /// Noise by an interrupt.
    struct IrqNoise<'e> {
        /// Its name.
        desc: text,
        /// Its number.
        vector: i32,
        /// When it began.
        start: u64,
        /// Its length less that of what interrupted it, ns.
        duration: u64,
    }
    IrqNoise<'e> = "irq_noise";

    /// Noise by a softirq.
    struct SoftirqNoise {
        /// Its number.
        vector: i32,
        /// When it began.
        start: u64,
        /// Its length less that of interrupts in it, ns.
        duration: u64,
    }
    SoftirqNoise = "softirq_noise";

    /// Noise by a non-maskable interrupt.
    struct NmiNoise {
        /// When it began.
        start: u64,
        /// Its length, ns.
        duration: u64,
    }
    NmiNoise = "nmi_noise";

    /// A sample of the `timerlat` tracer.
    struct Timerlat {
        /// Number of the activation.
        seqnum: u32,
        /// 0 interrupt, 1 thread, 2 user space.
        context: u32,
        /// Latency in ns.
        timer_latency: u64,
    }
    Timerlat = "timerlat";

    /// A sample of the `hwlat` tracer.
    struct Hwlat {
        /// Longest gap between two reads of the clock, ns.
        duration: u64,
        /// Longest gap between two rounds, ns.
        outer_duration: u64,
        /// How many gaps were over the threshold.
        count: u32,
        /// Number of the sample.
        seqnum: u32,
    }
    Hwlat = "hwlat";

    /// A CPU's frequency (kHz) or idle state changes.
    struct PowerState {
        /// Frequency in kHz, or the idle state's number (4294967295: no longer idle).
        state: u32,
        /// The CPU.
        cpu_id: u32,
    }
    CpuFrequency = "cpu_frequency", CpuIdle = "cpu_idle";

    /// An interrupt between processors, by its reason.
    struct IpiReason {
        /// Address of the reason's text (see the trace's printk formats).
        reason: u64,
    }
    IpiEntry = "ipi_entry", IpiExit = "ipi_exit";

    /// An interrupt is sent to CPUs (ARM), by its reason.
    struct IpiRaise {
        /// The first 64 CPUs, one bit each.
        target_cpus: mask,
        /// Address of the reason's text (see the trace's printk formats).
        reason: u64,
    }
    IpiRaise = "ipi_raise";

    /// A handler of a non-maskable interrupt ends.
    struct NmiHandler {
        /// How long it took, ns.
        delta_ns: i64,
        /// 0: it was not for this handler.
        handled: i32,
    }
    NmiHandler = "nmi_handler";

    /// An interrupt is sent to a CPU.
    struct IpiSendCpu {
        /// The CPU.
        cpu: u32,
        /// Who sent it.
        callsite: u64,
        /// What it calls there.
        callback: u64,
    }
    IpiSendCpu = "ipi_send_cpu";

    /// An interrupt is sent to several CPUs.
    struct IpiSendCpumask {
        /// The first 64 CPUs, one bit each.
        cpumask: mask,
        /// Who sent it.
        callsite: u64,
        /// What it calls there.
        callback: u64,
    }
    IpiSendCpumask = "ipi_send_cpumask";

    /// A function is queued for a CPU, which an interrupt makes call it.
    struct CsdQueueCpu {
        /// The CPU.
        cpu: u32,
        /// Who queued it.
        callsite: u64,
        /// The function.
        func: u64,
    }
    CsdQueueCpu = "csd_queue_cpu";

    /// Waiting for a lock begins.
    struct ContentionBegin {
        /// The lock's address.
        lock_addr: u64,
        /// 1 spinning, 2 reader, 4 writer, 8 real-time mutex, 16 per CPU, 32 mutex.
        flags: u32,
    }
    ContentionBegin = "contention_begin";

    /// Waiting for a lock ends.
    struct ContentionEnd {
        /// The lock's address.
        lock_addr: u64,
        /// 0, or why it was given up.
        ret: i32,
    }
    ContentionEnd = "contention_end";

    /// Interrupts or preemption are switched off or on.
    struct PreemptIrq {
        /// Distance of the caller from `_stext`.
        caller_offs: u32,
        /// Distance of its caller from `_stext`.
        parent_offs: u32,
    }
    PreemptDisable = "preempt_disable", PreemptEnable = "preempt_enable",
    IrqDisable = "irq_disable", IrqEnable = "irq_enable";
}
