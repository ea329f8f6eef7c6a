// SPDX-License-Identifier: GPL-2.0
/*
 * The components of the bound of the scheduling latency of de Oliveira, Casini, de Oliveira and Cucinotta
 * ("Demystifying the Real-Time Linux Scheduling Latency", ECRTS 2020), in executed instructions, between the
 * first and the last wake-up that the measuring program marks. 32-bit ARM, one CPU, virtual time.
 *
 * Arguments, addresses in hexadecimal: out=FILE
 * scheduler=FIRST-END+… (code in which preemption is turned off to schedule) schedule=ADDRESS
 * (of __schedule) idle=FIRST-END (schedule_idle) timer=ADDRESS+… (handlers of the timer's interrupt).
 *
 * The time of interrupts is subtracted from every other length. An interrupt is from the vector to the
 * first of: interrupts on, the scheduler turns preemption off, user code.
 */
#define _GNU_SOURCE
#include "state.h"

EXPORT int qemu_plugin_version = 1;

#define RANGES 16

struct range {
	uint64_t first, end;
};

struct block {
	uint64_t va, last;
	uint8_t changes;
	bool is_user, is_timer, is_schedule, in_idle;
};

/* The longest of one kind. */
struct longest {
	char letter;
	uint64_t count, written, length, begins, ends;
};

/* One that goes on. */
struct open {
	bool is_open;
	uint64_t start, begins;
};

enum kind { POID, ST, PAIE, PSD, OUT, KINDS };

static struct longest longests[KINDS] = {
	[POID] = { 'p' }, [ST] = { 't' }, [PAIE] = { 'a' }, [PSD] = { 's' }, [OUT] = { 'o' },
};
static struct open opened[KINDS];

static struct range scheduler[RANGES], idle_code[RANGES], timer_code[RANGES];
static unsigned int n_scheduler, n_idle, n_timer;
static uint64_t schedule_va;

static FILE *file;
static uint64_t marks, window_start, user_checks, user_wrong;
static bool is_counting, is_wait_written;

static const struct block *previous;
static bool is_off, is_switched, in_irq, irq_is_timer;
static uint32_t count;
static uint64_t irq_start, irq_time, idle_thread, last_wait;

static bool is_in(const struct range *ranges, unsigned int n, uint64_t va)
{
	for (unsigned int i = 0; i < n; i++)
		if (va >= ranges[i].first && va < ranges[i].end)
			return true;
	return false;
}

/* Instructions outside of interrupts. */
static uint64_t thread_time(void)
{
	return (in_irq ? irq_start : executed) - irq_time;
}

static void begin(enum kind kind, uint64_t pc)
{
	opened[kind] = (struct open){ true, thread_time(), pc };
}

static void end(enum kind kind, uint64_t pc)
{
	struct open *open = &opened[kind];
	struct longest *longest = &longests[kind];
	uint64_t length = thread_time() - open->start;

	if (!open->is_open)
		return;
	open->is_open = false;
	if (!is_counting)
		return;
	longest->count++;
	if (length > longest->length || longest->count == 1) {
		longest->length = length;
		longest->begins = open->begins;
		longest->ends = pc;
	}
}

static void end_interrupt(void)
{
	if (!in_irq)
		return;
	in_irq = false;
	irq_time += executed - irq_start;
	if (!is_counting)
		return;
	fprintf(file, "I %c %llu %llu\n", irq_is_timer ? 't' : 'o', (unsigned long long)(irq_start - window_start),
		(unsigned long long)(executed - irq_start));
	is_wait_written = false;
}

/* Preemption that is off to postpone the scheduler begins, goes on or ends. */
static void look(uint64_t pc)
{
	bool is_postponed = !opened[PSD].is_open &&
			    (is_off || count || (idle_thread && thread == idle_thread));

	if (in_irq)
		return;
	if (is_postponed && !opened[POID].is_open) {
		begin(POID, pc);
		last_wait = opened[POID].start;
	} else if (!is_postponed && opened[POID].is_open) {
		end(POID, pc);
		/* TIF_NEED_RESCHED */
		if (!opened[PSD].is_open && !opened[PAIE].is_open && word_at(thread) & 2)
			begin(PAIE, pc);
	}
}

static void begin_to_schedule(uint64_t pc)
{
	end(PAIE, pc);
	end(POID, pc);
	begin(PSD, pc);
	is_switched = false;
	opened[ST].is_open = false;
	if (is_off)
		begin(ST, pc);
}

static void end_to_schedule(uint64_t pc)
{
	end(PSD, pc);
	end(ST, pc);
	begin(OUT, pc);
	if (word_at(thread) & 2)
		begin(PAIE, pc);
	look(pc);
}

static void on_count_store(uint64_t pc)
{
	uint32_t before = count;
	bool to_schedule = is_in(scheduler, n_scheduler, pc);

	count = preempt_count();
	if (to_schedule)
		end_interrupt();
	if (to_schedule && count > before && !opened[PSD].is_open)
		begin_to_schedule(pc);
	else if (to_schedule && !count && opened[PSD].is_open)
		end_to_schedule(pc);
	else
		look(pc);
}

