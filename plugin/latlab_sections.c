// SPDX-License-Identifier: GPL-2.0
/*
 * Sections with interrupts off and with preemption off, in executed instructions, between the first and
 * the last wake-up that the measuring program marks. 32-bit ARM, one CPU, virtual time.
 *
 * Arguments: out=FILE marks=N (the number of the last wake-up).
 *
 * Whether interrupts are off is read from QEMU's CPU object. Where in it stands is found by watching:
 * after instructions that turn interrupts off the word must say so, after those that turn
 * them on the opposite. What no section without interrupts can tell, an interrupt that is taken at once
 * after they were turned on, is told by the block before.
 *
 * The preemption count is a word of the thread: each store to it is seen, and its value read through QEMU's debugger interface. It has to be zero whenever user code runs, which is checked.
 *
 * Both functions of QEMU are outside of the plugin interface: without them there is an error.
 */
#define _GNU_SOURCE
#include "decode.h"
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

EXPORT int qemu_plugin_version = 1;

#define RING (1u << 18)
#define KEYS (1u << 14)		/* pairs of places; a power of two */
#define STEPS_MAX 20000u	/* of the longest section */
#define OBSERVATIONS 200	/* of each state until the place is known */
#define VECTOR_IRQ 0xffff0018u

enum changes { NOTHING, TURNS_OFF, TURNS_ON, WAITS };

struct block {
	uint64_t va, last;
	uint32_t n_insns;
	uint8_t changes;
	char leaves;
	bool is_user;
};

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
static uint64_t ring_pos, executed;
static const struct block *previous;
static const enum arch arch = ARCH_ARM;
static const char *out_name = "latlab-sections.txt";
static uint64_t marks_max = 100, marks, window_start;
static bool is_counting, is_done;

static void *(*get_cpu)(int);
static int (*debug_access)(void *cpu, uint64_t address, void *buffer, uint64_t length, bool is_write);
static uint8_t *cpu, *is_wrong;
static size_t cpu_size, flag_place;
static unsigned int seen[2], candidates;
static bool is_calibrated;

static uint64_t count_address;		/* of the preemption count */
static uint64_t user_checks, user_wrong;

/* Bit 7 of PSTATE's DAIF; and the bits that the word may have. */
static bool word_says_off(uint64_t word)
{
	return word & 0x80;
}

static bool word_is_possible(uint64_t word)
{
	return !(word & ~0x3c0ull);
}

static void calibrate(bool is_off)
{
	if (!cpu) {
		cpu = get_cpu(0);
		cpu_size = cpu ? malloc_usable_size(cpu) & ~7ull : 0;
		is_wrong = calloc(cpu_size + 1, 1);
		if (!cpu || !is_wrong)
			return;
	}
	candidates = 0;
	for (size_t at = 0; at + 8 <= cpu_size; at += 8) {
		uint64_t word;

		memcpy(&word, cpu + at, 8);
		if (!word_is_possible(word) || word_says_off(word) != is_off)
			is_wrong[at] = 1;
		if (!is_wrong[at]) {
			candidates++;
			flag_place = at;
		}
	}
	seen[is_off]++;
	is_calibrated = seen[0] >= OBSERVATIONS && seen[1] >= OBSERVATIONS && candidates == 1;
}

static bool irqs_are_off(void)
{
	uint64_t word;

	memcpy(&word, cpu + flag_place, 8);
	return word_says_off(word);
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

static void look_at_irqs(const struct block *block)
{
	bool is_off = irqs_are_off();
	bool is_interrupt = block->va == VECTOR_IRQ;

	/* They were on, and an interrupt was taken before any block was seen with them on. */
	if (irqs.is_open && is_interrupt)
		close_section(&irqs, previous->last);
	/* What waits, waits for nobody: the section ends, and another one begins after it. */
	if (previous->changes == WAITS && irqs.is_open)
		close_section(&irqs, previous->last);
	if (previous->changes == WAITS && preempt.is_open) {
		close_section(&preempt, previous->last);
		open_section(&preempt, block->va);
	}
	if (is_off && !irqs.is_open)
		open_section(&irqs, previous->changes == TURNS_OFF && !is_interrupt ? previous->last
										   : block->va);
	else if (!is_off && irqs.is_open)
		close_section(&irqs, previous->last);
}

static uint32_t preempt_count(void)
{
	uint32_t count = 0;

	if (debug_access(cpu, count_address, &count, sizeof(count), false))
		return 0;
	return count;
}

static void on_block(unsigned int vcpu, void *data)
{
	const struct block *block = data;

	if (is_done)
		return;
	if (!is_calibrated) {
		if (previous && previous->changes == TURNS_OFF)
			calibrate(true);
		/* An interrupt that is taken at once turns them off again. */
		else if (previous && previous->changes == TURNS_ON && block->va != VECTOR_IRQ)
			calibrate(false);
	} else if (previous) {
		look_at_irqs(block);
		if (block->is_user && count_address && is_counting) {
			user_checks++;
			user_wrong += preempt.is_open;
			preempt.is_open = false;
		}
	}
	ring[ring_pos++ & (RING - 1)] = (struct step){ block, executed };
	previous = block;
}

static void look_at_preemption(uint64_t pc)
{
	bool is_off = preempt_count();

	if (is_off && !preempt.is_open)
		open_section(&preempt, pc);
	else if (!is_off && preempt.is_open)
		close_section(&preempt, pc);
	if (is_off && preempt.start_pos == ring_pos && ring_pos)
		preempt.start_pos = ring_pos - 1;
}

/* A store to the word that may be the count. */
static void on_count(unsigned int vcpu, uint32_t info, uint64_t address, void *pc)
{
	if (is_calibrated && !is_done && address == count_address && qemu_plugin_mem_is_store(info))
		look_at_preemption((uintptr_t)pc);
}

/* The registers of the next thread are loaded; its count lies 16 bytes before them. */
static void on_next_thread(unsigned int vcpu, uint32_t info, uint64_t address, void *offset)
{
	static uint64_t last;

	if (executed == last)
		return;	/* the other words of the same instruction */
	last = executed;
	count_address = address - (uintptr_t)offset + 4;
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
	fprintf(out, "latlab-sections 1 arm\n");
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
		write_all();
	}
}

