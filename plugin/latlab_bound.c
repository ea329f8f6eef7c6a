// SPDX-License-Identifier: GPL-2.0
/*
 * The components of the bound of the scheduling latency of de Oliveira, Casini, de Oliveira and Cucinotta
 * ("Demystifying the Real-Time Linux Scheduling Latency", ECRTS 2020), in executed instructions, between the
 * first and the last wake-up that the measuring program marks. 32-bit ARM and x86-64, one CPU, virtual time.
 *
 * Arguments, addresses in hexadecimal: out=FILE
 * scheduler=FIRST-END+… (code in which preemption is turned off to schedule) schedule=ADDRESS
 * (of __schedule) idle=FIRST-END (schedule_idle) event=FIRST-END+… (what calls the handlers of interrupts)
 * domain=ADDRESS+… (ARM: functions whose second argument is the number of an interrupt)
 * thunk=FIRST-END+… (x86: code by way of which calls go); on x86-64 also the symbols of latlab_sections.c.
 *
 * The time of interrupts is subtracted from every other length. An interrupt is from the vector to the
 * first of: interrupts on, the scheduler turns preemption off, user code. Where one exception serves several
 * interrupts, the next one begins where its number is known.
 */
#define _GNU_SOURCE
#include "state.h"

EXPORT int qemu_plugin_version = 1;

#define RANGES 32
#define SOURCES 128

struct range {
	uint64_t first, end;
};