static void on_thread_switch(void)
{
	count = preempt_count();
	is_switched = true;
}

static void take_interrupt(void)
{
	/* Interrupts were on, whether a block was seen with them on or not. */
	end_interrupt();
	is_off = false;
	look(previous->last);
	in_irq = is_off = true;
	irq_start = executed;
	irq_is_timer = false;
}

/*
 * The idle task runs with preemption off until it calls the scheduler. While nobody is ready it goes round
 * by way of the instruction that waits: what became ready since the last time round waits from there.
 */
static void wait_for_interrupt(uint64_t va)
{
	idle_thread = thread;
	if (is_counting && !is_wait_written) {
		fprintf(file, "W\n");
		is_wait_written = true;
	}
	if (opened[POID].is_open) {
		opened[POID].start = last_wait;
		opened[POID].begins = va;
	}
	last_wait = thread_time();
}

static void on_block(unsigned int vcpu, void *data)
{
	const struct block *block = data;
	const struct block *before = previous;

	previous = block;
	if (!is_calibrated) {
		calibrate_by(before ? before->changes : NOTHING, block->va);
		return;
	}
	bool off = irqs_are_off();

	previous = before;
	if (!off || block->is_user)
		end_interrupt();
	if (block->va == VECTOR_IRQ)
		take_interrupt();
	irq_is_timer |= in_irq && block->is_timer;
	if (off != is_off) {
		is_off = off;
		if (off && opened[PSD].is_open && !is_switched && !opened[ST].is_open)
			begin(ST, before->last);
		look(before->last);
	}
	if (before->changes == WAITS)
		wait_for_interrupt(block->va);
	if (block->is_user) {
		user_checks += is_counting;
		user_wrong += is_counting && (count || opened[PSD].is_open);
		opened[PSD].is_open = opened[ST].is_open = false;
		look(block->va);
	}
	/* The idle task's preemption is off: no store tells when it begins and ends to schedule. */
	if (block->is_schedule && !opened[PSD].is_open) {
		end_interrupt();
		begin_to_schedule(block->va);
	} else if (block->in_idle && opened[PSD].is_open && thread == idle_thread && is_switched) {
		end_to_schedule(block->va);
	}
	previous = block;
}

/* QEMU may be killed: what was counted up to a mark is written then. */
static void on_mark(unsigned int vcpu, void *data)
{
	end(OUT, 0);
	if (!marks++) {
		window_start = executed;
		is_counting = true;
	}
	for (unsigned int i = 0; i < KINDS; i++) {
		struct longest *longest = &longests[i];

		if (longest->count == longest->written)
			continue;
		longest->written = longest->count;
		fprintf(file, "D %c %llu %llu %llx %llx\n", longest->letter,
			(unsigned long long)longest->length, (unsigned long long)longest->count,
			(unsigned long long)longest->begins, (unsigned long long)longest->ends);
	}
	fprintf(file, "M %llu %llu %u %llu %llu\n", (unsigned long long)(executed - window_start),
		(unsigned long long)marks, candidates, (unsigned long long)user_checks,
		(unsigned long long)user_wrong);
	fflush(file);
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);
	bool is_thumb = looks_like_thumb(tb, n);
	struct block *block = calloc(1, sizeof(*block));

	if (!block)
		return;
	block->va = qemu_plugin_tb_vaddr(tb);
	block->is_user = in_user_space(ARCH_ARM, block->va);
	block->is_schedule = block->va == schedule_va;
	block->in_idle = is_in(idle_code, n_idle, block->va);
	block->is_timer = is_in(timer_code, n_timer, block->va);
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS, block);
	for (size_t k = 0; k < n; k++) {
		struct qemu_plugin_insn *in = qemu_plugin_tb_get_insn(tb, k);
		struct insn i = read_insn(ARCH_ARM, in, is_thumb);

		block->last = i.va;
		block->changes = watch(in, &i);
	}
}

/* FIRST-END+FIRST-END…; an address alone is one byte long. */
static unsigned int read_ranges(const char *text, struct range *ranges)
{
	unsigned int n = 0;

	while (*text && n < RANGES) {
		char *rest;
		uint64_t first = strtoull(text, &rest, 16), last = first + 1;

		if (*rest == '-')
			last = strtoull(rest + 1, &rest, 16);
		ranges[n++] = (struct range){ first, last };
		text = *rest == '+' ? rest + 1 : "";
	}
	return n;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		const char *value = strchr(argv[i], '=');

		if (!value++)
			continue;
		if (!strncmp(argv[i], "out=", 4))
			file = fopen(value, "w");
		else if (!strncmp(argv[i], "scheduler=", 10))
			n_scheduler = read_ranges(value, scheduler);
		else if (!strncmp(argv[i], "schedule=", 9))
			schedule_va = strtoull(value, NULL, 16);
		else if (!strncmp(argv[i], "idle=", 5))
			n_idle = read_ranges(value, idle_code);
		else if (!strncmp(argv[i], "timer=", 6))
			n_timer = read_ranges(value, timer_code);
	}
	if (!find_qemu("latlab_bound", info) || !file)
		return 1;
	fprintf(file, "latlab-bound 1 arm\n");
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	return 0;
}
