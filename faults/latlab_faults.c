// SPDX-License-Identifier: GPL-2.0
/*
 * Makes a kernel late in known ways, so that tools which explain latency can
 * be tested against a known answer. For virtual machines and boards that
 * nobody depends on: it takes CPUs away for as long as it is told to.
 *
 * One file controls it, /sys/kernel/debug/latlab-faults/control. Write
 *
 *     KIND [ns=SIZE] [every_ns=PERIOD] [cpu=N] [jitter=PERCENT] [seed=N] [rare=N] [load=PERCENT]
 *          [at_ns=TIME] [times=N]
 *     KIND again at_ns=TIME [times=N]
 *     KIND stop
 *     stop
 *
 * and read one line for each kind that runs: how often it struck so far, and
 * the longest stroke. /sys/kernel/debug/latlab-faults/activations has the
 * last strokes: kind, start and end in ns of CLOCK_MONOTONIC. Several kinds
 * run at a time. Each starts one PERIOD
 * after the write, or at TIME (CLOCK_MONOTONIC), and goes on for ever, or for
 * N strokes; `again` sets both anew for a kind that runs, without starting it
 * anew (those of a hrtimer and of a kernel thread that sleeps). With jitter,
 * each period is longer or shorter by up to
 * that share, drawn from a generator with this seed. With rare, only each
 * N-th stroke takes that long, the others a hundredth of it. The kinds of a
 * busy thread and of a system call compute for a share of each round of 0.7 to
 * 1.3 ms, the load, and strike from inside it. The system call is a read of
 * /sys/kernel/debug/latlab-faults/call, which lasts one round.
 */
#include <linux/cpu.h>
#include <linux/debugfs.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <linux/rcupdate.h>
#include <linux/skbuff.h>
#include <linux/smp.h>
#include <linux/stop_machine.h>
#include <linux/timekeeping.h>
#include <linux/timer.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <linux/workqueue.h>
#include <trace/events/power.h>
#ifdef CONFIG_X86
#include <asm/apic.h>
#include <asm/nmi.h>
#endif
#include "latlab_gpio.h"

#define SIZE_MAX_NS (2 * (u64)NSEC_PER_SEC)
#define EVERY_MIN_NS (10 * (u64)NSEC_PER_USEC)
#define WORKS 32
/* A round of the busy kinds, and by how many per cent it varies: rounds of one length fall into step with a task's. */
#define ROUND_NS (1 * (u64)NSEC_PER_MSEC)
#define ROUND_VARIES 30
/* Local experimental EtherType 1 (IEEE 802): no other protocol receives it. */
#define PACKET_TYPE 0x88b5
/* What a packet costs its receiver, and how many the kernel queues. */
#define PACKET_NS (10 * (u64)NSEC_PER_USEC)
#define PACKETS_MAX 900
/* What one interrupt of a storm costs. */
#define STORM_NS (5 * (u64)NSEC_PER_USEC)
/* Strokes that are kept, a power of two. */
#define STROKES 8192

enum context {
	IN_HARDIRQ,	/* the handler of an hrtimer that expires in hard interrupt context */
	IN_TIMER,	/* a timer of the timer wheel: softirq, or its thread on PREEMPT_RT */
	IN_TASKLET,	/* a tasklet that a hard interrupt schedules */
	IN_THREAD,	/* a kernel thread, SCHED_FIFO 1, bound to the CPU */
	IN_IDLE,	/* the idle task, interrupts off, once something has woken the CPU */
	AFTER_IDLE,	/* the idle task, each time it has been woken */
	IN_WORK,	/* a work item of the system's workqueue, bound to the CPU */
	IN_UNBOUND,	/* a work item that is queued on the CPU and bound to none */
	IN_BUSY,	/* a kernel thread of the fair class, bound to the CPU, that computes most of the time */
	IN_CALL,	/* a system call of whoever reads `call` */
	IN_NMI,		/* a non-maskable interrupt that a timer's handler sends (x86) */
	IN_DEVICE,	/* the handler of a device's interrupt, unless `threaded` in hard interrupt context on PREEMPT_RT too */
};

/*
 * QEMU's `edu` device (docs/specs/edu.txt): what is written to one register is
 * added to its interrupt's causes, what is written to another is taken away.
 */
#define EDU_VENDOR 0x1234
#define EDU_DEVICE 0x11e8
#define EDU_STATUS 0x24
#define EDU_RAISE 0x60
#define EDU_ACKNOWLEDGE 0x64

