// SPDX-License-Identifier: GPL-2.0
/*
 * Which blocks of instructions were executed between a timer's expiry and the clock reading in user
 * space, for each wake-up that the measuring program marks. One CPU, virtual time.
 *
 * Arguments: out=FILE shift=N (one instruction takes 2^N ns) steps=N (of all paths together).
 *
 * A ring keeps the latest blocks with the number of instructions before each. A mark tells the
 * latency; the wake-up began that many instructions before the clock was read, or, where the CPU
 * waited then, when it left idle. Equal paths are written once. Everything is written at once: QEMU is
 * killed at the end.
 *
 * Of a wake-up from idle the latency is some instructions longer than the path: the kernel reads the
 * clock, then programs the timer, which expires that much later. Where it is longer by more, the timer
 * expired while the idle loop had interrupts off, and the wait ended at once.
 */
#include "decode.h"
#include <stdio.h>
#include <stdlib.h>

EXPORT int qemu_plugin_version = 1;

#define RING (1u << 20)
#define PATHS (1u << 12)	/* different paths; a power of two */
#define PATH_STEPS 200000u	/* of one path */
#define PROGRAMMING 150u	/* instructions from reading the clock to programming the timer, at most */

struct block {
	uint64_t va;
	uint32_t n_insns;
	uint32_t id;		/* 0: not written yet */
	bool waits;		/* ends with the instruction that waits */
	char leaves;
};

struct step {
	const struct block *block;
	uint64_t at;		/* instructions executed before it */
};

static struct step *ring;
static uint64_t ring_pos, executed;
static uint64_t idle_end, idle_end_pos, idle_end_before;
static uint64_t user_clock, user_clock_pos;
static const struct block *previous;
static bool is_marking;
static uint64_t marked_value;
static unsigned int marked_parts;

static enum arch arch;
static FILE *out;
static unsigned int shift;
static uint64_t steps_left = 4000000, wakeups;
static uint32_t block_ids, n_paths, n_dropped;
static uint64_t latency_max;
static struct {
	uint64_t hash;
	uint64_t insns;
} paths[PATHS];

static void on_block(unsigned int vcpu, void *data)
{
	struct block *block = data;

	if (previous && previous->waits) {
		idle_end_before = idle_end;
		idle_end = executed;
		idle_end_pos = ring_pos;
	}
	ring[ring_pos++ & (RING - 1)] = (struct step){ block, executed };
	previous = block;
}

static void on_user_clock(unsigned int vcpu, void *data)
{
	user_clock = executed;
	user_clock_pos = ring_pos - 1;
}

static void on_mark_begin(unsigned int vcpu, void *data)
{
	is_marking = true;
	marked_value = 0;
	marked_parts = 0;
}

static void on_mark_store(unsigned int vcpu, uint32_t info, uint64_t address, void *data)
{
	if (is_marking && marked_parts < 3 && qemu_plugin_mem_is_store(info))
		marked_value |= (address & 1023) << 10 * marked_parts++;
}

/* Instructions of the ring's entry `p`, of those between `from` and the clock reading. */
static uint64_t step_insns(uint64_t p, uint64_t from)
{
	uint64_t begin = ring[p & (RING - 1)].at;
	uint64_t end = p < user_clock_pos ? ring[(p + 1) & (RING - 1)].at : user_clock;

	if (begin < from)
		begin = from;
	return end > begin ? end - begin : 0;
}

static uint64_t hash_path(uint64_t first, uint64_t from)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (uint64_t p = first; p <= user_clock_pos; p++) {
		hash = (hash ^ ring[p & (RING - 1)].block->va) * 0x100000001b3u;
		hash = (hash ^ step_insns(p, from)) * 0x100000001b3u;
	}
	return hash;
}

static void write_path(uint32_t id, uint64_t first, uint64_t from)
{
	for (uint64_t p = first; p <= user_clock_pos; p++) {
		struct block *b = (struct block *)ring[p & (RING - 1)].block;

		if (!b->id) {
			b->id = ++block_ids;
			fprintf(out, "B %u %llx %u %c\n", b->id, (unsigned long long)b->va,
				b->n_insns, b->leaves);
		}
	}
	fprintf(out, "P %u\n", id);
	for (uint64_t p = first; p <= user_clock_pos; p++) {
		uint64_t n = step_insns(p, from);

		if (n)
			fprintf(out, "S %u %llu\n", ring[p & (RING - 1)].block->id, (unsigned long long)n);
	}
}

