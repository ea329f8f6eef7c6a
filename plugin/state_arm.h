/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The state of 32-bit ARM: bit 7 of the word with PSTATE's DAIF; thread_info has the thread's flags, then its
 * preemption count.
 */
#ifndef LATLAB_STATE_ARM_H
#define LATLAB_STATE_ARM_H

#define ARM_VECTOR_IRQ 0xffff0018u
#define ARM_TIF_NEED_RESCHED 2u

static bool arm_word_says_off(uint64_t word)
{
	return word & 0x80;
}

static bool arm_word_is_possible(uint64_t word)
{
	return !(word & ~0x3c0ull);
}

static uint32_t arm_preempt_count(void)
{
	return word_at(thread + 4);
}

static bool arm_needs_resched(void)
{
	return word_at(thread) & ARM_TIF_NEED_RESCHED;
}

/* A store to the word that may be the count. */
static void arm_on_store(unsigned int vcpu, uint32_t info, uint64_t address, void *pc)
{
	if (is_calibrated && thread && address == thread + 4 && qemu_plugin_mem_is_store(info))
		on_count_store((uintptr_t)pc);
}

/* The registers of the next thread are loaded; its thread_info begins that far before them. */
static void arm_on_next_thread(unsigned int vcpu, uint32_t info, uint64_t address, void *offset)
{
	static uint64_t last;

	if (executed == last)
		return;	/* the other words of the same instruction */
	last = executed;
	thread = address - (uintptr_t)offset;
	if (is_calibrated)
		on_thread_switch();
}

/*
 * Registers, where a block of QEMU's begins: the CPU object has them as sixteen words, the last of which is the
 * program counter. Its place is the one that has the address of each observed block; a QEMU that does not keep it up
 * to date has none.
 */
#define ARM_OBSERVATIONS 400

static size_t arm_pc_place;
static unsigned int arm_pc_seen, arm_pc_candidates;

static inline void arm_find_registers(uint32_t va)
{
	static uint8_t *is_not;

	if (arm_pc_seen >= ARM_OBSERVATIONS || !has_cpu())
		return;
	if (!is_not)
		is_not = calloc(cpu_size + 1, 1);
	if (!is_not)
		return;
	arm_pc_candidates = 0;
	for (size_t at = 15 * 4; at + 4 <= cpu_size; at += 4) {
		uint32_t word;

		memcpy(&word, cpu + at, 4);
		is_not[at] |= word != va;
		if (!is_not[at]) {
			arm_pc_candidates++;
			arm_pc_place = at;
		}
	}
	arm_pc_seen++;
}

/* Register 0 to 14, or -1 where they were not found. */
static inline int64_t arm_register(unsigned int n)
{
	uint32_t word;

	if (arm_pc_seen < ARM_OBSERVATIONS || arm_pc_candidates != 1)
		return -1;
	memcpy(&word, cpu + arm_pc_place - 4 * (15 - n), 4);
	return word;
}

static enum changes arm_changes(const struct insn *i)
{
	if (i->is_thumb)
		return i->op == 0xb672 ? TURNS_OFF : i->op == 0xb662 ? TURNS_ON : NOTHING;
	if ((i->op & 0xfffffe3f) == 0xf10c0000 && i->op & 0x80)
		return TURNS_OFF;
	if ((i->op & 0xfffffe3f) == 0xf1080000 && i->op & 0x80)
		return TURNS_ON;
	return NOTHING;	/* msr cpsr_c may do either: the next block tells */
}

static void arm_watch(struct qemu_plugin_insn *in, const struct insn *i)
{
	static uint64_t add_va, switch_va;	/* of the add before, and of the one in __switch_to */
	static uintptr_t add_value, offset;
	void *pc = (void *)(uintptr_t)i->va;

	/* str Rd, [Rn, #4] */
	if ((i->op & 0x0ff00fff) == 0x05800004)
		qemu_plugin_register_vcpu_mem_cb(in, arm_on_store, QEMU_PLUGIN_CB_NO_REGS,
						 QEMU_PLUGIN_MEM_RW, pc);
	/* __switch_to: add ip, r1, #offset; stmia ip!, {r4 - sl, fp, sp, lr} … ldmia r4, {r4 - …} */
	if ((i->op & 0xfffff000) == 0xe281c000) {
		add_value = i->op & 0xfff;
		add_va = i->va;
	} else if ((i->op & 0xffff0000) == 0xe8ac0000 && i->va == add_va + 4) {
		offset = add_value;
		switch_va = add_va;
	} else if ((i->op & 0xffff0000) == 0xe8940000 && i->va - switch_va < 256) {
		qemu_plugin_register_vcpu_mem_cb(in, arm_on_next_thread, QEMU_PLUGIN_CB_NO_REGS,
						 QEMU_PLUGIN_MEM_RW, (void *)offset);
	}
}

#endif
