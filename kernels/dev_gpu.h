// The GPU side of dev.h, for clang -x cuda -nocudainc -nocudalib: the builtins it has, under the names that
// CUDA gives them, and inline PTX.
#pragma once

typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define DEV_FN static __device__ inline __attribute__((always_inline))

// A kernel of at most THREADS threads a block, of which at least BLOCKS run on a multiprocessor.
#define DEV_KERNEL(THREADS, BLOCKS) extern "C" __global__ __attribute__((launch_bounds(THREADS, BLOCKS))) void
#define EXPORT_KERNEL(k)

#define DEV_THREAD ((unsigned)__nvvm_read_ptx_sreg_tid_x())
#define DEV_THREADS ((unsigned)__nvvm_read_ptx_sreg_ntid_x())
#define DEV_BLOCK_X ((unsigned)__nvvm_read_ptx_sreg_ctaid_x())
#define DEV_BLOCK_Y ((unsigned)__nvvm_read_ptx_sreg_ctaid_y())
#define DEV_BLOCK_Z ((unsigned)__nvvm_read_ptx_sreg_ctaid_z())
#define DEV_BLOCKS_X ((unsigned)__nvvm_read_ptx_sreg_nctaid_x())
#define DEV_BLOCKS_Z ((unsigned)__nvvm_read_ptx_sreg_nctaid_z())
#define DEV_LANE (DEV_THREAD & 31u)
#define DEV_WARP (DEV_THREAD >> 5)

// The block's shared memory, sized by the launch.
#define DEV_SHARED(name) extern __shared__ __attribute__((aligned(128))) unsigned char name[]

#define dev_sync() __syncthreads()
#define dev_sync_warp() __nvvm_bar_warp_sync(0xffffffffu)

DEV_FN uint32_t dev_bits(float x) { return __builtin_bit_cast(uint32_t, x); }
DEV_FN uint64_t dev_bits(double x) { return __builtin_bit_cast(uint64_t, x); }
DEV_FN float dev_float(uint32_t x) { return __builtin_bit_cast(float, x); }
DEV_FN double dev_double(uint64_t x) { return __builtin_bit_cast(double, x); }

DEV_FN uint32_t dev_shfl_xor_bits(uint32_t v, unsigned x) { return (uint32_t)__nvvm_shfl_sync_bfly_i32(0xffffffffu, (int)v, (int)x, 31); }

DEV_FN float dev_fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
DEV_FN double dev_fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
DEV_FN float dev_sqrt(float x) { return __nvvm_sqrt_rn_f(x); }
DEV_FN float dev_ex2(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
DEV_FN float dev_lg2(float x) { float y; asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }

DEV_FN uint32_t dev_pack_bf16(float lo, float hi) {
  uint32_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}

DEV_FN uint32_t dev_shared_address(const void *p) {
  return (uint32_t)(uint64_t)(__attribute__((address_space(3))) const void *)p;
}

// d[16,8] += a[16,16]·b[16,8] of one warp, in the fragments of mma.m16n8k16.
DEV_FN void dev_mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four 8x8 matrices from shared memory; lane i names row i%8 of matrix i/8 by its 16 bytes.
DEV_FN void dev_ldmatrix(uint32_t (&r)[4], const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(dev_shared_address(row))
               : "memory");
}
DEV_FN void dev_ldmatrix_trans(uint32_t (&r)[4], const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(dev_shared_address(row))
               : "memory");
}

// Copies 16 bytes to shared memory in the background: the first `bytes` of global memory, then zeros. Both
// addresses are multiples of 16; with 0 bytes nothing is read.
DEV_FN void dev_cp_async16(void *shared, const void *global, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :: "r"(dev_shared_address(shared)), "l"((__attribute__((address_space(1))) const void *)global), "r"(bytes) : "memory");
}
// Closes a group of copies.
DEV_FN void dev_cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most N groups of this thread are under way.
template <int N> DEV_FN void dev_cp_async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

// Tells the software device that an address must be a multiple of `bytes`; the GPU finds out by itself.
DEV_FN void dev_aligned(const void *, int) {}

// Integer addition, whose order nobody sees.
DEV_FN void dev_atomic_add(uint64_t *p, uint64_t v) { asm volatile("red.global.add.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory"); }
