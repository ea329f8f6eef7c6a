/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whether interrupts are off, and the preemption count of the running thread: one CPU; 32-bit ARM and x86-64.
 *
 * Whether interrupts are off is read from QEMU's CPU object. Where in it stands is found by watching:
 * after instructions that turn interrupts off the word must say so, after those that turn
 * them on the opposite.
 *
 * The preemption count is a word in memory: each store to it is seen, and its value read through QEMU's
 * debugger interface.
 *
 * Both functions of QEMU are outside of the plugin interface: without them there is an error.
 *
 * Code is cut into blocks: those of QEMU, which are cut once more behind an instruction that turns
 * interrupts on or off.
 */
#ifndef LATLAB_STATE_H
#define LATLAB_STATE_H

#include "decode.h"
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#define OBSERVATIONS 200	/* of each state until the place is known */

enum changes { NOTHING, TURNS_OFF, TURNS_ON, WAITS };

struct block {
	uint64_t va, last, next;	/* first and last instruction, and what is behind it */
	uint32_t n_insns;
	uint8_t changes;
	uint8_t place;			/* what a plugin knows of the code here */
	char leaves;
	bool is_user, calls_by_register, is_iret;
	int16_t vector;			/* of the exception that begins here; see state_x86.h */
};

/* What the plugin does at a block, at a store to the running thread's preemption count by an instruction at pc,
 * when another thread runs, and at a wake-up that the measuring program marks. What it knows of a block. */
static void on_block(unsigned int vcpu, void *data);
static void on_count_store(uint64_t pc);
static void on_thread_switch(void);
static void on_mark(unsigned int vcpu, void *data);
static uint8_t place_of(uint64_t va);

static enum arch arch;
static void *(*get_cpu)(int);
static int (*debug_access)(void *cpu, uint64_t address, void *buffer, uint64_t length, bool is_write);
static uint8_t *cpu, *is_wrong;
static size_t cpu_size, flag_place;
static unsigned int seen[2], candidates;
static bool is_calibrated;

static uint64_t executed;		/* instructions */
static exec_cb_t on_clock_read;		/* what the plugin does before the kernel reads the clock's counter, if anything */
static uint64_t thread;			/* its thread_info or task_struct */
static uint64_t marks;			/* wake-ups that were marked */

static bool has_cpu(void)
{
	if (!cpu) {
		cpu = get_cpu(0);
		cpu_size = cpu ? malloc_usable_size(cpu) & ~7ull : 0;
		is_wrong = calloc(cpu_size + 1, 1);
	}
	return cpu && is_wrong;
}

/* false where nothing is mapped. */
static bool read_memory(uint64_t address, void *to, size_t length)
{
	return !debug_access(cpu, address, to, length, false);
}

/* 0 where nothing is mapped. */
static uint32_t word_at(uint64_t address)
{
	uint32_t word = 0;

	return read_memory(address, &word, sizeof(word)) ? word : 0;
}

#include "state_arm.h"
#include "state_x86.h"

static bool word_says_off(uint64_t word)
{
	return arch == ARCH_X86_64 ? x86_word_says_off(word) : arm_word_says_off(word);
}

static bool word_is_possible(uint64_t word)
{
	return arch == ARCH_X86_64 ? x86_word_is_possible(word) : arm_word_is_possible(word);
}