struct fault {
	const char *name;
	enum context context;
	void (*strike)(struct fault *f);
	bool threaded;	/* the handler of its interrupt may run in a thread */
	/* settings */
	u64 ns, every_ns, at_ns;
	u32 jitter, seed, rare, load, times;
	int cpu;
	/* state */
	u32 left;	/* strokes until it rests; 0: no end */
	u32 turn;	/* how often it was set anew */
	bool running;
	u64 size;	/* of this stroke */
	u64 storm_from;	/* start of a burst of interrupts; 0: none */
	u32 random, round;
	u64 strikes, longest_ns;
	ktime_t next;
	struct hrtimer hrtimer;
	struct timer_list timer;
	struct tasklet_struct tasklet;
	struct work_struct work;
	struct rcu_head rcu;
	atomic_t pending;
	struct task_struct *thread;
};

static DEFINE_MUTEX(control_lock);
static DEFINE_RAW_SPINLOCK(held_lock);
/* `next`, `left` and `turn` of a kind that is set anew while it strikes. */
static DEFINE_RAW_SPINLOCK(next_lock);
static struct dentry *folder;
static struct work_struct works[WORKS];
static u64 work_ns;

/* The interrupting device, while a fault holds it. */
static struct pci_dev *device;
static void __iomem *registers;

/* The last strokes. Who overwrites one while it is read spoils that line alone. */
static struct stroke {
	const char *name;
	u64 start, end;
} strokes[STROKES];
static atomic_t stroke_count;

/* Between two readings of the clock, about 0.1 us: in virtual time a reading is the slowest instruction. */
#define BETWEEN 50
/* Of a load, a few us: in a kernel that does not preempt its own code, nobody waits longer. */
#define BETWEEN_OF_LOAD 2000

static void loop(u32 times)
{
	while (times--)
		barrier();
}

static void spin_for(u64 ns)
{
	u64 start = ktime_get_mono_fast_ns();

	while (ktime_get_mono_fast_ns() - start < ns)
		loop(BETWEEN);
}

/* Not worth a look by itself: half a microsecond, called very often. */
void latlab_fault_scan(void);
noinline void latlab_fault_scan(void)
{
	spin_for(500);
}

static void strike_spin(struct fault *f)
{
	spin_for(f->size);
}

static void strike_many_calls(struct fault *f)
{
	u64 start = ktime_get_mono_fast_ns();

	while (ktime_get_mono_fast_ns() - start < f->size)
		latlab_fault_scan();
}

static void strike_irqs_off(struct fault *f)
{
	unsigned long flags;

	local_irq_save(flags);
	spin_for(f->size);
	local_irq_restore(flags);
}

static void strike_preempt_off(struct fault *f)
{
	preempt_disable();
	spin_for(f->size);
	preempt_enable();
}

/* Another CPU that wants the lock waits with interrupts on; this CPU cannot switch. */
static void take_lock(void *unused)
{
	raw_spin_lock(&held_lock);
	raw_spin_unlock(&held_lock);
}

static void strike_raw_lock(struct fault *f)
{
	raw_spin_lock(&held_lock);
	smp_call_function(take_lock, NULL, 0);
	spin_for(f->size);
	raw_spin_unlock(&held_lock);
}

static void ipi_body(void *ns)
{
	spin_for(*(u64 *)ns);
}

/* Strokes of 20 us on every other CPU for as long as it takes; this CPU waits for them. */
static void strike_ipi(struct fault *f)
{
	u64 piece = 20 * NSEC_PER_USEC, start = ktime_get_mono_fast_ns();

	if (num_online_cpus() == 1)
		return;
	while (ktime_get_mono_fast_ns() - start < f->size)
		smp_call_function(ipi_body, &piece, 1);
}

static void function_body(void *f)
{
	spin_for(((struct fault *)f)->size);
}

/* One function on every other CPU, in the interrupt that calls it there; this CPU waits for it. */
static void strike_ipi_function(struct fault *f)
{
	smp_call_function(function_body, f, 1);
}

static void work_body(struct work_struct *unused)
{
	spin_for(READ_ONCE(work_ns));
}

static void strike_workqueue(struct fault *f)
{
	int i;

	WRITE_ONCE(work_ns, div_u64(f->size, WORKS));
	for (i = 0; i < WORKS; i++)
		queue_work_on(f->cpu, system_highpri_wq, &works[i]);
}

