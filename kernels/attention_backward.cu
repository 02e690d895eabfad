// Fused causal attention, backward. With p = softmax(scores) recomputed from the kept logarithms:
//
//   delta = dmixed·mixed     dv = pᵀ·dmixed           dp = dmixed·vᵀ
//   ds = p·(dp - delta)      dq = scale·ds·k          dk = scale·dsᵀ·q
//
// The gradients of keys and values belong to the block of their tile of keys, those of queries to the block of their
// tile of queries. So scores are computed twice, and every sum has one order and one owner.
#include "attention.h"

// A warp for every row and head.
template <class T> DEV_FN void attention_delta(float *delta, const T *dmixed, const T *mixed, int rows, int t, int heads, int head_dim) {
  const long i = (long)DEV_BLOCK_X * (DEV_THREADS / 32) + DEV_WARP;
  const int row = (int)(i / heads), head = (int)(i % heads);
  if (row >= rows) return;
  const long first = i * head_dim;
  float sum = 0.0f;
  for (int c = (int)DEV_LANE; c < head_dim; c += 32) sum = dev_fma(get(dmixed + first + c), get(mixed + first + c), sum);
  sum = warp_sum(sum);
  if (DEV_LANE == 0) delta[((long)(row / t) * heads + head) * t + row % t] = sum;
}

// What both backward kernels read and write.
template <class T> struct Backward {
  T *dqkv;
  const T *dmixed, *qkv;
  const float *lse, *delta;
};

// ---------------------------------------------------------------- tensor cores, head_dim 32 and 64
//
// Tiles of 64 queries and 64 keys. A warp owns 16 rows of the block's tile and holds them as fragments; the other
// side streams through two buffers.

constexpr int SIDE = 64;

template <int D> struct Fragments { uint32_t first[1][D / 16][4], second[1][D / 16][4]; };

template <int D> DEV_FN void load_fragments(Fragments<D> &f, const bf16 *first, const bf16 *second) {
#pragma unroll
  for (int k = 0; k < D / 16; k++) {
    load_a<D>(f.first[0][k], first, (int)DEV_WARP * 16, k * 16);
    load_a<D>(f.second[0][k], second, (int)DEV_WARP * 16, k * 16);
  }
}

// Writes the warp's 16 rows of a gradient.
template <int D> DEV_FN void store_rows(bf16 *dqkv, const Head &h, Part part, int position, const float (&v)[1][D / 8][4], float scale) {
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const int row = position + fragment_row(2 * i);
    if (row >= h.t) continue;
    bf16 *to = dqkv + at_qkv(h, part, row) + fragment_column(0);
#pragma unroll
    for (int n = 0; n < D / 8; n++) put_pair(to + n * 8, v[0][n][2 * i] * scale, v[0][n][2 * i + 1] * scale);
  }
}

// The logarithms, in base 2, and deltas of a tile of queries; 0 beyond the end, where queries and gradients are 0 too.
DEV_FN void load_stats(float *lse2, float *delta, const float *lse_of, const float *delta_of, const Head &h, int query) {
  const int i = (int)DEV_THREAD % SIDE;
  const bool there = query + i < h.t;
  if ((int)DEV_THREAD < SIDE) lse2[i] = there ? lse_of[h.stats + query + i] * log2_e : 0.0f;
  else delta[i] = there ? delta_of[h.stats + query + i] : 0.0f;
}

// Turns scores (rows are keys, columns queries) into p, and dp into ds.
DEV_FN void differentiate_keys(float (&s)[SIDE / 8][4], float (&dp)[SIDE / 8][4], const float *lse2, const float *delta, int key, int query, float scale2) {
  const bool partial = query < key + 15;
#pragma unroll
  for (int n = 0; n < SIDE / 8; n++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      const int column = n * 8 + fragment_column(e);
      const bool future = partial && key + fragment_row(e) > query + column;
      s[n][e] = future ? 0.0f : dev_ex2(s[n][e] * scale2 - lse2[column]);
      dp[n][e] = s[n][e] * (dp[n][e] - delta[column]);
    }
}

