// The digest of package model: two sums modulo 2^64 of a mix of (kind, element, bits).
#pragma once
#include "tile.h"

struct Digest { uint64_t sum[2]; };

// Adds element `at` of the flat vector.
DEV_FN void digest_add(Digest &d, int kind, uint32_t at, float x) {
  const uint64_t key = 0x243f6a8885a308d3ull, mul0 = 0x9fb21c651e98df25ull, mul1 = 0xd6e8feb86659fd93ull;
  uint64_t h = (((uint64_t)kind << 62 | (uint64_t)at << 32 | dev_bits(x)) + key) * mul0;
  h = (h ^ h >> 32) * mul1;
  d.sum[0] += h ^ h >> 32;
  d.sum[1] += (h >> 32) * (uint32_t)h;
}

// Adds the digests of a block's threads to out. scratch has two elements a warp.
template <int WARPS> DEV_FN void digest_store(uint64_t *out, const Digest &d, uint64_t *scratch) {
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const uint64_t sum = block_sum<WARPS>(d.sum[i], scratch + i * WARPS);
    if (DEV_THREAD == 0) dev_atomic_add(out + i, sum);
  }
}