/* Emergencies are printed whatever the console's level is. */
static void strike_printk(struct fault *f)
{
	u64 start = ktime_get_mono_fast_ns();

	do
		pr_emerg("latlab-faults: a line for a slow console, as long as such lines tend to be\n");
	while (ktime_get_mono_fast_ns() - start < f->size);
}

#ifdef CONFIG_X86
/* apic_read(), which modules cannot call since the APIC's functions became static calls. */
static u32 read_apic(u32 reg)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0)
	return x2apic_enabled() ? native_apic_msr_read(reg) : native_apic_mem_read(reg);
#else
	return apic_read(reg);
#endif
}
#endif

/*
 * Sleeps with interrupts off until one is pending. Without hardware that can do
 * that (x86 before MONITOR's break event), it looks again and again.
 */
static void wait_for_interrupt(void)
{
#ifdef CONFIG_X86
	int i;

	for (;;) {
		for (i = 0; i < 8; i++)
			if (read_apic(APIC_IRR + 0x10 * i))
				return;
		cpu_relax();
	}
#else
	wfi();
#endif
}

/* A loop of two instructions, without a clock: at one instruction a nanosecond it takes ns. */
static void strike_path(struct fault *f)
{
	u32 left = f->size / 2;

	while (left--)
		barrier();
}

/* One callback of RCU that computes. */
static void on_grace_period(struct rcu_head *head)
{
	struct fault *f = container_of(head, struct fault, rcu);

	spin_for(f->size);
	atomic_set(&f->pending, 0);
}

static void strike_rcu(struct fault *f)
{
	if (!atomic_xchg(&f->pending, 1))
		call_rcu(&f->rcu, on_grace_period);
}

/* Short interrupts, each of which the last one has raised, for as long as it takes. */
static void strike_storm(struct fault *f)
{
	u64 now = ktime_get_mono_fast_ns();

	if (!f->storm_from)
		f->storm_from = now;
	spin_for(min(STORM_NS, f->size));
	if (now - f->storm_from < f->size)
		iowrite32(1, registers + EDU_RAISE);
	else
		f->storm_from = 0;
}

static int stopped_machine(void *data)
{
	struct fault *f = data;

	spin_for(f->size);
	return 0;
}

/* All CPUs keep interrupts off while one of them computes. */
static void strike_stop_machine(struct fault *f)
{
	stop_machine(stopped_machine, f, NULL);
}

static int receive_packet(struct sk_buff *skb, struct net_device *dev, struct packet_type *type,
			  struct net_device *original)
{
	spin_for(PACKET_NS);
	kfree_skb(skb);
	return NET_RX_SUCCESS;
}

static struct packet_type packets = {
	.type = cpu_to_be16(PACKET_TYPE),
	.func = receive_packet,
};

/* A burst of packets on the loopback device, received in the NET_RX softirq. */
static void strike_packets(struct fault *f)
{
	u32 i, n = min_t(u64, div_u64(f->size, PACKET_NS), PACKETS_MAX);

	local_bh_disable();
	for (i = 0; i < n; i++) {
		struct sk_buff *skb = alloc_skb(64, GFP_ATOMIC);

		if (!skb)
			break;
		skb_put_zero(skb, 64);
		skb->dev = init_net.loopback_dev;
		skb->protocol = packets.type;
		skb_reset_mac_header(skb);
		skb_reset_network_header(skb);
		netif_rx(skb);
	}
	local_bh_enable();
}