template <int D> DEV_FN void attention_keys_fast(const Backward<bf16> &b, int t, int heads, float scale) {
  constexpr int TILE = SIDE * stride_of<D>;
  DEV_SHARED(shared);
  bf16 *keys = (bf16 *)shared, *values = keys + TILE, *queries = values + TILE, *gradients = queries + 2 * TILE;
  float *lse2 = (float *)(gradients + 2 * TILE), *delta = lse2 + 2 * SIDE;
  const Head h = head_of_block(t, heads, D);
  const int first = (int)DEV_BLOCK_X * SIDE, key = first + (int)DEV_WARP * 16; // the longest first
  auto load = [&](int query) {
    if (query < t) {
      const int buffer = query / SIDE % 2;
      load_rows<D, SIDE>(queries + buffer * TILE, b.qkv + at_qkv(h, QUERY, query), 3l * h.width, t - query);
      load_rows<D, SIDE>(gradients + buffer * TILE, b.dmixed + at_row(h, query), h.width, t - query);
      load_stats(lse2 + buffer * SIDE, delta + buffer * SIDE, b.lse, b.delta, h, query);
    }
    dev_cp_async_commit();
  };
  load_rows<D, SIDE>(keys, b.qkv + at_qkv(h, KEY, first), 3l * h.width, t - first);
  load_rows<D, SIDE>(values, b.qkv + at_qkv(h, VALUE, first), 3l * h.width, t - first);
  load(first);
  Fragments<D> kv;
  float dk[1][D / 8][4] = {}, dv[1][D / 8][4] = {};
  for (int query = first; query < t; query += SIDE) {
    load(query + SIDE);
    dev_cp_async_wait<1>();
    dev_sync();
    if (query == first) load_fragments<D>(kv, keys, values);
    const int buffer = query / SIDE % 2;
    if (key < t) {
      float s[1][SIDE / 8][4] = {}, dp[1][SIDE / 8][4] = {};
      multiply_rows<D>(s, kv.first, queries + buffer * TILE);
      multiply_rows<D>(dp, kv.second, gradients + buffer * TILE);
      differentiate_keys(s[0], dp[0], lse2 + buffer * SIDE, delta + buffer * SIDE, key, query, scale * log2_e);
      multiply_columns<D>(dv, s, gradients + buffer * TILE);
      multiply_columns<D>(dk, dp, queries + buffer * TILE);
    }
    dev_sync();
  }
  store_rows<D>(b.dqkv, h, KEY, key, dk, scale);
  store_rows<D>(b.dqkv, h, VALUE, key, dv, 1.0f);
}

// Turns scores (rows are queries, columns keys) and dp into ds. lse2 and delta are those of the lane's two rows.
DEV_FN void differentiate_queries(float (&s)[SIDE / 8][4], const float (&dp)[SIDE / 8][4], const float (&lse2)[2], const float (&delta)[2], int query, int key, float scale2) {
  const bool partial = key + SIDE - 1 > query;
#pragma unroll
  for (int n = 0; n < SIDE / 8; n++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      const bool future = partial && key + n * 8 + fragment_column(e) > query + fragment_row(e);
      s[n][e] = future ? 0.0f : dev_ex2(s[n][e] * scale2 - lse2[e / 2]) * (dp[n][e] - delta[e / 2]);
    }
}

