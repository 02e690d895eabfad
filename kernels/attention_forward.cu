// Fused causal attention, forward: a block has a tile of queries of one head of one window and goes over the tiles
// of keys with an online softmax (Milakov and Gimelshein, 2018; Dao and others, 2022). It keeps the natural
// logarithm of every row's sum of exponentials for the backward pass. Scores never leave the chip.
#include "attention.h"

// ---------------------------------------------------------------- tensor cores, head_dim 32 and 64
//
// 4 warps of 32 queries each, tiles of 64 keys, two buffers. The fragments of 32 rows are two of 16.

constexpr int QUERIES = 128, KEYS = 64, HALVES = 2;
constexpr float masked = -1e30f;

// The online softmax of the rows of one fragment of 16: the two that a lane shares with three others, in base 2.
struct RowStats { float largest[2], sum[2]; };

// Turns scores of rows query + fragment_row and keys key + column into weights and rescales what was summed
// before. scale includes log2 e.
template <int D> DEV_FN void soften(float (&s)[KEYS / 8][4], float (&out)[D / 8][4], RowStats &r, int query, int key, float scale) {
  const bool partial = key + KEYS - 1 > query;
  float largest[2] = {r.largest[0], r.largest[1]};
#pragma unroll
  for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      const bool future = partial && key + n * 8 + fragment_column(e) > query + fragment_row(e);
      s[n][e] = future ? masked : s[n][e] * scale;
      largest[e / 2] = dev_max(largest[e / 2], s[n][e]);
    }
#pragma unroll
  for (int i = 0; i < 2; i++) {
    largest[i] = quad_max(largest[i]);
    const float factor = dev_ex2(r.largest[i] - largest[i]);
    r.largest[i] = largest[i];
    r.sum[i] *= factor;
#pragma unroll
    for (int n = 0; n < D / 8; n++) {
      out[n][2 * i] *= factor;
      out[n][2 * i + 1] *= factor;
    }
  }
#pragma unroll
  for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      s[n][e] = dev_ex2(s[n][e] - r.largest[e / 2]);
      r.sum[e / 2] += s[n][e];
    }
}

template <int D> DEV_FN void store_rows(bf16 *mixed, float *lse, const Head &h, const float (&out)[D / 8][4], const RowStats &r, int query) {
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const int position = query + fragment_row(2 * i);
    const float sum = quad_sum(r.sum[i]), inverse = 1.0f / sum;
    if (position >= h.t) continue;
    bf16 *to = mixed + at_row(h, position) + fragment_column(0);
#pragma unroll
    for (int n = 0; n < D / 8; n++) put_pair(to + n * 8, out[n][2 * i] * inverse, out[n][2 * i + 1] * inverse);
    if (fragment_column(0) == 0) lse[h.stats + position] = (r.largest[i] + dev_lg2(sum)) * ln_2;
  }
}

template <int D> DEV_FN void attention_forward_fast(bf16 *mixed, float *lse, const bf16 *qkv, int t, int heads, float scale) {
  constexpr int TILE = KEYS * stride_of<D>;
  DEV_SHARED(shared);
  bf16 *queries = (bf16 *)shared, *keys = queries + QUERIES * stride_of<D>, *values = keys + 2 * TILE;
  const Head h = head_of_block(t, heads, D);
  const int tile = (int)(DEV_BLOCKS_X - 1 - DEV_BLOCK_X) * QUERIES; // the longest first
  const int query = tile + (int)DEV_WARP * 32, tiles = (dev_min(tile + QUERIES, t) + KEYS - 1) / KEYS;
  auto load = [&](int i) {
    if (i < tiles) {
      load_rows<D, KEYS>(keys + i % 2 * TILE, qkv + at_qkv(h, KEY, i * KEYS), 3l * h.width, t - i * KEYS);
      load_rows<D, KEYS>(values + i % 2 * TILE, qkv + at_qkv(h, VALUE, i * KEYS), 3l * h.width, t - i * KEYS);
    }
    dev_cp_async_commit();
  };
  load_rows<D, QUERIES>(queries, qkv + at_qkv(h, QUERY, tile), 3l * h.width, t - tile);
  load(0);
  uint32_t q[HALVES][D / 16][4] = {};
  float out[HALVES][D / 8][4] = {};
  RowStats stats[HALVES];
#pragma unroll
  for (int m = 0; m < HALVES; m++) stats[m] = {{masked, masked}, {0.0f, 0.0f}};
  for (int i = 0; i < tiles; i++) {
    load(i + 1);
    dev_cp_async_wait<1>();
    dev_sync();
    if (i == 0)
#pragma unroll
      for (int m = 0; m < HALVES; m++)
#pragma unroll
        for (int k = 0; k < D / 16; k++) load_a<D>(q[m][k], queries, (int)DEV_WARP * 32 + m * 16, k * 16);
    if (query < t && i * KEYS <= query + 31) { // else all of the warp's queries are beyond the end or before these keys
      float s[HALVES][KEYS / 8][4] = {};
      multiply_rows<D>(s, q, keys + i % 2 * TILE);
#pragma unroll
      for (int m = 0; m < HALVES; m++) soften<D>(s[m], out[m], stats[m], query + m * 16, i * KEYS, scale * log2_e);
      multiply_columns<D>(out, s, values + i % 2 * TILE);
    }
    dev_sync();
  }
#pragma unroll
  for (int m = 0; m < HALVES; m++) store_rows<D>(mixed, lse, h, out[m], stats[m], query + m * 16);
}

