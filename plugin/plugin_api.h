/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The part of QEMU's plugin interface, version 1 (QEMU 4.2 and later), that latlab's plugins use:
 * declarations of our own, so that no file of QEMU is needed to build them.
 */
#ifndef LATLAB_PLUGIN_API_H
#define LATLAB_PLUGIN_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

/* Begins as QEMU's does; what follows is not read. */
typedef struct {
	const char *target_name;
	struct {
		int min;
		int cur;
	} version;
} qemu_info_t;

enum { QEMU_PLUGIN_CB_NO_REGS = 0 };	/* the callback reads no registers */
enum { QEMU_PLUGIN_MEM_RW = 3 };	/* loads and stores; 7.2 confuses the other values */
enum { QEMU_PLUGIN_INLINE_ADD_U64 = 0 };

typedef void (*tb_trans_cb_t)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*exec_cb_t)(unsigned int vcpu, void *data);
typedef void (*mem_cb_t)(unsigned int vcpu, uint32_t info, uint64_t address, void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, tb_trans_cb_t cb);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, exec_cb_t cb, int flags,
					  void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, exec_cb_t cb, int flags,
					    void *data);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, int op, void *counter,
						uint64_t add);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, mem_cb_t cb, int flags, int rw,
				      void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
bool qemu_plugin_mem_is_store(uint32_t info);

#endif