template <int D> DEV_FN void attention_queries_fast(const Backward<bf16> &b, int t, int heads, float scale) {
  constexpr int TILE = SIDE * stride_of<D>;
  DEV_SHARED(shared);
  bf16 *queries = (bf16 *)shared, *gradients = queries + TILE, *keys = gradients + TILE, *values = keys + 2 * TILE;
  const Head h = head_of_block(t, heads, D);
  const int first = (int)(DEV_BLOCKS_X - 1 - DEV_BLOCK_X) * SIDE, query = first + (int)DEV_WARP * 16; // the longest first
  auto load = [&](int key) {
    if (key <= first) {
      const int buffer = key / SIDE % 2;
      load_rows<D, SIDE>(keys + buffer * TILE, b.qkv + at_qkv(h, KEY, key), 3l * h.width, t - key);
      load_rows<D, SIDE>(values + buffer * TILE, b.qkv + at_qkv(h, VALUE, key), 3l * h.width, t - key);
    }
    dev_cp_async_commit();
  };
  load_rows<D, SIDE>(queries, b.qkv + at_qkv(h, QUERY, first), 3l * h.width, t - first);
  load_rows<D, SIDE>(gradients, b.dmixed + at_row(h, first), h.width, t - first);
  load(0);
  float lse2[2] = {}, delta[2] = {};
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const int position = query + fragment_row(2 * i);
    if (position >= t) continue;
    lse2[i] = b.lse[h.stats + position] * log2_e;
    delta[i] = b.delta[h.stats + position];
  }
  Fragments<D> qg;
  float dq[1][D / 8][4] = {};
  for (int key = 0; key <= first; key += SIDE) {
    load(key + SIDE);
    dev_cp_async_wait<1>();
    dev_sync();
    if (key == 0) load_fragments<D>(qg, queries, gradients);
    const int buffer = key / SIDE % 2;
    if (query < t) {
      float s[1][SIDE / 8][4] = {}, dp[1][SIDE / 8][4] = {};
      multiply_rows<D>(s, qg.first, keys + buffer * TILE);
      multiply_rows<D>(dp, qg.second, values + buffer * TILE);
      differentiate_queries(s[0], dp[0], lse2, delta, query, key, scale * log2_e);
      multiply_columns<D>(dq, s, keys + buffer * TILE);
    }
    dev_sync();
  }
  store_rows<D>(b.dqkv, h, QUERY, query, dq, scale);
}

// ---------------------------------------------------------------- any head_dim, either type
//
// A block has 32 positions and a part of the columns; parts of one tile compute the same scores.

// Shared memory of a block.
struct General {
  float a[GENERAL_TILE * GENERAL_STRIDE], b[GENERAL_TILE * GENERAL_STRIDE];
  float p[GENERAL_TILE * GENERAL_STRIDE], ds[GENERAL_TILE * GENERAL_STRIDE]; // rows are queries, columns keys
  float left[GENERAL_TILE * GENERAL_WIDE], right[GENERAL_TILE * GENERAL_WIDE];
  float lse[GENERAL_TILE], delta[GENERAL_TILE];
};

DEV_FN void load_general_stats(General &g, const float *lse, const float *delta, const Head &h, int query) {
  const int i = (int)DEV_THREAD;
  if (i >= GENERAL_TILE) return;
  g.lse[i] = query + i < h.t ? lse[h.stats + query + i] : 0.0f;
  g.delta[i] = query + i < h.t ? delta[h.stats + query + i] : 0.0f;
}

// Computes p and ds of a tile of queries and a tile of keys; g.lse and g.delta become visible in between.
template <class T> DEV_FN void differentiate_general(General &g, const Backward<T> &b, const Head &h, int query, int key, int head_dim, float scale) {
  float s[4], dp[4];
  const long ld = 3l * h.width;
  multiply_general(s, b.qkv + at_qkv(h, QUERY, query), {ld, h.t - query}, b.qkv + at_qkv(h, KEY, key), {ld, h.t - key}, head_dim, g.a, g.b);
  multiply_general(dp, b.dmixed + at_row(h, query), {h.width, h.t - query}, b.qkv + at_qkv(h, VALUE, key), {ld, h.t - key}, head_dim, g.a, g.b);
  const int row = (int)DEV_THREAD / 8;
#pragma unroll
  for (int j = 0; j < 4; j++) {
    const int column = (int)DEV_THREAD % 8 + 8 * j;
    const bool future = key + column > query + row;
    const float p = future ? 0.0f : exp_of<T>(s[j] * scale - g.lse[row]);
    g.p[row * GENERAL_STRIDE + column] = p;
    g.ds[row * GENERAL_STRIDE + column] = p * (dp[j] - g.delta[row]);
  }
}

