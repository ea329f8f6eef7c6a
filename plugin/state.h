/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whether interrupts are off, and the preemption count of the running thread: 32-bit ARM, one CPU.
 *
 * Whether interrupts are off is read from QEMU's CPU object. Where in it stands is found by watching:
 * after instructions that turn interrupts off the word must say so, after those that turn
 * them on the opposite.
 *
 * The preemption count is a word of the thread: each store to it is seen, and its value read through
 * QEMU's debugger interface.
 *
 * Both functions of QEMU are outside of the plugin interface: without them there is an error.
 */
#ifndef LATLAB_STATE_H
#define LATLAB_STATE_H

#include "decode.h"
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#define OBSERVATIONS 200	/* of each state until the place is known */
#define VECTOR_IRQ 0xffff0018u

enum changes { NOTHING, TURNS_OFF, TURNS_ON, WAITS };

/* What the plugin does when the running thread's preemption count was stored to, by an instruction at pc,
 * when another thread runs, and at a wake-up that the measuring program marks. */
static void on_count_store(uint64_t pc);
static void on_thread_switch(void);
static void on_mark(unsigned int vcpu, void *data);

static void *(*get_cpu)(int);
static int (*debug_access)(void *cpu, uint64_t address, void *buffer, uint64_t length, bool is_write);
static uint8_t *cpu, *is_wrong;
static size_t cpu_size, flag_place;
static unsigned int seen[2], candidates;
static bool is_calibrated;

static uint64_t executed;		/* instructions */
static uint64_t thread;			/* its thread_info: flags, then the preemption count */

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

/* Calibrates by the block before the one at an address. */
static void calibrate_by(enum changes before, uint64_t va)
{
	if (before == TURNS_OFF)
		calibrate(true);
	/* An interrupt that is taken at once turns them off again. */
	else if (before == TURNS_ON && va != VECTOR_IRQ)
		calibrate(false);
}

static bool irqs_are_off(void)
{
	uint64_t word;

	memcpy(&word, cpu + flag_place, 8);
	return word_says_off(word);
}

/* 0 where nothing is mapped. */
static uint32_t word_at(uint64_t address)
{
	uint32_t word = 0;

	if (debug_access(cpu, address, &word, sizeof(word), false))
		return 0;
	return word;
}

static uint32_t preempt_count(void)
{
	return word_at(thread + 4);
}

/* A store to the word that may be the count. */
static void on_store(unsigned int vcpu, uint32_t info, uint64_t address, void *pc)
{
	if (is_calibrated && thread && address == thread + 4 && qemu_plugin_mem_is_store(info))
		on_count_store((uintptr_t)pc);
}

/* The registers of the next thread are loaded; its thread_info begins that far before them. */
static void on_next_thread(unsigned int vcpu, uint32_t info, uint64_t address, void *offset)
{
	static uint64_t last;

	if (executed == last)
		return;	/* the other words of the same instruction */
	last = executed;
	thread = address - (uintptr_t)offset;
	if (is_calibrated)
		on_thread_switch();
}

static enum changes changes_arm(const struct insn *i)
{
	if (waits(ARCH_ARM, i))
		return WAITS;
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
		qemu_plugin_register_vcpu_mem_cb(in, on_store, QEMU_PLUGIN_CB_NO_REGS,
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

/* Counts an instruction, and watches what it does to the state; what it changes. */
static enum changes watch(struct qemu_plugin_insn *in, const struct insn *i)
{
	qemu_plugin_register_vcpu_insn_exec_inline(in, QEMU_PLUGIN_INLINE_ADD_U64, &executed, 1);
	if (i->is_user) {
		if (is_mark(ARCH_ARM, i, 0x51))
			qemu_plugin_register_vcpu_insn_exec_cb(in, on_mark, QEMU_PLUGIN_CB_NO_REGS, NULL);
		return NOTHING;
	}
	watch_count(in, i);
	return changes_arm(i);
}

/* Whether this QEMU emulates what the plugin is for, and has what it needs. */
static bool find_qemu(const char *plugin, const qemu_info_t *info)
{
	if (strcmp(info->target_name, "arm")) {
		fprintf(stderr, "%s: sections are counted on 32-bit ARM only\n", plugin);
		return false;
	}
	*(void **)&get_cpu = dlsym(RTLD_DEFAULT, "qemu_get_cpu");
	*(void **)&debug_access = dlsym(RTLD_DEFAULT, "cpu_memory_rw_debug");
	if (get_cpu && debug_access)
		return true;
	fprintf(stderr, "%s: this QEMU does not export qemu_get_cpu and cpu_memory_rw_debug\n", plugin);
	return false;
}

#endif
