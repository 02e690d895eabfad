// What the attention kernels share. qkv [rows,3·width] has the queries, keys and values of all heads side by side;
// row r is position r%t of window r/t.
#pragma once
#include "tile.h"

// One head of one window of a qkv matrix and of a matrix of width columns.
struct Head {
  long first;  // row of position 0
  int t, width, column, stats; // positions; columns of a head's matrix; the head's first; its first in lse and delta
};

DEV_FN Head head_of_block(int t, int heads, int head_dim) {
  const int head = (int)DEV_BLOCK_Y, window = (int)DEV_BLOCK_Z;
  return {(long)window * t, t, heads * head_dim, head * head_dim, (window * heads + head) * t};
}

enum Part { QUERY, KEY, VALUE };

DEV_FN long at_qkv(const Head &h, Part part, int position) {
  return ((h.first + position) * 3 + part) * h.width + h.column;
}
DEV_FN long at_row(const Head &h, int position) { return (h.first + position) * h.width + h.column; }

// ---- tiles of bf16 in shared memory, for tensor cores
//
// A row of D elements lies 16 bytes further from the next than it is long, so that the 8 rows of an ldmatrix fall into
// different banks.

constexpr int ATTENTION_THREADS = 128;

template <int D> constexpr int stride_of = D + 8;

// Begins to load ROWS rows of D elements, `ld` apart, of which `there` exist; the others become zero.
template <int D, int ROWS> DEV_FN void load_rows(bf16 *tile, const bf16 *from, long ld, int there) {
  constexpr int PIECES = D / 8;
#pragma unroll
  for (int j = 0; j < ROWS * PIECES / ATTENTION_THREADS; j++) {
    const int i = (int)DEV_THREAD + j * ATTENTION_THREADS, row = i / PIECES, column = i % PIECES * 8;
    const bool exists = row < there;
    dev_cp_async16(tile + row * stride_of<D> + column, exists ? from + row * ld + column : from, exists ? 16 : 0);
  }
}

// Fragments of 16 rows and 16 columns as A, or of 16 rows as 16 columns of B (columns of the tile are k), or of 16
// rows as k of B (columns of the tile are columns of B).
template <int D> DEV_FN void load_a(uint32_t (&r)[4], const bf16 *tile, int row, int column) {
  dev_ldmatrix(r, tile + (row + (int)(DEV_LANE & 15)) * stride_of<D> + column + (int)(DEV_LANE >> 4) * 8);
}
template <int D> DEV_FN void load_b(uint32_t (&r)[4], const bf16 *tile, int row, int column) {
  const int lane = (int)DEV_LANE;
  dev_ldmatrix(r, tile + (row + (lane & 7) + (lane >> 4) * 8) * stride_of<D> + column + ((lane >> 3) & 1) * 8);
}
template <int D> DEV_FN void load_b_trans(uint32_t (&r)[4], const bf16 *tile, int row, int column) {
  dev_ldmatrix_trans(r, tile + (row + (int)(DEV_LANE & 15)) * stride_of<D> + column + (int)(DEV_LANE >> 4) * 8);
}

// sum[M·16,N·8] += a[M·16,D]·tileᵀ: the tile's rows are the columns.
template <int D, int M, int N> DEV_FN void multiply_rows(float (&sum)[M][N][4], const uint32_t (&a)[M][D / 16][4], const bf16 *tile) {
#pragma unroll
  for (int k = 0; k < D / 16; k++)
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      uint32_t b[4];
      load_b<D>(b, tile, n * 8, k * 16);
#pragma unroll
      for (int m = 0; m < M; m++) {
        dev_mma_bf16(sum[m][n], a[m][k], b[0], b[1]);
        dev_mma_bf16(sum[m][n + 1], a[m][k], b[2], b[3]);
      }
    }
}