static struct fault faults[] = {
	{ .name = "hardirq", .context = IN_HARDIRQ, .strike = strike_spin },
	{ .name = "hardirq-calls", .context = IN_HARDIRQ, .strike = strike_many_calls },
	{ .name = "timer-calls", .context = IN_TIMER, .strike = strike_many_calls },
	{ .name = "tasklet", .context = IN_TASKLET, .strike = strike_spin },
	{ .name = "kernel-loop", .context = IN_THREAD, .strike = strike_spin },
	{ .name = "irqs-off", .context = IN_THREAD, .strike = strike_irqs_off },
	{ .name = "preempt-off", .context = IN_THREAD, .strike = strike_preempt_off },
	{ .name = "raw-lock", .context = IN_THREAD, .strike = strike_raw_lock },
	{ .name = "ipi", .context = IN_THREAD, .strike = strike_ipi },
	{ .name = "ipi-function", .context = IN_THREAD, .strike = strike_ipi_function },
	{ .name = "workqueue", .context = IN_THREAD, .strike = strike_workqueue },
	{ .name = "printk", .context = IN_THREAD, .strike = strike_printk },
	{ .name = "idle", .context = IN_IDLE, .strike = strike_spin },
	{ .name = "longer-path", .context = AFTER_IDLE, .strike = strike_path },
	{ .name = "irq", .context = IN_DEVICE, .strike = strike_spin },
	{ .name = "irq-thread", .context = IN_DEVICE, .strike = strike_spin, .threaded = true },
	{ .name = "irq-storm", .context = IN_DEVICE, .strike = strike_storm },
	{ .name = "work-irqs-off", .context = IN_WORK, .strike = strike_irqs_off },
	{ .name = "work-preempt-off", .context = IN_WORK, .strike = strike_preempt_off },
	{ .name = "unbound-irqs-off", .context = IN_UNBOUND, .strike = strike_irqs_off },
	{ .name = "timer-irqs-off", .context = IN_TIMER, .strike = strike_irqs_off },
	{ .name = "busy-irqs-off", .context = IN_BUSY, .strike = strike_irqs_off },
	{ .name = "busy-preempt-off", .context = IN_BUSY, .strike = strike_preempt_off },
	{ .name = "call-irqs-off", .context = IN_CALL, .strike = strike_irqs_off },
	{ .name = "call-preempt-off", .context = IN_CALL, .strike = strike_preempt_off },
	{ .name = "rcu", .context = IN_THREAD, .strike = strike_rcu },
	{ .name = "stop-machine", .context = IN_THREAD, .strike = strike_stop_machine },
	{ .name = "net-rx", .context = IN_THREAD, .strike = strike_packets },
	{ .name = "nmi", .context = IN_NMI, .strike = strike_spin },
};

static void do_strike(struct fault *f)
{
	struct stroke *kept = &strokes[(u32)atomic_inc_return(&stroke_count) % STROKES];
	u64 start = ktime_get_mono_fast_ns(), took;

	f->size = (u32)(f->strikes + 1) % f->rare ? div_u64(f->ns, 100) : f->ns;
	*kept = (struct stroke){ f->name, start, 0 };
	f->strike(f);
	took = ktime_get_mono_fast_ns() - start;
	kept->end = start + took;
	f->strikes++;
	if (took > f->longest_ns)
		f->longest_ns = took;
}

/* A length within so many per cent of ns. xorshift32: the same seed gives the same lengths everywhere. */
static u64 varied(u32 *random, u64 ns, u32 percent)
{
	u64 span = div_u64(ns * percent, 100);
	u32 x = *random;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	*random = x;
	if (!span)
		return ns;
	return ns - span + div_u64(2 * span * (x >> 16), 65535);
}

static u64 next_period(struct fault *f)
{
	return varied(&f->random, f->every_ns, f->jitter);
}

/* Whether this stroke was the last one for now. */
static bool rests(struct fault *f)
{
	return f->left && !--f->left;
}

#ifdef CONFIG_X86
/* The only fault of this context. */
static struct fault *in_nmi;

static int on_nmi(unsigned int kind, struct pt_regs *registers_then)
{
	struct fault *f = READ_ONCE(in_nmi);

	if (!f || !atomic_xchg(&f->pending, 0))
		return NMI_DONE;
	do_strike(f);
	return NMI_HANDLED;
}

static void send_nmi(struct fault *f)
{
	atomic_set(&f->pending, 1);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0)
	__apic_send_IPI_mask(cpumask_of(f->cpu), NMI_VECTOR);
#else
	apic->send_IPI_mask(cpumask_of(f->cpu), NMI_VECTOR);
#endif
}

static int take_nmi(struct fault *f)
{
	WRITE_ONCE(in_nmi, f);
	return register_nmi_handler(NMI_LOCAL, on_nmi, 0, "latlab-faults");
}

static void release_nmi(void)
{
	unregister_nmi_handler(NMI_LOCAL, "latlab-faults");
	WRITE_ONCE(in_nmi, NULL);
}
#else
static void send_nmi(struct fault *f) { }
static int take_nmi(struct fault *f) { return -EOPNOTSUPP; }
static void release_nmi(void) { }
#endif

static enum hrtimer_restart on_hrtimer(struct hrtimer *timer)
{
	struct fault *f = container_of(timer, struct fault, hrtimer);

