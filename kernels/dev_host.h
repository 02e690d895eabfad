// The software device's side of dev.h. The device itself (threads as fibers, barriers, the driver's calls) is not
// here: cudaengine/softcuda declares in soft.h what it offers to kernels.
#pragma once

#include <cmath>
#include <cstring>
#include <utility>

#include "soft.h"

#define DEV_FN static inline __attribute__((always_inline, unused))
#define DEV_KERNEL(THREADS, BLOCKS) extern "C" void
#define DEV_THREAD (soft_cur->tid.x)
#define DEV_THREADS (soft_blk.bdim.x)
#define DEV_BLOCK_X (soft_blk.bid.x)
#define DEV_BLOCK_Y (soft_blk.bid.y)
#define DEV_BLOCK_Z (soft_blk.bid.z)
#define DEV_BLOCKS_X (soft_blk.gdim.x)
#define DEV_BLOCKS_Z (soft_blk.gdim.z)
#define DEV_LANE (soft_cur->lane)
#define DEV_WARP (soft_cur->warp)
#define DEV_SHARED(name) unsigned char *name = soft_blk.shared
#define dev_sync() soft_syncthreads()
#define dev_sync_warp() soft_syncwarp(0xffffffffu)

// A kernel registers itself with the sizes of its parameters.
template <auto F> struct soft_thunk;
template <class... A, void (*F)(A...)> struct soft_thunk<F> {
  template <size_t... I> static void go(void **p, std::index_sequence<I...>) { F(*(A *)p[I]...); }
  static void run(void **p) { go(p, std::index_sequence_for<A...>{}); }
  static constexpr unsigned sizes[sizeof...(A) + 1] = {sizeof(A)..., 0};
  static constexpr unsigned n = sizeof...(A);
};
#define EXPORT_KERNEL(k)                                                                     \
  static const bool reg_##k = (soft_register(#k, soft_thunk<&k>::run, soft_thunk<&k>::sizes, \
                                             soft_thunk<&k>::n), true);

template <class To, class From> static inline To soft_cast(From x) {
  To y;
  static_assert(sizeof y == sizeof x, "a cast keeps the bits");
  memcpy(&y, &x, sizeof y);
  return y;
}
DEV_FN uint32_t dev_bits(float x) { return soft_cast<uint32_t>(x); }
DEV_FN uint64_t dev_bits(double x) { return soft_cast<uint64_t>(x); }
DEV_FN float dev_float(uint32_t x) { return soft_cast<float>(x); }
DEV_FN double dev_double(uint64_t x) { return soft_cast<double>(x); }

DEV_FN uint32_t dev_shfl_xor_bits(uint32_t v, unsigned x) { return soft_shfl_xor(0xffffffffu, v, x); }

DEV_FN float dev_fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
DEV_FN double dev_fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
DEV_FN float dev_sqrt(float x) { return sqrtf(x); }
DEV_FN float dev_ex2(float x) { return exp2f(x); }
DEV_FN float dev_lg2(float x) { return log2f(x); }

DEV_FN uint32_t soft_round_bf16(float f) {
  uint32_t u = dev_bits(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fffu; // what cvt.rn.bf16x2 makes of any NaN
  return (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
}
DEV_FN uint32_t dev_pack_bf16(float lo, float hi) { return soft_round_bf16(lo) | soft_round_bf16(hi) << 16; }

DEV_FN void dev_mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  uint32_t b[2] = {b0, b1};
  soft_mma_bf16(d, a, b);
}

DEV_FN void soft_ldmatrix_row(uint32_t (&r)[4], const void *p, bool trans) {
  uint16_t row[8];
  if ((uintptr_t)p & 15) soft_fault("ldmatrix: row address not 16-byte aligned");
  memcpy(row, p, sizeof row);
  soft_ldmatrix(r, row, 4, trans);
}
DEV_FN void dev_ldmatrix(uint32_t (&r)[4], const void *row) { soft_ldmatrix_row(r, row, false); }
DEV_FN void dev_ldmatrix_trans(uint32_t (&r)[4], const void *row) { soft_ldmatrix_row(r, row, true); }

DEV_FN void dev_aligned(const void *p, int bytes) {
  if ((uintptr_t)p % (uintptr_t)bytes) soft_fault("a vector in memory is not aligned to its size");
}

// A copy lands as late as the rules allow (a missing wait reads poison), or as early (a missing barrier before
// the next copy shows as a race).
static inline void soft_land(const soft_copy &c) {
  memcpy(c.to, c.from, (size_t)c.bytes);
  memset((char *)c.to + c.bytes, 0, (size_t)(16 - c.bytes));
}
DEV_FN void dev_cp_async16(void *shared, const void *global, int bytes) {
  soft_thread *t = soft_cur;
  if (((uintptr_t)shared | (uintptr_t)global) & 15) soft_fault("cp.async: address not 16-byte aligned");
  if (bytes < 0 || bytes > 16) { soft_fault("cp.async: neither 0 to 16 bytes"); return; }
  soft_copy c = {shared, global, bytes, t->group};
  if (soft_cp_early) { soft_land(c); return; }
  if (t->ncopies == 64) { soft_fault("cp.async: more than 64 copies under way"); return; }
  t->copies[t->ncopies++] = c;
}
DEV_FN void dev_cp_async_commit() { soft_cur->group++; }
template <int N> DEV_FN void dev_cp_async_wait() {
  soft_thread *t = soft_cur;
  int kept = 0;
  for (int i = 0; i < t->ncopies; i++) {
    if (t->copies[i].group < t->group - N) soft_land(t->copies[i]);
    else t->copies[kept++] = t->copies[i];
  }
  t->ncopies = kept;
}

// Threads of a block take turns, blocks follow each other: nothing to guard.
DEV_FN void dev_atomic_add(uint64_t *p, uint64_t v) { *p += v; }
