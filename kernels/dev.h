// The device as the kernels see it: everything in *.cu that is not plain C++ stands here, once for the GPU
// (clang -x cuda without any toolkit) and once for the software device (any C++17 compiler for x86-64,
// -DDEV_HOST), where every instruction of PTX has an emulation.
//
// Floats: both sides are compiled with -ffp-contract=off. x*y, x+y and x/y round to nearest (in PTX as .rn, which
// the driver's compiler may not fuse), subnormals are kept, and a fused multiply-add is asked for by dev_fma. So what uses only these has the same bits on every device. Bits that
// only the GPU knows come from dev_ex2, dev_lg2 and dev_mma_bf16.
#pragma once

#if defined(DEV_HOST)
#include "dev_host.h"
#else
#include "dev_gpu.h"
#endif

// A bfloat16 as its bits.
typedef uint16_t bf16;

// All lanes of a warp exchange with lane^x.
DEV_FN float dev_shfl_xor(float v, unsigned x) { return dev_float(dev_shfl_xor_bits(dev_bits(v), x)); }
DEV_FN uint64_t dev_shfl_xor(uint64_t v, unsigned x) {
  uint32_t lo = dev_shfl_xor_bits((uint32_t)v, x), hi = dev_shfl_xor_bits((uint32_t)(v >> 32), x);
  return (uint64_t)hi << 32 | lo;
}
DEV_FN double dev_shfl_xor(double v, unsigned x) { return dev_double(dev_shfl_xor(dev_bits(v), x)); }

DEV_FN float dev_max(float x, float y) { return x > y ? x : y; }
DEV_FN int dev_min(int x, int y) { return x < y ? x : y; }
DEV_FN int dev_max(int x, int y) { return x > y ? x : y; }

// Conversions between bfloat16 and float32; to bfloat16 rounds to nearest even.
DEV_FN float dev_widen(bf16 h) { return dev_float((uint32_t)h << 16); }
DEV_FN bf16 dev_narrow(float f) { return (bf16)dev_pack_bf16(f, 0.0f); }
