// The digest of package model: the sum modulo 2^64 of a bijective mix of (kind, element, bits) under two keys.
#pragma once
#include "tile.h"

struct Digest { uint64_t sum[2]; };

// Adds element `at` of the flat vector.
DEV_FN void digest_add(Digest &d, int kind, uint32_t at, float x) {
  const uint64_t key0 = 0x243f6a8885a308d3ull, key1 = 0x13198a2e03707344ull;
  const uint64_t mul0 = 0x9fb21c651e98df25ull, mul1 = 0xd6e8feb86659fd93ull;
  const uint64_t e = (uint64_t)kind << 62 | (uint64_t)at << 32 | dev_bits(x);
  uint64_t a = (e ^ key0) * mul0, b = (e ^ key1) * mul1;
  a = (a ^ a >> 32) * mul1;
  b = (b ^ b >> 32) * mul0;
  d.sum[0] += a ^ a >> 29;
  d.sum[1] += b ^ b >> 29;
}

// Adds the digests of a block's threads to out. scratch has two elements a warp.
template <int WARPS> DEV_FN void digest_store(uint64_t *out, const Digest &d, uint64_t *scratch) {
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const uint64_t sum = block_sum<WARPS>(d.sum[i], scratch + i * WARPS);
    if (DEV_THREAD == 0) dev_atomic_add(out + i, sum);
  }
}