template <class T> DEV_FN void attention_keys(const Backward<T> &b, int t, int heads, int head_dim, float scale) {
  DEV_SHARED(shared);
  General &g = *(General *)shared;
  const Head h = head_of_block(t, heads, head_dim);
  const Portion at = portion_of_block(head_dim);
  const int columns = dev_min(GENERAL_COLUMNS, head_dim - at.column), key = at.tile + (int)DEV_THREAD / 8;
  float dk[8] = {}, dv[8] = {};
  for (int query = at.tile; query < t; query += GENERAL_TILE) {
    dev_sync();
    load_general_stats(g, b.lse, b.delta, h, query);
    load_general<GENERAL_COLUMNS>(g.left, b.qkv + at_qkv(h, QUERY, query) + at.column, 3l * h.width, t - query, columns);
    load_general<GENERAL_COLUMNS>(g.right, b.dmixed + at_row(h, query) + at.column, h.width, t - query, columns);
    differentiate_general(g, b, h, query, at.tile, head_dim, scale);
    dev_sync();
    add_rows<true>(dv, g.p, g.right);
    add_rows<true>(dk, g.ds, g.left);
  }
  if (key >= t) return;
  put_general(b.dqkv + at_qkv(h, KEY, key) + at.column, dk, scale, columns);
  put_general(b.dqkv + at_qkv(h, VALUE, key) + at.column, dv, 1.0f, columns);
}

template <class T> DEV_FN void attention_queries(const Backward<T> &b, int t, int heads, int head_dim, float scale) {
  DEV_SHARED(shared);
  General &g = *(General *)shared;
  const Head h = head_of_block(t, heads, head_dim);
  const Portion at = portion_of_block(head_dim);
  const int columns = dev_min(GENERAL_COLUMNS, head_dim - at.column), query = at.tile + (int)DEV_THREAD / 8;
  load_general_stats(g, b.lse, b.delta, h, at.tile);
  float dq[8] = {};
  for (int key = 0; key <= at.tile; key += GENERAL_TILE) {
    dev_sync();
    load_general<GENERAL_COLUMNS>(g.left, b.qkv + at_qkv(h, KEY, key) + at.column, 3l * h.width, t - key, columns);
    differentiate_general(g, b, h, at.tile, key, head_dim, scale);
    dev_sync();
    add_rows<false>(dq, g.ds, g.left);
  }
  if (query < t) put_general(b.dqkv + at_qkv(h, QUERY, query) + at.column, dq, scale, columns);
}

// ---------------------------------------------------------------- kernels

#define DELTA_KERNEL(name, T)                                                                                           \
  DEV_KERNEL(128, 8) name(float *delta, const T *dmixed, const T *mixed, int rows, int t, int heads, int head_dim) {    \
    attention_delta<T>(delta, dmixed, mixed, rows, t, heads, head_dim);                                                 \
  }                                                                                                                     \
  EXPORT_KERNEL(name)

#define BACKWARD_KERNEL(name, THREADS, T, call)                                                                         \
  DEV_KERNEL(THREADS, 2)                                                                                                \
  name(T *dqkv, const T *dmixed, const T *qkv, const float *lse, const float *delta, int t, int heads, int head_dim,    \
       float scale) {                                                                                                   \
    const Backward<T> b = {dqkv, dmixed, qkv, lse, delta};                                                              \
    (void)head_dim;                                                                                                     \
    call;                                                                                                               \
  }                                                                                                                     \
  EXPORT_KERNEL(name)

DELTA_KERNEL(attention_delta_bf16, bf16)
DELTA_KERNEL(attention_delta_fp32, float)
BACKWARD_KERNEL(attention_keys_d32_bf16, ATTENTION_THREADS, bf16, attention_keys_fast<32>(b, t, heads, scale))
BACKWARD_KERNEL(attention_keys_d64_bf16, ATTENTION_THREADS, bf16, attention_keys_fast<64>(b, t, heads, scale))
BACKWARD_KERNEL(attention_keys_bf16, GENERAL_THREADS, bf16, attention_keys<bf16>(b, t, heads, head_dim, scale))
BACKWARD_KERNEL(attention_keys_fp32, GENERAL_THREADS, float, attention_keys<float>(b, t, heads, head_dim, scale))
BACKWARD_KERNEL(attention_queries_d32_bf16, ATTENTION_THREADS, bf16, attention_queries_fast<32>(b, t, heads, scale))
BACKWARD_KERNEL(attention_queries_d64_bf16, ATTENTION_THREADS, bf16, attention_queries_fast<64>(b, t, heads, scale))
BACKWARD_KERNEL(attention_queries_bf16, GENERAL_THREADS, bf16, attention_queries<bf16>(b, t, heads, head_dim, scale))
BACKWARD_KERNEL(attention_queries_fp32, GENERAL_THREADS, float, attention_queries<float>(b, t, heads, head_dim, scale))
