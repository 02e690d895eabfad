// Kernels for the tests of the driver layer, written against the software device directly.
#include "soft.h"

// axpy: y[i] += a*x[i].
static void axpy(float *y, const float *x, float a, int n) {
  const unsigned i = soft_blk.bid.x * soft_blk.bdim.x + soft_cur->tid.x;
  if (i < static_cast<unsigned>(n)) y[i] += a * x[i];
}

// reverse: out[i] = in[n-1-i] of one block, through dynamic shared memory.
static void reverse(float *out, const float *in) {
  auto *shared = reinterpret_cast<float *>(soft_blk.shared);
  const unsigned i = soft_cur->tid.x, n = soft_blk.bdim.x;
  shared[i] = in[i];
  soft_syncthreads();
  out[i] = shared[n - 1 - i];
}

// fail: a kernel that ends in an error.
static void fail() { soft_fault("it was asked to"); }

// wild: a kernel that writes where there is no memory.
static void wild(long address) { *reinterpret_cast<int *>(address + 4 * soft_cur->tid.x) = 1; }

// crooked: a kernel that reads a float between two.
static void crooked(float *p) { p[1] = *reinterpret_cast<float *>(reinterpret_cast<char *>(p) + 2); }

// lonely: half of the block waits at a barrier that the other half waits for at a warp operation.
static void lonely() {
  if (soft_cur->tid.x & 1) soft_syncthreads();
  else soft_syncwarp(0xffffffff);
}

static const unsigned axpy_sizes[] = {8, 8, 4, 4}, reverse_sizes[] = {8, 8}, pointer_sizes[] = {8}, no_sizes[] = {0};
static const bool registered = [] {
  soft_register("axpy", [](void **p) { axpy(*(float **)p[0], *(const float **)p[1], *(float *)p[2], *(int *)p[3]); }, axpy_sizes, 4);
  soft_register("reverse", [](void **p) { reverse(*(float **)p[0], *(const float **)p[1]); }, reverse_sizes, 2);
  soft_register("fail", [](void **) { fail(); }, no_sizes, 0);
  soft_register("wild", [](void **p) { wild(*(long *)p[0]); }, pointer_sizes, 1);
  soft_register("crooked", [](void **p) { crooked(*(float **)p[0]); }, pointer_sizes, 1);
  soft_register("lonely", [](void **) { lonely(); }, no_sizes, 0);
  return true;
}();
