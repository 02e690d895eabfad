// Products of matrices, three layouts, all row-major:
//
//   nt  C[M,N] = A[M,K]·B[N,K]ᵀ    activations times weights
//   nn  C[M,N] = A[M,K]·B[K,N]     gradients times weights
//   tn  C[M,N] = A[K,M]ᵀ·B[K,N]    gradients of weights
//
// lda, ldb and ldc are the elements from one row to the next. An element is one sum over k upwards, so its bits
// depend on K alone. What becomes of it is the epilogue. c has the elements' type, or float for the epilogues that
// say so; aux, where an epilogue reads it, has the place and type of c.
//
// Few large blocks would leave most of a GPU idle where M and N are small and K is long, as in gradients of weights.
// So K may be cut into as many parts as the grid has in z; each stores its sums for itself, and add_parts adds them.
//
// Rows that do not start at a multiple of 16 bytes are read element by element, slowly.
#include "tile.h"

enum Epilogue {
  STORE,               // c = ab
  STORE_FP32,          // c = ab, float
  ADD_FP32,            // c = c + ab, float
  STORE_RELU,          // c = max(ab, 0)
  STORE_RELU2,         // c = max(ab, 0)²
  STORE_RELU_BACKWARD, // c = ab·act'(x), aux = act(x): act' = 1 where aux > 0
  STORE_RELU2_BACKWARD // c = ab·act'(x), aux = act(x): act' = 2·max(x, 0) = 2·sqrt(aux)
};
// With several parts c is [parts][M][ldc] float, and the epilogue STORE_FP32.

struct Problem {
  const void *aux;
  int M, N, K, lda, ldb, ldc, epilogue;
};

DEV_FN float finish(float v, float aux, int epilogue) {
  switch (epilogue) {
  case STORE_RELU: return dev_max(v, 0.0f);
  case STORE_RELU2: v = dev_max(v, 0.0f); return v * v;
  case STORE_RELU_BACKWARD: return aux > 0.0f ? v : 0.0f;
  case STORE_RELU2_BACKWARD: return v * (2.0f * dev_sqrt(aux));
  default: return v;
  }
}

// Takes 4 neighbouring elements of row m, those below N, through the epilogue.
template <class T> DEV_FN void write(void *c, float (&v)[4], const Problem &p, int m, int n) {
  if (m >= p.M || n >= p.N) return;
  const long at = (long)m * p.ldc + n;
  const int left = p.N - n;
  float other[4];
  if (p.epilogue == STORE_FP32 || p.epilogue == ADD_FP32) {
    float *to = (float *)c + at;
    const bool whole = in_fours((float *)c, p.ldc);
    if (p.epilogue == ADD_FP32) {
      get4(other, to, left, whole);
#pragma unroll
      for (int i = 0; i < 4; i++) v[i] = other[i] + v[i];
    }
    put4(to, v, left, whole);
    return;
  }
  const bool whole = in_fours((T *)c, p.ldc) && in_fours((const T *)p.aux, p.ldc);
  if (p.epilogue >= STORE_RELU_BACKWARD) get4(other, (const T *)p.aux + at, left, whole);
#pragma unroll
  for (int i = 0; i < 4; i++) v[i] = finish(v[i], p.epilogue >= STORE_RELU_BACKWARD ? other[i] : 0.0f, p.epilogue);
  put4((T *)c + at, v, left, whole);
}

// The part of K that a block adds up, and where it writes.
struct Span { int first, end; };

DEV_FN Span part_of_k(int K, int depth) {
  const int parts = (int)DEV_BLOCKS_Z, per = ((K + depth - 1) / depth + parts - 1) / parts * depth;
  const int first = dev_min(K, (int)DEV_BLOCK_Z * per);
  return {first, dev_min(K, first + per)};
}

DEV_FN void *part_of_c(void *c, const Problem &p) {
  return DEV_BLOCK_Z ? (float *)c + (long)DEV_BLOCK_Z * p.M * p.ldc : c;
}

