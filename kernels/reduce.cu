// Sums over gradients and losses, each in one order that nothing but the length decides.
#include "digest.h"

constexpr int REDUCE_THREADS = 256, REDUCE_WARPS = REDUCE_THREADS / 32, SPAN = 4096;
constexpr long BUCKET = 1l << 20; // parameters, as in package model

DEV_KERNEL(REDUCE_THREADS, 4) digest(uint64_t *out, const float *x, int count, int start, int kind) {
  DEV_SHARED(shared);
  const long first = (long)DEV_BLOCK_X * SPAN, end = first + SPAN < count ? first + SPAN : count;
  Digest d = {};
  for (long i = first + DEV_THREAD * 4; i < end; i += REDUCE_THREADS * 4) {
    float v[4];
    get4(v, x + i, end - i, true);
#pragma unroll
    for (int e = 0; e < 4; e++)
      if (i + e < end) digest_add(d, kind, (uint32_t)(start + i + e), v[e]);
  }
  digest_store<REDUCE_WARPS>(out, d, (uint64_t *)shared);
}
EXPORT_KERNEL(digest)

DEV_KERNEL(REDUCE_THREADS, 4) fold(float *dst, const float *src, int count) {
  const long at = ((long)DEV_BLOCK_X * REDUCE_THREADS + DEV_THREAD) * 4;
  if (at >= count) return;
  float a[4], b[4];
  get4(a, dst + at, count - at, true);
  get4(b, src + at, count - at, true);
#pragma unroll
  for (int e = 0; e < 4; e++) a[e] += b[e];
  put4(dst + at, a, count - at, true);
}
EXPORT_KERNEL(fold)

// Adds the parts of a product [parts][count] to dst, in order.
DEV_KERNEL(REDUCE_THREADS, 4) add_parts(float *dst, const float *src, int count, int parts) {
  const long at = ((long)DEV_BLOCK_X * REDUCE_THREADS + DEV_THREAD) * 4;
  if (at >= count) return;
  const bool whole = in_fours(dst, 4);
  float sum[4] = {}, v[4];
  for (int i = 0; i < parts; i++) {
    get4(v, src + (long)i * count + at, count - at, in_fours(src, count));
#pragma unroll
    for (int e = 0; e < 4; e++) sum[e] += v[e];
  }
  get4(v, dst + at, count - at, whole);
#pragma unroll
  for (int e = 0; e < 4; e++) v[e] += sum[e];
  put4(dst + at, v, count - at, whole);
}
EXPORT_KERNEL(add_parts)

// The sum of squares of a bucket, a block each, in the order of model.SumSquares: element i goes to sum i%8. Eight
// threads have a sum each, which is one long chain of additions in double; the others bring the elements.
DEV_KERNEL(REDUCE_THREADS, 4) sum_squares(double *sums, const float *x, int count) {
  DEV_SHARED(shared);
  float *tiles = (float *)shared;
  double *partial = (double *)(tiles + 2 * SPAN);
  const long first = (long)DEV_BLOCK_X * BUCKET, end = first + BUCKET < count ? first + BUCKET : count;
  auto load = [&](int i) {
    float *tile = tiles + i % 2 * SPAN;
    for (int j = (int)DEV_THREAD * 4; j < SPAN; j += REDUCE_THREADS * 4) {
      const long at = first + (long)i * SPAN + j, left = (end - at) * 4;
      const int bytes = left >= 16 ? 16 : left > 0 ? (int)left : 0;
      dev_cp_async16(tile + j, bytes ? x + at : x, bytes);
    }
    dev_cp_async_commit();
  };
  const int count_tiles = (int)((end - first + SPAN - 1) / SPAN);
  double sum = 0.0;
  load(0);
  for (int i = 0; i < count_tiles; i++) {
    if (i + 1 < count_tiles) load(i + 1);
    else dev_cp_async_commit();
    dev_cp_async_wait<1>();
    dev_sync();
    if (DEV_THREAD < 8)
#pragma unroll 8
      for (int j = (int)DEV_THREAD; j < SPAN; j += 8) {
        const double v = (double)tiles[i % 2 * SPAN + j];
        sum += v * v; // exact product; zeros beyond the end change nothing
      }
    dev_sync();
  }
  if (DEV_THREAD < 8) partial[DEV_THREAD] = sum;
  dev_sync();
  if (DEV_THREAD == 0)
    sums[DEV_BLOCK_X] = ((partial[0] + partial[4]) + (partial[2] + partial[6])) + ((partial[1] + partial[5]) + (partial[3] + partial[7]));
}
EXPORT_KERNEL(sum_squares)

// The sum of losses by one block: a thread adds every 256th, then lanes and warps a tree.
DEV_KERNEL(REDUCE_THREADS, 4) loss_sum(double *out, const double *loss, int count) {
  DEV_SHARED(shared);
  double sum = 0.0;
  for (int i = (int)DEV_THREAD; i < count; i += REDUCE_THREADS) sum += loss[i];
  sum = block_sum<REDUCE_WARPS>(sum, (double *)shared);
  if (DEV_THREAD == 0) out[0] = sum;
}
EXPORT_KERNEL(loss_sum)
