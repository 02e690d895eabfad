// What several kernels share: rows in pieces of four, sums over warps and blocks in a fixed order, exponentials,
// and where the fragments of a product lie.
#pragma once
#include "dev.h"

constexpr float log2_e = 0x1.715476p+0f;
constexpr float ln_2 = 0x1.62e43p-1f;

// ---- elements of either type, as float

DEV_FN float get(const float *p) { return *p; }
DEV_FN float get(const bf16 *p) { return dev_widen(*p); }
DEV_FN void put(float *p, float v) { *p = v; }
DEV_FN void put(bf16 *p, float v) { *p = dev_narrow(v); }

struct alignas(16) four_floats { float v[4]; };
struct alignas(8) two_words { uint32_t v[2]; };

DEV_FN void get_vector(float (&v)[4], const float *p) {
  dev_aligned(p, 16);
  const four_floats f = *(const four_floats *)p;
  for (int i = 0; i < 4; i++) v[i] = f.v[i];
}
DEV_FN void get_vector(float (&v)[4], const bf16 *p) {
  dev_aligned(p, 8);
  const two_words w = *(const two_words *)p;
  for (int i = 0; i < 4; i++) v[i] = dev_float(i & 1 ? w.v[i / 2] & 0xffff0000u : w.v[i / 2] << 16);
}
DEV_FN void put_vector(float *p, const float (&v)[4]) {
  dev_aligned(p, 16);
  *(four_floats *)p = {{v[0], v[1], v[2], v[3]}};
}
DEV_FN void put_vector(bf16 *p, const float (&v)[4]) {
  dev_aligned(p, 8);
  *(two_words *)p = {{dev_pack_bf16(v[0], v[1]), dev_pack_bf16(v[2], v[3])}};
}

// Four consecutive elements of which n are there (n may be beyond 4, or below 1); the others read as 0. whole says
// that they lie at a multiple of four elements, as they do in rows that in_fours knows to begin at one.
template <class T> DEV_FN bool in_fours(const T *p, long ld) { return ld % 4 == 0 && ((uint64_t)p & (4 * sizeof(T) - 1)) == 0; }
template <class T> DEV_FN void get4(float (&v)[4], const T *p, long n, bool whole) {
  if (whole && n >= 4) {
    get_vector(v, p);
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; i++) v[i] = i < n ? get(p + i) : 0.0f;
}
template <class T> DEV_FN void put4(T *p, const float (&v)[4], long n, bool whole) {
  if (whole && n >= 4) {
    put_vector(p, v);
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; i++)
    if (i < n) put(p + i, v[i]);
}

// ---- sums and maxima whose order depends on nothing but the number of threads

template <class V> DEV_FN V warp_sum(V v) {
#pragma unroll
  for (unsigned x = 16; x; x >>= 1) v += dev_shfl_xor(v, x);
  return v;
}
DEV_FN float warp_max(float v) {
#pragma unroll
  for (unsigned x = 16; x; x >>= 1) v = dev_max(v, dev_shfl_xor(v, x));
  return v;
}

// The sum over a block of WARPS warps, known to every thread. scratch has WARPS elements of shared memory, which
// nobody may still be reading; it may be used again after a barrier.
template <int WARPS, class V> DEV_FN V block_sum(V v, V *scratch) {
  v = warp_sum(v);
  if (DEV_LANE == 0) scratch[DEV_WARP] = v;
  dev_sync();
  V sum = scratch[0];
#pragma unroll
  for (int w = 1; w < WARPS; w++) sum += scratch[w];
  return sum;
}

// ---- exponentials

// e^x within 1 ulp on [-87, 88.72], +0 below, +Inf above, NaN for NaN, in IEEE operations only: the function of
// the CPU engine, with its bits. x = n·ln 2 + r, and e^r by a polynomial.
DEV_FN float exp_ieee(float x) {
  if (x != x) return x;
  if (x < -87.0f) return 0.0f;
  if (x > 88.72283f) return dev_float(0x7f800000u);
  const float magic = 12582912.0f; // 3·2^22: x + magic - magic rounds to an integer
  const float n = (x * log2_e + magic) - magic;
  float r = dev_fma(n, -0x1.62e43p-1f, x);
  r = dev_fma(n, 0x1.05c61p-29f, r);
  float p = dev_fma(0.00138143207239f, r, 0.00836885106806f);
  p = dev_fma(p, r, 0.0416684010808f);
  p = dev_fma(p, r, 0.166665195241f);
  p = dev_fma(p, r, 0.499999933731f);
  p = dev_fma(p, r, 1.0f);
  p = dev_fma(p, r, 1.0f);
  return dev_float(dev_bits(p) + ((uint32_t)(int)n << 23));
}

// e^x as kernels of type T take it: with bf16 the GPU's fast 2^x does.
template <class T> DEV_FN float exp_of(float x) { return sizeof(T) == 4 ? exp_ieee(x) : dev_ex2(x * log2_e); }

// ln x within 2 ulp for x >= 1, NaN for NaN, +Inf for +Inf: package numeric's Log, with its bits.
DEV_FN double log_ieee(double x) {
  if (!(x < 0x1p1023)) return x;
  int e = (int)(dev_bits(x) >> 52) - 1022;
  double m = dev_double((dev_bits(x) & 0xfffffffffffffull) | 0x3fe0000000000000ull); // [0.5, 1)
  if (m < 0x1.6a09e667f3bcdp-1) {
    m *= 2.0;
    e--;
  }
  const double f = (m - 1.0) / (m + 1.0), f2 = f * f;
  double s = 2.0 / 23.0;
#pragma unroll
  for (int n = 10; n >= 0; n--) s = s * f2 + 2.0 / (2 * n + 1);
  const double high = 0x1.62e42fee00000p-1, low = 0x1.a39ef35793c76p-33;
  return (double)e * high + (f * s + (double)e * low);
}

// ---- matrix fragments of a warp

// Rows and columns of the accumulator of m16n8k16: element i of a lane.
DEV_FN int fragment_row(int i) { return (int)(DEV_LANE >> 2) + (i >> 1) * 8; }
DEV_FN int fragment_column(int i) { return (int)(DEV_LANE & 3) * 2 + (i & 1); }
