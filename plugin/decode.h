/* SPDX-License-Identifier: GPL-2.0 */
/* What latlab's plugins have to know of an instruction, for 32-bit ARM (ARM and Thumb) and x86-64. */
#ifndef LATLAB_DECODE_H
#define LATLAB_DECODE_H

#include "plugin_api.h"
#include <string.h>

enum arch { ARCH_ARM, ARCH_X86_64 };

struct insn {
	uint64_t va;
	uint64_t op;	/* the first bytes, little endian; a Thumb instruction of 32 bits: first half first */
	size_t size;
	bool is_user;
	bool is_thumb;
};

/* How control leaves an instruction. */
enum leaves { FALLS_THROUGH = '-', CALLS = 'c', RETURNS = 'r' };

/* ARM: the kernel's modules begin below its image, and vectors and their stubs lie at the top. */
static inline bool in_user_space(enum arch arch, uint64_t va)
{
	if (arch == ARCH_X86_64)
		return va < 0x800000000000u;
	return va < 0xbf000000u;
}

/* A block of Thumb code is told by the size of one of its instructions or by its address. */
static inline bool looks_like_thumb(const struct qemu_plugin_tb *tb, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct qemu_plugin_insn *in = qemu_plugin_tb_get_insn(tb, i);

		if (qemu_plugin_insn_size(in) == 2 || qemu_plugin_insn_vaddr(in) & 3)
			return true;
	}
	return false;
}

static inline struct insn read_insn(enum arch arch, const struct qemu_plugin_insn *in, bool is_thumb)
{
	struct insn insn = {
		.va = qemu_plugin_insn_vaddr(in),
		.size = qemu_plugin_insn_size(in),
		.is_thumb = is_thumb,
	};

	memcpy(&insn.op, qemu_plugin_insn_data(in), insn.size < 8 ? insn.size : 8);
	insn.is_user = in_user_space(arch, insn.va);
	if (is_thumb && insn.size == 4)
		insn.op = (uint32_t)(insn.op << 16 | insn.op >> 16);
	return insn;
}

/* A hint that only the measuring program uses (crates/latlab-sys/src/wakeup/path_mark.rs). */
static inline bool is_mark(enum arch arch, const struct insn *i, unsigned int number)
{
	if (arch == ARCH_X86_64)
		return i->size == 8 && i->op == (0x4c4c000000841f0fu | (uint64_t)number << 32);
	/* Also where all instructions of a Thumb block have 32 bits. */
	return i->size == 4 && (i->op == (0xe320f000u | number) || i->op == (0xf3af8000u | number) ||
				i->op == ((0x8000u | number) << 16 | 0xf3afu));
}

/* Reads the clock's counter: `mrrc p15, 1, …, c14`, `rdtsc`, `rdtscp`. */
static inline bool reads_counter(enum arch arch, const struct insn *i)
{
	if (arch == ARCH_X86_64)
		return (i->size == 2 && i->op == 0x310f) || (i->size == 3 && i->op == 0xf9010f);
	if (i->size != 4)
		return false;
	uint32_t swapped = (uint32_t)(i->op << 16 | i->op >> 16);

	return (i->op & 0x0ff00fff) == 0x0c500f1e ||
	       (i->is_user && (swapped & 0xfff00fff) == 0xec500f1e);
}

/* Waits for an interrupt: `wfi`, `hlt`, `mwait`. */
static inline bool waits(enum arch arch, const struct insn *i)
{
	if (i->is_user)
		return false;
	if (arch == ARCH_X86_64)
		return (i->size == 1 && i->op == 0xf4) || (i->size == 3 && i->op == 0xc9010f);
	return i->is_thumb ? i->op == 0xbf30 || i->op == 0xf3af8003 : i->op == 0xe320f003;
}

static inline enum leaves leaves_x86(const struct insn *i)
{
	unsigned int first = i->op & 0xff, second = i->op >> 8 & 0xff;

	if (first == 0x40 + (first & 0xf)) {	/* a REX prefix */
		first = second;
		second = i->op >> 16 & 0xff;
	}
	if (first == 0xe8 || (first == 0xff && (second & 0x38) == 0x10))
		return CALLS;
	if (first == 0xc3 || first == 0xc2 || first == 0xcf || (first == 0xf3 && second == 0xc3))
		return RETURNS;
	return (first == 0x0f && second == 0x07) ? RETURNS : FALLS_THROUGH;	/* sysret */
}

static inline enum leaves leaves_arm(const struct insn *i)
{
	if (i->is_thumb && i->size == 2) {
		if ((i->op & 0xff80) == 0x4780)
			return CALLS;				/* blx Rm */
		return i->op == 0x4770 || (i->op & 0xff00) == 0xbd00 ? RETURNS : FALLS_THROUGH;
	}
	if (i->is_thumb)
		return (i->op & 0xf800d000) == 0xf000d000 ? CALLS :
		       (i->op & 0xffff8000) == 0xe8bd8000 ? RETURNS : FALLS_THROUGH;
	if ((i->op & 0x0f000000) == 0x0b000000 || (i->op & 0x0ffffff0) == 0x012fff30)
		return CALLS;					/* bl, blx Rm */
	if ((i->op & 0x0fffffff) == 0x012fff1e || (i->op & 0x0e108000) == 0x08108000 ||
	    (i->op & 0x0fffffff) == 0x049df004 || (i->op & 0x0fefffff) == 0x01a0f00e)
		return RETURNS;					/* bx lr, ldm … pc, pop {pc}, mov(s) pc, lr */
	return (i->op & 0xfe50ffff) == 0xf8100a00 ? RETURNS : FALLS_THROUGH;	/* rfe */
}

static inline enum leaves leaves(enum arch arch, const struct insn *i)
{
	return arch == ARCH_X86_64 ? leaves_x86(i) : leaves_arm(i);
}

/* Calls the address in a register. */
static inline bool calls_by_register(enum arch arch, const struct insn *i)
{
	if (arch == ARCH_X86_64) {
		uint64_t op = (i->op & 0xf0) == 0x40 ? i->op >> 8 : i->op;

		return (op & 0xff) == 0xff && (op >> 8 & 0xf8) == 0xd0;
	}
	return i->is_thumb ? i->size == 2 && (i->op & 0xff80) == 0x4780 :
			     (i->op & 0x0ffffff0) == 0x012fff30;
}

/* Returns from an exception: `iret`. */
static inline bool is_iret(const struct insn *i)
{
	return (i->size == 1 && i->op == 0xcf) || (i->size == 2 && i->op == 0xcf48);
}

#endif