// Blocks are numbered so that those which run together share rows and columns: down a strip of 8 rows of blocks,
// then the next column.
DEV_FN void place_block(int M, int N, int tile, int &m0, int &n0) {
  const int rows = (M + tile - 1) / tile, columns = (N + tile - 1) / tile, strip = 8;
  const int block = (int)DEV_BLOCK_X, first = block / (strip * columns) * strip;
  const int height = dev_min(strip, rows - first), inside = block % (strip * columns);
  m0 = (first + inside % height) * tile;
  n0 = inside / height * tile;
}

// ---------------------------------------------------------------- bf16: tensor cores
//
// A block of 4 warps has 128x128 elements of C, each warp 64x64. Tiles of 32 k stream through STAGES buffers. A
// tile is stored as it lies in memory: [128][32] where k is contiguous, [32][128] where it is not. Pieces of 16
// bytes are permuted within a row, so that the 8 rows of an ldmatrix fall into different banks.

constexpr int TILE = 128, DEPTH = 32, STAGES = 4, GEMM_THREADS = 128, TILE_ELEMENTS = TILE * DEPTH;

template <bool K_CONTIGUOUS> DEV_FN int piece_at(int row, int piece) {
  return K_CONTIGUOUS ? row * DEPTH + (piece ^ ((row >> 1) & 3)) * 8 : row * TILE + (piece ^ (row & 7)) * 8;
}

struct Operand {
  const bf16 *at; // first element of the block's rows (or columns) of C
  int ld, rows;   // of C that are left
  bool aligned;
};

template <bool K_CONTIGUOUS> DEV_FN Operand operand(const void *p, int ld, int first, int total) {
  const bf16 *at = (const bf16 *)p + (K_CONTIGUOUS ? (long)first * ld : (long)first);
  return {at, ld, total - first, ld % 8 == 0 && ((uint64_t)p & 15) == 0};
}

// Begins to load the tile of k0 to k0+31.
template <bool K_CONTIGUOUS> DEV_FN void load_tile(bf16 *tile, const Operand &o, int k0, int K) {
  constexpr int PIECES = (K_CONTIGUOUS ? DEPTH : TILE) / 8, ROUNDS = TILE_ELEMENTS / 8 / GEMM_THREADS;
  const bf16 *from = o.at + (K_CONTIGUOUS ? (long)k0 : (long)k0 * o.ld);
  const int rows = K_CONTIGUOUS ? o.rows : K - k0, columns = K_CONTIGUOUS ? K - k0 : o.rows;
  auto piece_of = [&](int j, auto copy) {
    const int i = (int)DEV_THREAD + j * GEMM_THREADS, row = i / PIECES, piece = i % PIECES;
    const int there = row < rows ? dev_max(0, dev_min(8, columns - piece * 8)) : 0;
    copy(tile + piece_at<K_CONTIGUOUS>(row, piece), there ? from + (long)row * o.ld + piece * 8 : o.at, there);
  };
  if (o.aligned) {
#pragma unroll
    for (int j = 0; j < ROUNDS; j++) piece_of(j, [](bf16 *to, const bf16 *source, int there) { dev_cp_async16(to, source, 2 * there); });
    return;
  }
#pragma unroll 1
  for (int j = 0; j < ROUNDS; j++)
    piece_of(j, [](bf16 *to, const bf16 *source, int there) {
#pragma unroll 1
      for (int e = 0; e < 8; e++) to[e] = e < there ? source[e] : (bf16)0;
    });
}

// Fragments of 16 rows of A and of 16 columns of B, which begin at `first`, for the k of 16-wide slice kk.
template <bool K_CONTIGUOUS> DEV_FN void load_a(uint32_t (&r)[4], const bf16 *tile, int first, int kk) {
  const int lane = (int)DEV_LANE, in8 = lane & 7, m8 = (lane >> 3) & 1, k8 = lane >> 4;
  if (K_CONTIGUOUS) dev_ldmatrix(r, tile + piece_at<true>(first + m8 * 8 + in8, kk * 2 + k8));
  else dev_ldmatrix_trans(r, tile + piece_at<false>(kk * 16 + k8 * 8 + in8, first / 8 + m8));
}
template <bool K_CONTIGUOUS> DEV_FN void load_b(uint32_t (&r)[4], const bf16 *tile, int first, int kk) {
  const int lane = (int)DEV_LANE, in8 = lane & 7, k8 = (lane >> 3) & 1, n8 = lane >> 4;
  if (K_CONTIGUOUS) dev_ldmatrix(r, tile + piece_at<true>(first + n8 * 8 + in8, kk * 2 + k8));
  else dev_ldmatrix_trans(r, tile + piece_at<false>(kk * 16 + k8 * 8 + in8, first / 8 + n8));
}

