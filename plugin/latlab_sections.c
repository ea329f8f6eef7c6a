// SPDX-License-Identifier: GPL-2.0
/*
 * Sections with interrupts off and with preemption off, in executed instructions, between the first and
 * the last wake-up that the measuring program marks. 32-bit ARM and x86-64, one CPU, virtual time.
 *
 * Arguments: out=FILE marks=N (the number of the last wake-up); log=FILE for a list of all sections; on x86-64 also the addresses of symbols in
 * hexadecimal: count= (of the preemption count) current= (of the running task) offsets= (__per_cpu_offset).
 *
 * What no section without interrupts can tell, an interrupt that is taken at once after they were
 * turned on, is told by the block before. The preemption count has to be zero whenever user code runs,
 * which is checked.
 */
#define _GNU_SOURCE
#include "state.h"

EXPORT int qemu_plugin_version = 1;

#define RING (1u << 18)
#define KEYS (1u << 14)		/* pairs of places; a power of two */
#define STEPS_MAX 20000u	/* of the longest section */
#define LOG_MAX (1u << 22)	/* lines of the list of all sections */

struct step {
	const struct block *block;
	uint64_t at;
};

struct key {
	uint64_t begins, ends, count, sum, longest;
};

struct kind {
	char letter;
	bool is_open;
	uint64_t start, start_pos, begins;
	uint64_t count, sum, longest;
	uint64_t lengths[64 * 8];	/* eighths of powers of two */
	struct key keys[KEYS];
	uint32_t n_keys, n_dropped, n_steps;
	struct step *steps;		/* of the longest section */
	uint64_t steps_end;
};

static struct kind irqs = { .letter = 'i' }, preempt = { .letter = 'p' };
static struct step *ring;
static uint64_t ring_pos;
static const struct block *previous;
static const char *out_name = "latlab-sections.txt";
static uint64_t marks_max = 100, window_start;
static bool is_counting, is_done;

static uint64_t user_checks, user_wrong;
static FILE *list;
static uint32_t n_listed;

static void add_to_list(char what, uint64_t from, uint64_t to, uint64_t begins, uint64_t ends)
{
	if (list && is_counting && n_listed++ < LOG_MAX)
		fprintf(list, "%c %llu %llu %llx %llx\n", what, (unsigned long long)from,
			(unsigned long long)to, (unsigned long long)begins, (unsigned long long)ends);
}

/* The instruction that reads the clock is counted already. */
static void list_clock_read(unsigned int vcpu, void *data)
{
	add_to_list('T', executed, executed, 0, 0);
}

static unsigned int length_bin(uint64_t n)
{
	unsigned int power = 63 - __builtin_clzll(n | 1);

	return n < 8 ? n : power * 8 + (n >> (power - 3) & 7);
}

static uint64_t bin_start(unsigned int bin)
{
	return bin < 24 ? bin : (uint64_t)(8 + bin % 8) << (bin / 8 - 3);
}

static struct key *key_of(struct kind *kind, uint64_t begins, uint64_t ends)
{
	uint32_t at = (begins * 31 + ends * 17) * 2654435761u >> 8 & (KEYS - 1);

	for (uint32_t tried = 0; tried < KEYS; tried++, at = (at + 1) & (KEYS - 1)) {
		struct key *key = &kind->keys[at];

		if (key->count && (key->begins != begins || key->ends != ends))
			continue;
		if (!key->count && kind->n_keys++ > KEYS / 2) {
			kind->n_keys--;
			break;
		}
		key->begins = begins;
		key->ends = ends;
		return key;
	}
	kind->n_dropped++;
	return NULL;
}

static void keep_steps(struct kind *kind)
{
	uint64_t from = kind->start_pos;

	if (ring_pos - from > STEPS_MAX)
		from = ring_pos - STEPS_MAX;
	kind->n_steps = 0;
	for (uint64_t p = from; p < ring_pos; p++)
		kind->steps[kind->n_steps++] = ring[p & (RING - 1)];
	if (kind->n_steps && kind->steps[0].at < kind->start)
		kind->steps[0].at = kind->start;
	kind->steps_end = executed;
}

static void open_section(struct kind *kind, uint64_t begins)
{
	kind->is_open = true;
	kind->start = executed;
	kind->start_pos = ring_pos;
	kind->begins = begins;
}

static void close_section(struct kind *kind, uint64_t ends)
{
	uint64_t length = executed - kind->start;

	if (!kind->is_open)
		return;
	kind->is_open = false;
	if (!is_counting || kind->start < window_start)
		return;
	struct key *key = key_of(kind, kind->begins, ends);

	add_to_list(kind->letter, kind->start, executed, kind->begins, ends);
	kind->count++;
	kind->sum += length;
	kind->lengths[length_bin(length)]++;
	if (key) {
		key->count++;
		key->sum += length;
		if (length > key->longest)
			key->longest = length;
	}
	if (length > kind->longest) {
		kind->longest = length;
		keep_steps(kind);
	}
}