static enum changes changes_arm(const struct insn *i)
{
	if (i->is_thumb)
		return i->op == 0xb672 ? TURNS_OFF : i->op == 0xb662 ? TURNS_ON : NOTHING;
	if ((i->op & 0xfffffe3f) == 0xf10c0000 && i->op & 0x80)
		return TURNS_OFF;
	if ((i->op & 0xfffffe3f) == 0xf1080000 && i->op & 0x80)
		return TURNS_ON;
	return NOTHING;	/* msr cpsr_c may do either: the next block tells */
}

static void watch_count(struct qemu_plugin_insn *in, const struct insn *i)
{
	static uint64_t add_va, switch_va;	/* of the add before, and of the one in __switch_to */
	static uintptr_t add_value, offset;
	void *pc = (void *)(uintptr_t)i->va;

	/* str Rd, [Rn, #4] */
	if ((i->op & 0x0ff00fff) == 0x05800004)
		qemu_plugin_register_vcpu_mem_cb(in, on_count, QEMU_PLUGIN_CB_NO_REGS,
						 QEMU_PLUGIN_MEM_RW, pc);
	/* __switch_to: add ip, r1, #offset; stmia ip!, {r4 - sl, fp, sp, lr} … ldmia r4, {r4 - …} */
	if ((i->op & 0xfffff000) == 0xe281c000) {
		add_value = i->op & 0xfff;
		add_va = i->va;
	} else if ((i->op & 0xffff0000) == 0xe8ac0000 && i->va == add_va + 4) {
		offset = add_value;
		switch_va = add_va;
	} else if ((i->op & 0xffff0000) == 0xe8940000 && i->va - switch_va < 256) {
		qemu_plugin_register_vcpu_mem_cb(in, on_next_thread, QEMU_PLUGIN_CB_NO_REGS,
						 QEMU_PLUGIN_MEM_RW, (void *)offset);
	}
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);
	bool is_thumb = looks_like_thumb(tb, n);
	struct block *block = calloc(1, sizeof(*block));

	if (!block)
		return;
	block->va = qemu_plugin_tb_vaddr(tb);
	block->n_insns = n;
	block->is_user = in_user_space(arch, block->va);
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS, block);
	for (size_t k = 0; k < n; k++) {
		struct qemu_plugin_insn *in = qemu_plugin_tb_get_insn(tb, k);
		struct insn i = read_insn(arch, in, is_thumb);

		block->last = i.va;
		block->leaves = leaves(arch, &i);
		qemu_plugin_register_vcpu_insn_exec_inline(in, QEMU_PLUGIN_INLINE_ADD_U64, &executed, 1);
		if (i.is_user) {
			if (is_mark(arch, &i, 0x51))
				qemu_plugin_register_vcpu_insn_exec_cb(in, on_mark,
								       QEMU_PLUGIN_CB_NO_REGS, NULL);
			continue;
		}
		block->changes = waits(arch, &i) ? WAITS :
				 changes_arm(&i);
		watch_count(in, &i);
	}
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "out=", 4))
			out_name = strdup(argv[i] + 4);
		else if (!strncmp(argv[i], "marks=", 6))
			marks_max = strtoull(argv[i] + 6, NULL, 10);
	}
	if (strcmp(info->target_name, "arm")) {
		fprintf(stderr, "latlab_sections: sections are counted on 32-bit ARM only\n");
		return 1;
	}
	*(void **)&get_cpu = dlsym(RTLD_DEFAULT, "qemu_get_cpu");
	*(void **)&debug_access = dlsym(RTLD_DEFAULT, "cpu_memory_rw_debug");
	ring = malloc(RING * sizeof(*ring));
	irqs.steps = malloc(STEPS_MAX * sizeof(struct step));
	preempt.steps = malloc(STEPS_MAX * sizeof(struct step));
	if (!get_cpu || !debug_access) {
		fprintf(stderr, "latlab_sections: this QEMU does not export qemu_get_cpu and cpu_memory_rw_debug\n");
		return 1;
	}
	if (!ring || !irqs.steps || !preempt.steps)
		return 1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	return 0;
}