	if (f->context == IN_TASKLET)
		tasklet_hi_schedule(&f->tasklet);
	else if (f->context == IN_WORK)
		queue_work_on(f->cpu, system_wq, &f->work);
	else if (f->context == IN_UNBOUND)
		queue_work(system_unbound_wq, &f->work);
	else if (f->context == IN_NMI)
		send_nmi(f);
	else if (f->context == IN_DEVICE)
		iowrite32(1, registers + EDU_RAISE);
	else
		do_strike(f);
	if (rests(f))
		return HRTIMER_NORESTART;
	hrtimer_forward_now(timer, ns_to_ktime(next_period(f)));
	return HRTIMER_RESTART;
}

static irqreturn_t on_device(int irq, void *data)
{
	u32 causes = ioread32(registers + EDU_STATUS);

	if (!causes)
		return IRQ_NONE;
	iowrite32(causes, registers + EDU_ACKNOWLEDGE);
	do_strike(data);
	return IRQ_HANDLED;
}

static void release_device(struct fault *f)
{
	free_irq(pci_irq_vector(device, 0), f);
	pci_free_irq_vectors(device);
	pci_iounmap(device, registers);
	pci_disable_device(device);
	pci_dev_put(device);
	device = NULL;
}

/* Its interrupt goes to the fault's CPU at first; who moves it moves the stroke. */
static int take_device(struct fault *f)
{
	int error = -ENODEV;

	device = pci_get_device(EDU_VENDOR, EDU_DEVICE, NULL);
	if (!device)
		return error;
	error = pci_enable_device(device);
	if (error)
		goto put;
	pci_set_master(device);
	error = -ENOMEM;
	registers = pci_iomap(device, 0, 0);
	if (!registers)
		goto disable;
	error = pci_alloc_irq_vectors(device, 1, 1, PCI_IRQ_ALL_TYPES);
	if (error < 0)
		goto unmap;
	error = request_irq(pci_irq_vector(device, 0), on_device,
			    (f->threaded ? 0 : IRQF_NO_THREAD) | IRQF_SHARED, "fault-device", f);
	if (error)
		goto free;
	irq_set_affinity(pci_irq_vector(device, 0), cpumask_of(f->cpu));
	return 0;
free:
	pci_free_irq_vectors(device);
unmap:
	pci_iounmap(device, registers);
disable:
	pci_disable_device(device);
put:
	pci_dev_put(device);
	device = NULL;
	return error;
}

static void on_tasklet(struct tasklet_struct *tasklet)
{
	do_strike(container_of(tasklet, struct fault, tasklet));
}

static void on_work(struct work_struct *work)
{
	do_strike(container_of(work, struct fault, work));
}

static unsigned long when_in_jiffies(struct fault *f)
{
	s64 wait = ktime_to_ns(ktime_sub(f->next, ktime_get()));

	return jiffies + min_t(u64, nsecs_to_jiffies64(max_t(s64, wait, 0)), MAX_JIFFY_OFFSET) + 1;
}

static void on_timer(struct timer_list *timer)
{
	struct fault *f = container_of(timer, struct fault, timer);

	do_strike(f);
	f->next = ktime_add_ns(f->next, next_period(f));
	if (!rests(f) && READ_ONCE(f->running))
		mod_timer(timer, when_in_jiffies(f));
}

/* When a thread strikes next; one that was set anew in the meantime has its time already. */
static void thread_next(struct fault *f, u32 turn)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&next_lock, flags);
	if (f->turn == turn) {
		if (rests(f))
			f->next = KTIME_MAX;
		else
			f->next = ktime_add_ns(f->next, next_period(f));
		if (ktime_before(f->next, ktime_get()))
			f->next = ktime_add_ns(ktime_get(), next_period(f));
	}
	raw_spin_unlock_irqrestore(&next_lock, flags);
}

/* When, and which of its settings. */
static ktime_t thread_when(struct fault *f, u32 *turn)
{
	unsigned long flags;
	ktime_t next;

	raw_spin_lock_irqsave(&next_lock, flags);
	next = f->next;
	*turn = f->turn;
	raw_spin_unlock_irqrestore(&next_lock, flags);
	return next;
}