static void look_at_irqs(struct block *block)
{
	bool is_off = irqs_are_off();
	bool begins_interrupt = is_interrupt(block);

	/* They were on, and an interrupt was taken before any block was seen with them on. */
	if (irqs.is_open && begins_interrupt)
		close_section(&irqs, previous->last);
	if (previous->changes == WAITS)
		add_to_list('W', executed, executed, 0, 0);
	/* What waits, waits for nobody: the section ends, and another one begins after it. */
	if (previous->changes == WAITS && irqs.is_open)
		close_section(&irqs, previous->last);
	if (previous->changes == WAITS && preempt.is_open) {
		close_section(&preempt, previous->last);
		open_section(&preempt, block->va);
	}
	if (is_off && !irqs.is_open)
		open_section(&irqs, previous->changes == TURNS_OFF && !begins_interrupt ? previous->last
										   : block->va);
	else if (!is_off && irqs.is_open)
		close_section(&irqs, previous->last);
}

static void on_block(unsigned int vcpu, void *data)
{
	struct block *block = data;

	if (is_done)
		return;
	if (state_is_known(previous, block) && previous) {
		look_at_irqs(block);
		if (block->is_user && thread && is_counting) {
			user_checks++;
			user_wrong += preempt.is_open;
			preempt.is_open = false;
		}
	}
	ring[ring_pos++ & (RING - 1)] = (struct step){ block, executed };
	previous = block;
}

static void on_count_store(uint64_t pc)
{
	bool is_off = preempt_count();

	if (is_done)
		return;
	if (is_off && !preempt.is_open)
		open_section(&preempt, pc);
	else if (!is_off && preempt.is_open)
		close_section(&preempt, pc);
	if (is_off && preempt.start_pos == ring_pos && ring_pos)
		preempt.start_pos = ring_pos - 1;
}

static void on_thread_switch(void)
{
}

static void write_kind(FILE *out, const struct kind *kind)
{
	fprintf(out, "N %c %llu %llu %u\n", kind->letter, (unsigned long long)kind->count,
		(unsigned long long)kind->sum, kind->n_dropped);
	for (unsigned int bin = 0; bin < 64 * 8; bin++)
		if (kind->lengths[bin])
			fprintf(out, "H %c %llu %llu\n", kind->letter,
				(unsigned long long)bin_start(bin),
				(unsigned long long)kind->lengths[bin]);
	for (unsigned int at = 0; at < KEYS; at++) {
		const struct key *key = &kind->keys[at];

		if (key->count)
			fprintf(out, "K %c %llx %llx %llu %llu %llu\n", kind->letter,
				(unsigned long long)key->begins, (unsigned long long)key->ends,
				(unsigned long long)key->count, (unsigned long long)key->sum,
				(unsigned long long)key->longest);
	}
	fprintf(out, "L %c %llu\n", kind->letter, (unsigned long long)kind->longest);
	for (uint32_t i = 0; i < kind->n_steps; i++) {
		const struct block *block = kind->steps[i].block;
		uint64_t end = i + 1 < kind->n_steps ? kind->steps[i + 1].at : kind->steps_end;

		if (end > kind->steps[i].at)
			fprintf(out, "S %llx %u %c %llu\n", (unsigned long long)block->va, block->n_insns,
				block->leaves, (unsigned long long)(end - kind->steps[i].at));
	}
}

static void write_all(void)
{
	FILE *out = fopen(out_name, "w");

	if (!out)
		return;
	fprintf(out, "latlab-sections 1 %s\n", arch == ARCH_X86_64 ? "x86_64" : "arm");
	fprintf(out, "C %llu %llu %u %llu %llu\n", (unsigned long long)(executed - window_start),
		(unsigned long long)marks, candidates, (unsigned long long)user_checks,
		(unsigned long long)user_wrong);
	write_kind(out, &irqs);
	write_kind(out, &preempt);
	fprintf(out, "E\n");
	fclose(out);
}

static void on_mark(unsigned int vcpu, void *data)
{
	if (is_done)
		return;
	if (!marks++) {
		window_start = executed;
		is_counting = true;
	}
	if (marks >= marks_max) {
		is_done = true;
		if (list)
			fprintf(list, n_listed > LOG_MAX ? "X\n" : "E\n");
		if (list)
			fclose(list);
		list = NULL;
		write_all();
	}
}

static uint8_t place_of(uint64_t va)
{
	return 0;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		char *value = strchr(argv[i], '=');

		if (!value)
			continue;
		*value++ = 0;
		if (!strcmp(argv[i], "out"))
			out_name = strdup(value);
		else if (!strcmp(argv[i], "marks"))
			marks_max = strtoull(value, NULL, 10);
		else if (!strcmp(argv[i], "log"))
			list = fopen(value, "w");
		else
			x86_argument(argv[i], value);
	}
	if (list)
		on_clock_read = list_clock_read;
	ring = malloc(RING * sizeof(*ring));
	irqs.steps = malloc(STEPS_MAX * sizeof(struct step));
	preempt.steps = malloc(STEPS_MAX * sizeof(struct step));
	if (!find_qemu("latlab_sections", info) || !ring || !irqs.steps || !preempt.steps)
		return 1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	return 0;
}
