// soft.h - what a kernel compiled for the host sees of the software device. kernels/dev.h includes it
// when DEV_HOST is defined and builds its dev_* functions on it; nothing else of the device is visible
// to kernels.
#pragma once
#include <cstddef>
#include <cstdint>

struct dim3_t { unsigned x, y, z; };

// soft_copy is a cp.async that has been issued and not been waited for: 16 bytes, the first `bytes` of them from
// global memory and the rest zero.
struct soft_copy { void *to; const void *from; int bytes, group; };

// soft_thread is what a kernel may see of the thread it runs as.
struct soft_thread {
  dim3_t tid;
  unsigned lane, warp;
  soft_copy copies[64];
  int ncopies, group;  // outstanding copies; number of groups committed
};

// soft_block is the running block; shared is its dynamic shared memory.
struct soft_block {
  dim3_t bid, bdim, gdim;
  unsigned char *shared;
  unsigned shared_bytes;
};

extern soft_thread *soft_cur;  // the running thread
extern soft_block soft_blk;    // the running block

// Barriers: of the block (an exited thread counts as arrived), and of the warp.
void soft_syncthreads();
void soft_syncwarp(unsigned mask);

// soft_collective is a rendezvous of the warp's 32 lanes: each hands over an operand, and the last to
// arrive runs compute over all of them. what names the operation; lanes that meet at different ones are
// a fault. It is no barrier for memory: a race between lanes stays a race.
void soft_collective(const char *what, void *operand, void (*compute)(void *const lanes[32]));

// The collectives of the hardware.
uint32_t soft_shfl_xor(unsigned mask, uint32_t value, unsigned lanes);
uint32_t soft_shfl_idx(unsigned mask, uint32_t value, unsigned lane);
void soft_mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2]);             // mma.sync.m16n8k16, fp32 sums
void soft_ldmatrix(uint32_t *r, const void *row, int matrices, bool transposed);     // row: this lane's 16 bytes, read already

// cp.async: a thread's copies wait in soft_thread, and kernels/dev_host.h lands them, so that the sanitizers see the
// kernel itself write. They land at the wait, as late as the rules allow, or at once where SOFTCUDA_CP=early.
extern bool soft_cp_early;

// soft_fault ends the launch with an error; the rest of the block may still run.
void soft_fault(const char *what);

// soft_register makes a kernel known under its name. run calls it with pointers to its parameters, whose
// sizes in bytes are given and stay the caller's.
void soft_register(const char *name, void (*run)(void **), const unsigned *sizes, unsigned n);