// The warp's 64x64 elements, as fragments of 16x8.
struct Accumulator { float v[4][8][4]; };

template <bool A_K, bool B_K> DEV_FN void multiply_tile(Accumulator &c, const bf16 *a, const bf16 *b, int warp_m, int warp_n) {
#pragma unroll
  for (int kk = 0; kk < DEPTH / 16; kk++) {
    uint32_t af[4][4], bf[4][4];
#pragma unroll
    for (int i = 0; i < 4; i++) load_a<A_K>(af[i], a, warp_m + i * 16, kk);
#pragma unroll
    for (int j = 0; j < 4; j++) load_b<B_K>(bf[j], b, warp_n + j * 16, kk);
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int j = 0; j < 8; j++) dev_mma_bf16(c.v[i][j], af[i], bf[j / 2][j % 2 * 2], bf[j / 2][j % 2 * 2 + 1]);
  }
}

// Takes the block's elements through shared memory, so that a warp writes whole rows. Columns are permuted in
// pieces of 8 so that the rows of a fragment fall into different banks.
DEV_FN int staged_at(int row, int column) { return row * TILE + (column ^ (row & 3) * 8); }

DEV_FN void write_block(void *c, const Accumulator &sum, float *staged, const Problem &p, int m0, int n0, int warp_m, int warp_n) {
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) staged[staged_at(warp_m + i * 16 + fragment_row(e), warp_n + j * 8 + fragment_column(e))] = sum.v[i][j][e];
  dev_sync();
  const int column = (int)DEV_LANE * 4;
  for (int row = (int)DEV_WARP; row < TILE; row += GEMM_THREADS / 32) {
    float v[4];
    get_vector(v, staged + staged_at(row, column));
    write<bf16>(c, v, p, m0 + row, n0 + column);
  }
}

template <bool A_K, bool B_K> DEV_FN void gemm_bf16(void *c, const void *a, const void *b, const Problem &p) {
  DEV_SHARED(shared);
  bf16 *tiles_a = (bf16 *)shared, *tiles_b = tiles_a + STAGES * TILE_ELEMENTS;
  int m0, n0;
  place_block(p.M, p.N, TILE, m0, n0);
  const Operand oa = operand<A_K>(a, p.lda, m0, p.M), ob = operand<B_K>(b, p.ldb, n0, p.N);
  const int warp_m = (int)(DEV_WARP / 2) * 64, warp_n = (int)(DEV_WARP % 2) * 64;
  const bool busy = m0 + warp_m < p.M && n0 + warp_n < p.N; // else the warp has nothing to compute
  const Span k = part_of_k(p.K, DEPTH);
  const int steps = (k.end - k.first + DEPTH - 1) / DEPTH;
  auto load = [&](int s) {
    if (s < steps) {
      load_tile<A_K>(tiles_a + s % STAGES * TILE_ELEMENTS, oa, k.first + s * DEPTH, k.end);
      load_tile<B_K>(tiles_b + s % STAGES * TILE_ELEMENTS, ob, k.first + s * DEPTH, k.end);
    }
    dev_cp_async_commit();
  };
  Accumulator sum = {};
#pragma unroll 1
  for (int s = 0; s < STAGES - 1; s++) load(s);
  for (int s = 0; s < steps; s++) {
    dev_cp_async_wait<STAGES - 2>();
    dev_sync(); // tile s is there for all, and nobody reads tile s-1 any more, whose buffer is next
    load(s + STAGES - 1);
    const int stage = s % STAGES * TILE_ELEMENTS;
    if (busy) multiply_tile<A_K, B_K>(sum, tiles_a + stage, tiles_b + stage, warp_m, warp_n);
  }
  dev_cp_async_wait<0>();
  dev_sync();
  write_block(part_of_c(c, p), sum, (float *)shared, p, m0, n0, warp_m, warp_n);
}