// sum[M·16,D] += p·tile, p[M·16,K·8] given as accumulators and rounded to bf16.
template <int D, int M, int K> DEV_FN void multiply_columns(float (&sum)[M][D / 8][4], const float (&p)[M][K][4], const bf16 *tile) {
#pragma unroll
  for (int k = 0; k < K; k += 2) {
    uint32_t a[M][4];
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
      for (int i = 0; i < 4; i++) a[m][i] = dev_pack_bf16(p[m][k + i / 2][i % 2 * 2], p[m][k + i / 2][i % 2 * 2 + 1]);
#pragma unroll
    for (int n = 0; n < D / 8; n += 2) {
      uint32_t b[4];
      load_b_trans<D>(b, tile, k * 8, n * 8);
#pragma unroll
      for (int m = 0; m < M; m++) {
        dev_mma_bf16(sum[m][n], a[m], b[0], b[1]);
        dev_mma_bf16(sum[m][n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// Over the four lanes that share the rows of a fragment.
DEV_FN float quad_sum(float v) {
  v += dev_shfl_xor(v, 1);
  return v + dev_shfl_xor(v, 2);
}
DEV_FN float quad_max(float v) {
  v = dev_max(v, dev_shfl_xor(v, 1));
  return dev_max(v, dev_shfl_xor(v, 2));
}

// Writes two neighbouring elements, 4 bytes.
DEV_FN void put_pair(bf16 *p, float a, float b) { *(uint32_t *)p = dev_pack_bf16(a, b); }

// ---- general attention: any head_dim, either type, fused multiply-adds in float
//
// A block of 256 threads has a tile of 32 positions and a part of at most 64 elements of head_dim. Scores of a tile
// of 32 queries and 32 keys go over head_dim in pieces of 32.

constexpr int GENERAL_THREADS = 256, GENERAL_TILE = 32, GENERAL_PIECE = 32, GENERAL_COLUMNS = 64;
constexpr int GENERAL_STRIDE = GENERAL_TILE + 1, GENERAL_WIDE = GENERAL_COLUMNS + 1;

// The block's tile and part: blocks of one tile follow each other.
struct Portion { int tile, column; };

DEV_FN Portion portion_of_block(int head_dim) {
  const int parts = (head_dim + GENERAL_COLUMNS - 1) / GENERAL_COLUMNS;
  return {(int)DEV_BLOCK_X / parts * GENERAL_TILE, (int)DEV_BLOCK_X % parts * GENERAL_COLUMNS};
}

// Loads 32 rows of COLUMNS elements, ld apart; what does not exist becomes 0.
template <int COLUMNS, class T> DEV_FN void load_general(float *tile, const T *from, long ld, int rows, int columns) {
  for (int i = (int)DEV_THREAD; i < GENERAL_TILE * COLUMNS; i += GENERAL_THREADS) {
    const int row = i / COLUMNS, column = i % COLUMNS;
    tile[row * (COLUMNS + 1) + column] = row < rows && column < columns ? get(from + row * ld + column) : 0.0f;
  }
}

// A thread's four elements of a 32x32 product over head_dim: row thread/8, columns thread%8 + 8j. a and b are the
// first elements of the rows; a_tile and b_tile are shared memory, free to write.
struct Rows { long ld; int there; };

template <class T>
DEV_FN void multiply_general(float (&sum)[4], const T *a, Rows ra, const T *b, Rows rb, int head_dim, float *a_tile, float *b_tile) {
  const int row = (int)DEV_THREAD / 8, column = (int)DEV_THREAD % 8;
#pragma unroll
  for (int j = 0; j < 4; j++) sum[j] = 0.0f;
  for (int d = 0; d < head_dim; d += GENERAL_PIECE) {
    dev_sync();
    load_general<GENERAL_PIECE>(a_tile, a + d, ra.ld, ra.there, head_dim - d);
    load_general<GENERAL_PIECE>(b_tile, b + d, rb.ld, rb.there, head_dim - d);
    dev_sync();
#pragma unroll 4
    for (int k = 0; k < GENERAL_PIECE; k++)
#pragma unroll
      for (int j = 0; j < 4; j++)
        sum[j] = dev_fma(a_tile[row * GENERAL_STRIDE + k], b_tile[(column + 8 * j) * GENERAL_STRIDE + k], sum[j]);
  }
}

// sum[c] += weight[row,k]·tile[k,column+8c] over the tile's 32 rows; transposed takes weight[k,row].
template <bool TRANSPOSED> DEV_FN void add_rows(float (&sum)[8], const float *weight, const float *tile) {
  const int row = (int)DEV_THREAD / 8, column = (int)DEV_THREAD % 8;
#pragma unroll 4
  for (int k = 0; k < GENERAL_TILE; k++) {
    const float w = TRANSPOSED ? weight[k * GENERAL_STRIDE + row] : weight[row * GENERAL_STRIDE + k];
#pragma unroll
    for (int c = 0; c < 8; c++) sum[c] = dev_fma(w, tile[k * GENERAL_WIDE + column + 8 * c], sum[c]);
  }
}

// Writes a thread's eight elements of a row, those below `columns`.
template <class T> DEV_FN void put_general(T *to, const float (&v)[8], float scale, int columns) {
  const int column = (int)DEV_THREAD % 8;
#pragma unroll
  for (int c = 0; c < 8; c++)
    if (column + 8 * c < columns) put(to + column + 8 * c, v[c] * scale);
}