static void calibrate(bool is_off)
{
	if (!has_cpu())
		return;
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

/* Calibrates by the block before the one at an address, unless an exception was taken in between. */
static void calibrate_by(const struct block *before, uint64_t va)
{
	if (!before || before->next != va)
		return;
	if (before->changes == TURNS_OFF)
		calibrate(true);
	else if (before->changes == TURNS_ON)
		calibrate(false);
}

/* Whether the state is known at a block; until then it is searched for. */
static bool state_is_known(const struct block *before, const struct block *block)
{
	if (!is_calibrated) {
		calibrate_by(before, block->va);
		return false;
	}
	return arch == ARCH_ARM || x86_kernel_is_found(block);
}

static bool irqs_are_off(void)
{
	uint64_t word;

	memcpy(&word, cpu + flag_place, 8);
	return word_says_off(word);
}

static uint32_t preempt_count(void)
{
	return arch == ARCH_X86_64 ? x86_preempt_count() : arm_preempt_count();
}

/* Whether the scheduler is to run. */
static inline bool needs_resched(void)
{
	return arch == ARCH_X86_64 ? x86_needs_resched() : arm_needs_resched();
}

/* Whether an interrupt begins with a block: interrupts were on before it. */
static bool is_interrupt(struct block *block)
{
	return arch == ARCH_X86_64 ? x86_is_interrupt(block) : block->va == ARM_VECTOR_IRQ;
}

/* Whether a block begins an interrupt that cannot be turned off. */
static inline bool is_nmi(struct block *block)
{
	return arch == ARCH_X86_64 && x86_vector(block) == X86_NMI;
}

/* Counts an instruction, and watches what it does to the state; what it changes. */
static enum changes watch(struct qemu_plugin_insn *in, const struct insn *i)
{
	qemu_plugin_register_vcpu_insn_exec_inline(in, QEMU_PLUGIN_INLINE_ADD_U64, &executed, 1);
	if (i->is_user) {
		if (is_mark(arch, i, 0x51))
			qemu_plugin_register_vcpu_insn_exec_cb(in, on_mark, QEMU_PLUGIN_CB_NO_REGS, NULL);
		return NOTHING;
	}
	if (on_clock_read && reads_counter(arch, i))
		qemu_plugin_register_vcpu_insn_exec_cb(in, on_clock_read, QEMU_PLUGIN_CB_NO_REGS, NULL);
	if (waits(arch, i))
		return WAITS;
	if (arch == ARCH_X86_64) {
		x86_watch(in, i);
		return x86_changes(i);
	}
	arm_watch(in, i);
	return arm_changes(i);
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);
	bool is_thumb = arch == ARCH_ARM && looks_like_thumb(tb, n);
	struct block *block = NULL;

	for (size_t k = 0; k < n; k++) {
		struct qemu_plugin_insn *in = qemu_plugin_tb_get_insn(tb, k);
		struct insn i = read_insn(arch, in, is_thumb);

		if (!block || block->changes != NOTHING) {
			block = calloc(1, sizeof(*block));
			if (!block)
				return;
			block->va = i.va;
			block->is_user = i.is_user;
			block->place = place_of(i.va);
			block->vector = VECTOR_UNKNOWN;
			if (k)
				qemu_plugin_register_vcpu_insn_exec_cb(in, on_block,
								       QEMU_PLUGIN_CB_NO_REGS, block);
			else
				qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block,
								     QEMU_PLUGIN_CB_NO_REGS, block);
		}
		block->n_insns++;
		block->last = i.va;
		block->next = i.va + i.size;
		block->leaves = leaves(arch, &i);
		block->calls_by_register = calls_by_register(arch, &i);
		block->is_iret = arch == ARCH_X86_64 && is_iret(&i);
		block->changes = watch(in, &i);
	}
}

/* Whether this QEMU emulates what the plugin is for, and has what it needs. */
static bool find_qemu(const char *plugin, const qemu_info_t *info)
{
	if (strcmp(info->target_name, "arm") && strcmp(info->target_name, "x86_64")) {
		fprintf(stderr, "%s: sections are counted on 32-bit ARM and x86-64 only\n", plugin);
		return false;
	}
	arch = strcmp(info->target_name, "arm") ? ARCH_X86_64 : ARCH_ARM;
	*(void **)&get_cpu = dlsym(RTLD_DEFAULT, "qemu_get_cpu");
	*(void **)&debug_access = dlsym(RTLD_DEFAULT, "cpu_memory_rw_debug");
	if (get_cpu && debug_access)
		return true;
	fprintf(stderr, "%s: this QEMU does not export qemu_get_cpu and cpu_memory_rw_debug\n", plugin);
	return false;
}

#endif