// ---------------------------------------------------------------- fp32: fused multiply-adds
//
// A block of 256 threads has 64x64 elements of C, each thread 4x4. For parity, not for speed.

constexpr int TILE32 = 64, DEPTH32 = 16, STRIDE32 = TILE32 + 4, GEMM32_THREADS = 256;

template <bool K_CONTIGUOUS> DEV_FN void load_tile_fp32(float *tile, const float *p, int ld, int first, int total, int k0, int K) {
  for (int i = (int)DEV_THREAD; i < TILE32 * DEPTH32; i += GEMM32_THREADS) {
    const int row = K_CONTIGUOUS ? i / DEPTH32 : i % TILE32, k = K_CONTIGUOUS ? i % DEPTH32 : i / TILE32;
    const bool there = first + row < total && k0 + k < K;
    const long at = K_CONTIGUOUS ? (long)(first + row) * ld + k0 + k : (long)(k0 + k) * ld + first + row;
    tile[k * STRIDE32 + row] = there ? p[at] : 0.0f;
  }
}

template <bool A_K, bool B_K> DEV_FN void gemm_fp32(void *c, const void *a, const void *b, const Problem &p) {
  DEV_SHARED(shared);
  float *tile_a = (float *)shared, *tile_b = tile_a + DEPTH32 * STRIDE32;
  int m0, n0;
  place_block(p.M, p.N, TILE32, m0, n0);
  const int m = (int)DEV_THREAD / 16 * 4, n = (int)DEV_THREAD % 16 * 4;
  float sum[4][4] = {};
  const Span part = part_of_k(p.K, DEPTH32);
  for (int k0 = part.first; k0 < part.end; k0 += DEPTH32) {
    dev_sync();
    load_tile_fp32<A_K>(tile_a, (const float *)a, p.lda, m0, p.M, k0, part.end);
    load_tile_fp32<B_K>(tile_b, (const float *)b, p.ldb, n0, p.N, k0, part.end);
    dev_sync();
#pragma unroll 4
    for (int k = 0; k < DEPTH32; k++)
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) sum[i][j] = dev_fma(tile_a[k * STRIDE32 + m + i], tile_b[k * STRIDE32 + n + j], sum[i][j]);
  }
#pragma unroll
  for (int i = 0; i < 4; i++) write<float>(part_of_c(c, p), sum[i], p, m0 + m + i, n0 + n);
}

#define GEMM_KERNEL(name, body, A_K, B_K, THREADS, BLOCKS)                                                     \
  DEV_KERNEL(THREADS, BLOCKS)                                                                                  \
  name(void *c, const void *a, const void *b, const void *aux, int M, int N, int K, int lda, int ldb, int ldc, \
       int epilogue) {                                                                                         \
    body<A_K, B_K>(c, a, b, {aux, M, N, K, lda, ldb, ldc, epilogue});                                          \
  }                                                                                                            \
  EXPORT_KERNEL(name)

GEMM_KERNEL(gemm_nt_bf16, gemm_bf16, true, true, GEMM_THREADS, 2)
GEMM_KERNEL(gemm_nn_bf16, gemm_bf16, true, false, GEMM_THREADS, 2)
GEMM_KERNEL(gemm_tn_bf16, gemm_bf16, false, false, GEMM_THREADS, 2)
GEMM_KERNEL(gemm_nt_fp32, gemm_fp32, true, true, GEMM32_THREADS, 2)
GEMM_KERNEL(gemm_nn_fp32, gemm_fp32, true, false, GEMM32_THREADS, 2)
GEMM_KERNEL(gemm_tn_fp32, gemm_fp32, false, false, GEMM32_THREADS, 2)