/* The number of the path, which is written if it is new; 0: there was no room left for it. */
static uint32_t path_of(uint64_t first, uint64_t from, bool is_worst)
{
	uint64_t hash = hash_path(first, from), n_steps = user_clock_pos - first + 1;
	uint64_t insns = user_clock - from;

	for (uint32_t i = 0; i < n_paths; i++)
		if (paths[i].hash == hash && paths[i].insns == insns)
			return i + 1;
	/* The worst one is kept also when there is no room for others. */
	if (n_steps > PATH_STEPS || n_paths >= PATHS || (n_steps > steps_left && !is_worst)) {
		n_dropped++;
		return 0;
	}
	steps_left -= n_steps < steps_left ? n_steps : steps_left;
	paths[n_paths].hash = hash;
	paths[n_paths++].insns = insns;
	write_path(n_paths, first, from);
	return n_paths;
}

static void on_mark_end(unsigned int vcpu, void *data)
{
	uint64_t latency = marked_value >> shift, from, first = user_clock_pos;
	bool is_idle;

	if (!is_marking || !user_clock)
		return;
	is_marking = false;
	from = user_clock > latency ? user_clock - latency : 0;
	is_idle = from < idle_end && idle_end < user_clock &&
		  (idle_end - from <= PROGRAMMING || from <= idle_end_before);
	if (is_idle) {
		from = idle_end;
		first = idle_end_pos;
	} else {
		while (first && ring_pos - first < RING - 1 && ring[first & (RING - 1)].at > from)
			first--;
		if (ring[first & (RING - 1)].at > from)
			from = ring[first & (RING - 1)].at;	/* longer ago than the ring reaches */
	}
	if (ring_pos - first >= RING)
		return;
	uint32_t path = path_of(first, from, marked_value > latency_max);

	if (marked_value > latency_max)
		latency_max = marked_value;
	fprintf(out, "W %llu %llu %u %c %u\n", (unsigned long long)marked_value,
		(unsigned long long)(user_clock - from), path, is_idle ? 'i' : 'b', n_dropped);
	fflush(out);
	wakeups++;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);
	bool is_thumb = arch == ARCH_ARM && looks_like_thumb(tb, n), in_mark = false;
	struct block *block = calloc(1, sizeof(*block));

	if (!block)
		return;
	block->va = qemu_plugin_tb_vaddr(tb);
	block->n_insns = n;
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS, block);
	for (size_t k = 0; k < n; k++) {
		struct qemu_plugin_insn *in = qemu_plugin_tb_get_insn(tb, k);
		struct insn i = read_insn(arch, in, is_thumb);
		exec_cb_t cb = NULL;

		block->waits = waits(arch, &i);
		block->leaves = leaves(arch, &i);
		if (is_mark(arch, &i, 0x51)) {
			in_mark = true;
			cb = on_mark_begin;
		} else if (is_mark(arch, &i, 0x52)) {
			in_mark = false;
			cb = on_mark_end;
		} else if (i.is_user && reads_counter(arch, &i)) {
			cb = on_user_clock;
		} else if (in_mark) {
			qemu_plugin_register_vcpu_mem_cb(in, on_mark_store, QEMU_PLUGIN_CB_NO_REGS,
							 QEMU_PLUGIN_MEM_RW, NULL);
		}
		qemu_plugin_register_vcpu_insn_exec_inline(in, QEMU_PLUGIN_INLINE_ADD_U64, &executed, 1);
		if (cb)
			qemu_plugin_register_vcpu_insn_exec_cb(in, cb, QEMU_PLUGIN_CB_NO_REGS, NULL);
	}
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	const char *name = "latlab-path.txt";

	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "out=", 4))
			name = argv[i] + 4;
		else if (!strncmp(argv[i], "shift=", 6))
			shift = atoi(argv[i] + 6) & 15;
		else if (!strncmp(argv[i], "steps=", 6))
			steps_left = strtoull(argv[i] + 6, NULL, 10);
	}
	arch = strcmp(info->target_name, "arm") ? ARCH_X86_64 : ARCH_ARM;
	ring = malloc(RING * sizeof(*ring));
	out = fopen(name, "w");
	if (!ring || !out)
		return 1;
	fprintf(out, "latlab-path 1 %s\n", info->target_name);
	fflush(out);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	return 0;
}