#define FAST_KERNEL(D)                                                                                                    \
  DEV_KERNEL(ATTENTION_THREADS, 2)                                                                                        \
  attention_forward_d##D##_bf16(bf16 *mixed, float *lse, const bf16 *qkv, int t, int heads, int head_dim, float scale) {  \
    (void)head_dim;                                                                                                       \
    attention_forward_fast<D>(mixed, lse, qkv, t, heads, scale);                                                          \
  }                                                                                                                       \
  EXPORT_KERNEL(attention_forward_d##D##_bf16)

FAST_KERNEL(32)
FAST_KERNEL(64)

// ---------------------------------------------------------------- any head_dim, either type
//
// A block has 32 queries and a part of the values' columns; parts of one tile compute the same scores. Thread 8r+c
// has row r.

// Shared memory of a block.
struct General {
  float a[GENERAL_TILE * GENERAL_STRIDE], b[GENERAL_TILE * GENERAL_STRIDE], p[GENERAL_TILE * GENERAL_STRIDE];
  float values[GENERAL_TILE * GENERAL_WIDE];
  float largest[GENERAL_TILE], sum[GENERAL_TILE], factor[GENERAL_TILE];
};

// One warp's step of the online softmax of a row: lane k has the score of key k.
template <class T> DEV_FN void soften_row(General &g, int row) {
  float *p = g.p + row * GENERAL_STRIDE + DEV_LANE;
  const float before = g.largest[row], largest = dev_max(before, warp_max(*p));
  const float weight = exp_of<T>(*p - largest), sum = warp_sum(weight);
  *p = weight;
  dev_sync_warp(); // all lanes have read what lane 0 now writes
  if (DEV_LANE != 0) return;
  g.factor[row] = exp_of<T>(before - largest);
  g.sum[row] = g.sum[row] * g.factor[row] + sum;
  g.largest[row] = largest;
}

template <class T> DEV_FN void attention_forward(T *mixed, float *lse, const T *qkv, int t, int heads, int head_dim, float scale) {
  DEV_SHARED(shared);
  General &g = *(General *)shared;
  const Head h = head_of_block(t, heads, head_dim);
  const Portion at = portion_of_block(head_dim);
  const int thread = (int)DEV_THREAD, row = thread / 8, columns = dev_min(GENERAL_COLUMNS, head_dim - at.column);
  if (thread < GENERAL_TILE) {
    g.largest[thread] = -0x1.fffffep127f;
    g.sum[thread] = 0.0f;
  }
  float out[8] = {};
  for (int key = 0; key <= at.tile; key += GENERAL_TILE) {
    float s[4];
    multiply_general(s, qkv + at_qkv(h, QUERY, at.tile), {3l * h.width, t - at.tile}, qkv + at_qkv(h, KEY, key), {3l * h.width, t - key}, head_dim, g.a, g.b);
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int k = thread % 8 + 8 * j;
      g.p[row * GENERAL_STRIDE + k] = key + k > at.tile + row ? -dev_float(0x7f800000u) : s[j] * scale;
    }
    load_general<GENERAL_COLUMNS>(g.values, qkv + at_qkv(h, VALUE, key) + at.column, 3l * h.width, t - key, columns);
    dev_sync();
    for (int r = (int)DEV_WARP; r < GENERAL_TILE; r += GENERAL_THREADS / 32) soften_row<T>(g, r);
    dev_sync();
#pragma unroll
    for (int c = 0; c < 8; c++) out[c] *= g.factor[row];
    add_rows<false>(out, g.p, g.values);
  }
  if (at.tile + row >= t) return;
  const float sum = g.sum[row];
#pragma unroll
  for (int c = 0; c < 8; c++) out[c] = out[c] / sum;
  put_general(mixed + at_row(h, at.tile + row) + at.column, out, 1.0f, columns);
  if (at.column == 0 && thread % 8 == 0) lse[h.stats + at.tile + row] = (float)((double)g.largest[row] + log_ieee((double)sum));
}

#define GENERAL_KERNEL(suffix, T)                                                                                        \
  DEV_KERNEL(GENERAL_THREADS, 2)                                                                                         \
  attention_forward_##suffix(T *mixed, float *lse, const T *qkv, int t, int heads, int head_dim, float scale) {          \
    attention_forward<T>(mixed, lse, qkv, t, heads, head_dim, scale);                                                    \
  }                                                                                                                      \
  EXPORT_KERNEL(attention_forward_##suffix)

GENERAL_KERNEL(bf16, bf16)
GENERAL_KERNEL(fp32, float)