static int thread_body(void *data)
{
	struct fault *f = data;
	ktime_t next;
	u32 turn;

	sched_set_fifo_low(current);
	while (!kthread_should_stop()) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (kthread_should_stop())
			break;
		next = thread_when(f, &turn);
		schedule_hrtimeout(&next, HRTIMER_MODE_ABS);
		if (kthread_should_stop())
			break;
		if (ktime_before(ktime_get(), thread_when(f, &turn)))
			continue;
		do_strike(f);
		thread_next(f, turn);
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

/* Computes for its share of a round, strikes when it is time, and sleeps for the rest. */
static void busy_round(struct fault *f)
{
	u64 round = varied(&f->round, ROUND_NS, ROUND_VARIES);
	u64 start = ktime_get_mono_fast_ns(), busy = div_u64(round * f->load, 100);
	ktime_t end = ktime_add_ns(ktime_get(), round);

	while (ktime_get_mono_fast_ns() - start < busy) {
		loop(BETWEEN_OF_LOAD);
		cond_resched();
		if (ktime_before(ktime_get(), f->next))
			continue;
		do_strike(f);
		f->next = rests(f) ? KTIME_MAX : ktime_add_ns(ktime_get(), next_period(f));
	}
	if (f->load < 100) {
		set_current_state(TASK_INTERRUPTIBLE);
		schedule_hrtimeout(&end, HRTIMER_MODE_ABS);
	}
}

static int busy_body(void *data)
{
	while (!kthread_should_stop())
		busy_round(data);
	return 0;
}

/* The system call of the faults of a load: one at a time. */
static DEFINE_MUTEX(call_lock);

static ssize_t call_read(struct file *file, char __user *user, size_t count, loff_t *at)
{
	int i;

	if (mutex_lock_interruptible(&call_lock))
		return -EINTR;
	for (i = 0; i < ARRAY_SIZE(faults); i++)
		if (faults[i].context == IN_CALL && READ_ONCE(faults[i].running))
			busy_round(&faults[i]);
	mutex_unlock(&call_lock);
	return 0;
}

static const struct file_operations call_operations = {
	.owner = THIS_MODULE,
	.open = nonseekable_open,
	.read = call_read,
};

/*
 * A CPU that needs long to leave its idle state: what woke it is handled late.
 * The kernel calls this just before it idles, interrupts off; what it does
 * afterwards returns at once, because an interrupt is pending by then. State 0
 * is a CPU that polls (idle=poll, nohlt): it has no state to leave.
 */
static void on_idle(void *data, unsigned int state, unsigned int cpu)
{
	struct fault *f = data;

	if (f->context == AFTER_IDLE) {
		if (state == PWR_EVENT_EXIT && cpu == f->cpu) {
			f->strike(f);
			f->strikes++;
		}
		return;
	}
	if (state == PWR_EVENT_EXIT || state == 0)
		return;
	if (cpu != f->cpu || ktime_get_mono_fast_ns() < ktime_to_ns(f->next))
		return;
	wait_for_interrupt();
	do_strike(f);
	f->next = rests(f) ? KTIME_MAX : ns_to_ktime(ktime_get_mono_fast_ns() + next_period(f));
}

static void start_hrtimer(void *data)
{
	struct fault *f = data;

	hrtimer_start(&f->hrtimer, f->next, HRTIMER_MODE_ABS_PINNED_HARD);
}

static void stop_fault(struct fault *f)
{
	if (!f->running)
		return;
	WRITE_ONCE(f->running, false);
	switch (f->context) {
	case IN_TASKLET:
	case IN_HARDIRQ:
		hrtimer_cancel(&f->hrtimer);
		tasklet_kill(&f->tasklet);
		break;
	case IN_DEVICE:
		hrtimer_cancel(&f->hrtimer);
		release_device(f);
		break;
	case IN_TIMER:
		del_timer_sync(&f->timer);
		break;
	case IN_WORK:
	case IN_UNBOUND:
		hrtimer_cancel(&f->hrtimer);
		cancel_work_sync(&f->work);
		break;
	case IN_NMI:
		hrtimer_cancel(&f->hrtimer);
		release_nmi();
		break;
	case IN_CALL:
		mutex_lock(&call_lock);
		mutex_unlock(&call_lock);
		break;
	case IN_BUSY:
	case IN_THREAD:
		kthread_stop(f->thread);
		f->thread = NULL;
		break;
	case IN_IDLE:
	case AFTER_IDLE:
		unregister_trace_cpu_idle(on_idle, f);
		tracepoint_synchronize_unregister();
		break;
	}
}

static int start_fault(struct fault *f)
{
	int error = 0;

	f->strikes = 0;
	f->longest_ns = 0;
	f->random = f->seed ? f->seed : 1;
	f->round = f->random;
	f->size = f->ns;
	f->storm_from = 0;
	f->left = f->times;
	f->next = f->at_ns ? ns_to_ktime(f->at_ns) : ktime_add_ns(ktime_get(), next_period(f));
	WRITE_ONCE(f->running, true);
	switch (f->context) {
	case IN_TASKLET:
	case IN_HARDIRQ:
	case IN_WORK:
	case IN_UNBOUND:
		error = smp_call_function_single(f->cpu, start_hrtimer, f, 1);
		break;
	case IN_NMI:
		error = take_nmi(f);
		if (error)
			break;
		error = smp_call_function_single(f->cpu, start_hrtimer, f, 1);
		if (error)
			release_nmi();
		break;
	case IN_CALL:
		break;
	case IN_DEVICE:
		error = take_device(f);
		if (error)
			break;
		error = smp_call_function_single(f->cpu, start_hrtimer, f, 1);
		if (error)
			release_device(f);
		break;
	case IN_TIMER:
		f->timer.expires = when_in_jiffies(f);
		add_timer_on(&f->timer, f->cpu);
		break;
	case IN_BUSY:
	case IN_THREAD:
		f->thread = kthread_create(f->context == IN_BUSY ? busy_body : thread_body, f, "fault/%s", f->name);
		if (IS_ERR(f->thread)) {
			error = PTR_ERR(f->thread);
			break;
		}
		kthread_bind(f->thread, f->cpu);
		wake_up_process(f->thread);
		break;
	case IN_IDLE:
	case AFTER_IDLE:
		error = register_trace_cpu_idle(on_idle, f);
		break;
	}
	if (error)
		WRITE_ONCE(f->running, false);
	return error;
}

/* Another first stroke of a kind that runs. */
static int set_anew(struct fault *f)
{
	unsigned long flags;

	if (!f->running || !f->at_ns)
		return -EINVAL;
	switch (f->context) {
	case IN_TASKLET:
	case IN_HARDIRQ:
	case IN_WORK:
	case IN_UNBOUND:
	case IN_NMI:
	case IN_DEVICE:
		hrtimer_cancel(&f->hrtimer);
		f->left = f->times;
		f->next = ns_to_ktime(f->at_ns);
		return smp_call_function_single(f->cpu, start_hrtimer, f, 1);
	case IN_THREAD:
		raw_spin_lock_irqsave(&next_lock, flags);
		f->left = f->times;
		f->next = ns_to_ktime(f->at_ns);
		f->turn++;
		raw_spin_unlock_irqrestore(&next_lock, flags);
		wake_up_process(f->thread);
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

static int set(struct fault *f, const char *key, const char *value)
{
	u64 n;

	if (kstrtou64(value, 10, &n))
		return -EINVAL;
	if (!strcmp(key, "ns") && n <= SIZE_MAX_NS)
		f->ns = n;
	else if (!strcmp(key, "every_ns") && n >= EVERY_MIN_NS)
		f->every_ns = n;
	else if (!strcmp(key, "cpu") && n < nr_cpu_ids && cpu_online(n))
		f->cpu = n;
	else if (!strcmp(key, "jitter") && n <= 90)
		f->jitter = n;
	else if (!strcmp(key, "seed") && n <= U32_MAX)
		f->seed = n;
	else if (!strcmp(key, "rare") && n >= 1 && n <= 1000)
		f->rare = n;
	else if (!strcmp(key, "load") && n >= 1 && n <= 100)
		f->load = n;
	else if (!strcmp(key, "at_ns") && n >= 1 && n <= KTIME_MAX)
		f->at_ns = n;
	else if (!strcmp(key, "times") && n <= U32_MAX)
		f->times = n;
	else
		return -EINVAL;
	return 0;
}

/* KEY=VALUE … */
static int settings(struct fault *f, char *words)
{
	char *word, *value;
	int error;

	while ((word = strsep(&words, " \t\n"))) {
		if (!*word)
			continue;
		value = strchr(word, '=');
		if (!value)
			return -EINVAL;
		*value++ = 0;
		error = set(f, word, value);
		if (error)
			return error;
	}
	return 0;
}

static int again(struct fault *f, char *words)
{
	int error;

	f->at_ns = 0;
	f->times = 0;
	error = settings(f, words);
	return error ? error : set_anew(f);
}

static int command(struct fault *f, char *words)
{
	int error;

	if (words && !strncmp(words, "again ", 6))
		return again(f, words + 6);
	stop_fault(f);
	if (words && sysfs_streq(words, "stop"))
		return 0;
	f->ns = 100 * NSEC_PER_USEC;
	f->every_ns = 97300 * (u64)NSEC_PER_USEC;
	f->cpu = 0;
	f->jitter = 0;
	f->seed = 1;
	f->rare = 1;
	f->load = 80;
	f->at_ns = 0;
	f->times = 0;
	error = settings(f, words);
	if (error)
		return error;
	/* A CPU that does nothing else would never come back. */
	if (f->ns > div_u64(f->every_ns * (100 - f->jitter), 110))
		return -EDOM;
	return start_fault(f);
}

static ssize_t control_write(struct file *file, const char __user *user, size_t count, loff_t *at)
{
	char line[192], *words = line, *name;
	int i, error = -ENOENT;

	if (count >= sizeof(line))
		return -E2BIG;
	if (copy_from_user(line, user, count))
		return -EFAULT;
	line[count] = 0;
	name = strsep(&words, " \t\n");
	mutex_lock(&control_lock);
	for (i = 0; i < ARRAY_SIZE(faults); i++) {
		if (!strcmp(name, "stop")) {
			stop_fault(&faults[i]);
			error = 0;
		} else if (!strcmp(name, faults[i].name)) {
			error = command(&faults[i], words);
		}
	}
	mutex_unlock(&control_lock);
	return error ? error : count;
}

static int control_show(struct seq_file *out, void *unused)
{
	int i;

	mutex_lock(&control_lock);
	for (i = 0; i < ARRAY_SIZE(faults); i++) {
		struct fault *f = &faults[i];

		if (f->running)
			seq_printf(out, "%s ns=%llu every_ns=%llu cpu=%d jitter=%u seed=%u rare=%u load=%u strikes=%llu longest_ns=%llu\n",
				   f->name, f->ns, f->every_ns, f->cpu, f->jitter, f->seed,
				   f->rare, f->load, f->strikes, f->longest_ns);
	}
	mutex_unlock(&control_lock);
	return 0;
}

static int control_open(struct inode *inode, struct file *file)
{
	return single_open(file, control_show, NULL);
}

static const struct file_operations control_operations = {
	.owner = THIS_MODULE,
	.open = control_open,
	.read = seq_read,
	.write = control_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static int strokes_show(struct seq_file *out, void *unused)
{
	int i;

	for (i = 0; i < STROKES; i++)
		if (strokes[i].end)
			seq_printf(out, "%s %llu %llu\n", strokes[i].name, strokes[i].start, strokes[i].end);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(strokes);

static int __init faults_init(void)
{
	int i;

	gpio_loop_add();
	for (i = 0; i < WORKS; i++)
		INIT_WORK(&works[i], work_body);
	for (i = 0; i < ARRAY_SIZE(faults); i++) {
		hrtimer_init(&faults[i].hrtimer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_PINNED_HARD);
		faults[i].hrtimer.function = on_hrtimer;
		timer_setup(&faults[i].timer, on_timer, TIMER_PINNED);
		tasklet_setup(&faults[i].tasklet, on_tasklet);
		INIT_WORK(&faults[i].work, on_work);
	}
	dev_add_pack(&packets);
	folder = debugfs_create_dir("latlab-faults", NULL);
	debugfs_create_file("control", 0600, folder, NULL, &control_operations);
	debugfs_create_file("activations", 0400, folder, NULL, &strokes_fops);
	debugfs_create_file("call", 0400, folder, NULL, &call_operations);
	return 0;
}

static void __exit faults_exit(void)
{
	int i;

	debugfs_remove(folder);
	gpio_loop_remove();
	for (i = 0; i < ARRAY_SIZE(faults); i++)
		stop_fault(&faults[i]);
	for (i = 0; i < WORKS; i++)
		flush_work(&works[i]);
	dev_remove_pack(&packets);
	rcu_barrier();
}

module_init(faults_init);
module_exit(faults_exit);
MODULE_LICENSE("GPL");
MODULE_AUTHOR("The latlab authors");
MODULE_DESCRIPTION("Kernels that are late on purpose");
