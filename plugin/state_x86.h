/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The state of x86-64: bit 9 of the flags, IF. The preemption count and the running task are variables of the CPU,
 * which the kernel reaches with the segment gs; the count's highest bit is clear while the scheduler is to run
 * (arch/x86/include/asm/preempt.h). Where they lie is told by the symbols that the plugin gets, and by
 * __per_cpu_offset.
 *
 * All gates of the kernel turn interrupts off. Which code begins with which vector stands in the table of
 * interrupts, which lies at a fixed address (arch/x86/include/asm/cpu_entry_area.h).
 *
 * Both are read at the first kernel code behind the first mark: the table is whole then.
 */
#ifndef LATLAB_STATE_X86_H
#define LATLAB_STATE_X86_H

#define X86_IDT 0xfffffe0000000000u
#define X86_VECTORS 256
#define X86_NMI 2
#define X86_FIRST_INTERRUPT 0x20	/* below it are exceptions */
#define X86_INT80 0x80			/* a system call of 32 bits */
#define X86_RESCHED_BIT 0x80000000u

enum { VECTOR_UNKNOWN = -2, NO_VECTOR = -1 };

/* Addresses of symbols, then of what they name for CPU 0. */
static uint64_t x86_count_symbol, x86_current_symbol, x86_offsets_symbol;
static uint64_t x86_count_va, x86_current_va;
static uint64_t x86_gates[X86_VECTORS];

/* CC and DF stand elsewhere; TF, IOPL, NT, RF, AC and ID may be set. */
static bool x86_word_is_possible(uint64_t word)
{
	return !(word & ~0x257302ull);
}

static bool x86_word_says_off(uint64_t word)
{
	return !(word & 0x200);
}

static uint64_t x86_long_at(uint64_t address)
{
	uint64_t value = 0;

	return read_memory(address, &value, sizeof(value)) ? value : 0;
}

static bool x86_read_gates(void)
{
	for (unsigned int n = 0; n < X86_VECTORS; n++) {
		uint8_t gate[16];
		uint16_t low, middle;
		uint32_t high;

		if (!read_memory(X86_IDT + 16 * n, gate, sizeof(gate)))
			return false;
		memcpy(&low, gate, 2);
		memcpy(&middle, gate + 6, 2);
		memcpy(&high, gate + 8, 4);
		x86_gates[n] = low | (uint64_t)middle << 16 | (uint64_t)high << 32;
	}
	/* Of the first interrupt there is one in any case. */
	return !in_user_space(ARCH_X86_64, x86_gates[X86_FIRST_INTERRUPT]);
}

static bool x86_kernel_is_found(const struct block *block)
{
	static bool is_found;

	if (is_found || !marks || block->is_user)
		return is_found;
	/* With the page table of user code little of the kernel is mapped. */
	uint64_t base = x86_long_at(x86_offsets_symbol);

	if (!base || !x86_read_gates())
		return false;
	x86_count_va = base + x86_count_symbol;
	x86_current_va = base + x86_current_symbol;
	thread = x86_long_at(x86_current_va);
	is_found = thread != 0;
	return is_found;
}

static uint32_t x86_preempt_count(void)
{
	return word_at(x86_count_va) & ~X86_RESCHED_BIT;
}

static bool x86_needs_resched(void)
{
	return !(word_at(x86_count_va) & X86_RESCHED_BIT);
}

static int x86_vector(struct block *block)
{
	if (block->vector != VECTOR_UNKNOWN)
		return block->vector;
	block->vector = NO_VECTOR;
	for (unsigned int n = 0; n < X86_VECTORS && !block->is_user; n++)
		if (x86_gates[n] == block->va)
			block->vector = n;
	return block->vector;
}

static bool x86_is_interrupt(struct block *block)
{
	int vector = x86_vector(block);

	return vector >= X86_FIRST_INTERRUPT && vector != X86_INT80;
}

static void x86_on_store(unsigned int vcpu, uint32_t info, uint64_t address, void *pc)
{
	if (!x86_count_va || !qemu_plugin_mem_is_store(info))
		return;
	if (address == x86_count_va) {
		on_count_store((uintptr_t)pc);
	} else if (address == x86_current_va) {
		thread = x86_long_at(x86_current_va);
		on_thread_switch();
	}
}

static enum changes x86_changes(const struct insn *i)
{
	if (i->size != 1)
		return NOTHING;	/* popf, iret, syscall and sysret end a block of QEMU: the next one tells */
	return i->op == 0xfa ? TURNS_OFF : i->op == 0xfb ? TURNS_ON : NOTHING;
}

/* An instruction with the segment gs. */
static void x86_watch(struct qemu_plugin_insn *in, const struct insn *i)
{
	for (size_t k = 0; k < 4 && k < i->size; k++) {
		uint8_t byte = i->op >> 8 * k;

		if (byte == 0x65) {
			qemu_plugin_register_vcpu_mem_cb(in, x86_on_store, QEMU_PLUGIN_CB_NO_REGS,
							 QEMU_PLUGIN_MEM_RW, (void *)(uintptr_t)i->va);
			return;
		}
		/* Other prefixes: operand size, lock, repetition. */
		if (byte != 0x66 && byte != 0xf0 && byte != 0xf2 && byte != 0xf3)
			return;
	}
}

/* Takes an argument with a symbol's address; whether it was one. */
static bool x86_argument(const char *name, const char *value)
{
	uint64_t address = strtoull(value, NULL, 16);

	if (!strcmp(name, "count"))
		x86_count_symbol = address;
	else if (!strcmp(name, "current"))
		x86_current_symbol = address;
	else if (!strcmp(name, "offsets"))
		x86_offsets_symbol = address;
	else
		return false;
	return true;
}

#endif