struct ranges {
	unsigned int n;
	struct range all[RANGES];
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

enum { ELSEWHERE, IN_SCHEDULE, IN_IDLE, IN_EVENT, IN_DOMAIN, IN_THUNK };

static struct longest longests[KINDS] = {
	[POID] = { 'p' }, [ST] = { 't' }, [PAIE] = { 'a' }, [PSD] = { 's' }, [OUT] = { 'o' },
};
static struct open opened[KINDS];

static struct ranges scheduler, idle_code, event_code, domain_code, thunk_code;
static uint64_t schedule_va;

static FILE *file;
static uint64_t window_start, user_checks, user_wrong;
static bool is_counting, is_wait_written;

static struct block *previous;
static bool is_off, is_switched;
static uint32_t count;
static uint64_t irq_time, idle_thread, last_wait;

/* The interrupt that goes on: when it began, its time without that of an NMI; its number, or -1; its handler. */
static bool in_irq, in_nmi, has_handler, awaits_handler;
static uint64_t irq_start, nmi_start, irq_handler;
static int64_t irq_number;

static struct source {
	int64_t number;
	uint64_t handler;
} sources[SOURCES];
static unsigned int n_sources;

static bool is_in(const struct ranges *ranges, uint64_t va)
{
	for (unsigned int i = 0; i < ranges->n; i++)
		if (va >= ranges->all[i].first && va < ranges->all[i].end)
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

/* The source with a number, or without one with a handler; the last one is that of all for which there is no room. */
static unsigned int source_of(int64_t number, uint64_t handler)
{
	for (unsigned int i = 0; i < n_sources; i++)
		if (sources[i].number == number && (number >= 0 || sources[i].handler == handler))
			return i;
	if (n_sources == SOURCES)
		return SOURCES - 1;
	sources[n_sources] = (struct source){ number, handler };
	fprintf(file, "V %u %lld %llx\n", n_sources, (long long)number, (unsigned long long)handler);
	return n_sources++;
}

static void write_interrupt(int64_t number, uint64_t handler, uint64_t start)
{
	if (!is_counting)
		return;
	unsigned int source = source_of(number, handler);

	fprintf(file, "I %u %llu %llu\n", source, (unsigned long long)(start - window_start),
		(unsigned long long)(executed - start));
	is_wait_written = false;
}

static void end_interrupt(void)
{
	if (!in_irq)
		return;
	in_irq = false;
	irq_time += executed - irq_start;
	write_interrupt(irq_number, irq_handler, irq_start);
}

static void begin_interrupt(int64_t number, uint64_t handler)
{
	in_irq = true;
	irq_start = executed;
	irq_number = number;
	irq_handler = handler;
	has_handler = awaits_handler = false;
}

/* What an interrupt executes tells its number (ARM), and its handler: the first function that is called by its address. */
static void look_at_interrupt(const struct block *before, const struct block *block)
{
	bool calls = before->place == IN_EVENT && before->leaves == CALLS;

	if (block->place == IN_DOMAIN) {
		int64_t number = arm_register(1);

		if (irq_number >= 0) {
			end_interrupt();
			begin_interrupt(number, 0);
		}
		irq_number = number;
	}
	if (block->place == IN_THUNK) {
		awaits_handler |= calls;
	} else if (awaits_handler || (calls && before->calls_by_register)) {
		if (!has_handler)
			irq_handler = block->va;
		has_handler = true;
		awaits_handler = false;
	}
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
		if (!opened[PSD].is_open && !opened[PAIE].is_open && needs_resched())
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
	if (needs_resched())
		begin(PAIE, pc);
	look(pc);
}

static void on_count_store(uint64_t pc)
{
	uint32_t before = count;
	bool to_schedule = is_in(&scheduler, pc);

	count = preempt_count();
	if (in_nmi)
		return;
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

static void take_interrupt(struct block *block)
{
	/* Interrupts were on, whether a block was seen with them on or not. */
	end_interrupt();
	is_off = false;
	look(previous->last);
	is_off = true;
	begin_interrupt(arch == ARCH_X86_64 ? x86_vector(block) : -1, arch == ARCH_X86_64 ? block->va : 0);
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

/* An NMI interrupts also an interrupt; its time is no other's. Whether a block belongs to one. */
static bool is_of_nmi(struct block *block)
{
	if (!in_nmi && is_nmi(block)) {
		if (previous->changes == WAITS)
			wait_for_interrupt(block->va);
		in_nmi = true;
		nmi_start = executed;
	} else if (in_nmi && (block->is_user || previous->is_iret)) {
		uint64_t length = executed - nmi_start;

		in_nmi = false;
		irq_time += length;
		irq_start += in_irq ? length : 0;
		write_interrupt(X86_NMI, x86_gates[X86_NMI], nmi_start);
	}
	return in_nmi;
}

static void look_at_block(struct block *block)
{
	const struct block *before = previous;
	bool off = irqs_are_off();

	if (!off || block->is_user)
		end_interrupt();
	if (is_interrupt(block))
		take_interrupt(block);
	else if (in_irq)
		look_at_interrupt(before, block);
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
	if (block->place == IN_SCHEDULE && !opened[PSD].is_open) {
		end_interrupt();
		begin_to_schedule(block->va);
	} else if (block->place == IN_IDLE && opened[PSD].is_open && thread == idle_thread && is_switched) {
		end_to_schedule(block->va);
	}
}

static void on_block(unsigned int vcpu, void *data)
{
	struct block *block = data;

	if (state_is_known(previous, block) && previous) {
		if (arch == ARCH_ARM)
			arm_find_registers(block->va);
		if (!is_of_nmi(block))
			look_at_block(block);
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

static uint8_t place_of(uint64_t va)
{
	if (va == schedule_va)
		return IN_SCHEDULE;
	if (is_in(&idle_code, va))
		return IN_IDLE;
	if (is_in(&event_code, va))
		return IN_EVENT;
	if (is_in(&domain_code, va))
		return IN_DOMAIN;
	return is_in(&thunk_code, va) ? IN_THUNK : ELSEWHERE;
}

/* FIRST-END+FIRST-END…; an address alone is one byte long. */
static struct ranges read_ranges(const char *text)
{
	struct ranges ranges = { 0 };

	while (*text && ranges.n < RANGES) {
		char *rest;
		uint64_t first = strtoull(text, &rest, 16), last = first + 1;

		if (*rest == '-')
			last = strtoull(rest + 1, &rest, 16);
		ranges.all[ranges.n++] = (struct range){ first, last };
		text = *rest == '+' ? rest + 1 : "";
	}
	return ranges;
}

static void read_argument(const char *name, const char *value)
{
	if (!strcmp(name, "out"))
		file = fopen(value, "w");
	else if (!strcmp(name, "scheduler"))
		scheduler = read_ranges(value);
	else if (!strcmp(name, "schedule"))
		schedule_va = strtoull(value, NULL, 16);
	else if (!strcmp(name, "idle"))
		idle_code = read_ranges(value);
	else if (!strcmp(name, "event"))
		event_code = read_ranges(value);
	else if (!strcmp(name, "domain"))
		domain_code = read_ranges(value);
	else if (!strcmp(name, "thunk"))
		thunk_code = read_ranges(value);
	else
		x86_argument(name, value);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		char *value = strchr(argv[i], '=');

		if (!value)
			continue;
		*value++ = 0;
		read_argument(argv[i], value);
	}
	if (!find_qemu("latlab_bound", info) || !file)
		return 1;
	fprintf(file, "latlab-bound 2 %s\n", arch == ARCH_X86_64 ? "x86_64" : "arm");
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	return 0;
}
