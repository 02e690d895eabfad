// warp.cc - the operations that the lanes of a warp compute together. The places of matrix elements in the
// lanes' registers are those of the PTX manual (m16n8k16 and ldmatrix): lane = 4*g + t, two 16-bit elements a register.
#include <cstring>

#include "soft.h"

namespace {

struct Shuffle { uint32_t value, source, result; };

void shuffle(void *const lanes[32]) {
  for (int i = 0; i < 32; i++) {
    auto *to = static_cast<Shuffle *>(lanes[i]);
    to->result = static_cast<Shuffle *>(lanes[to->source & 31])->value;
  }
}

float from_bf16(uint32_t half) {
  const uint32_t bits = half << 16;
  float f;
  memcpy(&f, &bits, 4);
  return f;
}

struct Fragments { float *d; const uint32_t *a, *b; };

// multiply computes D = A·B + D of a 16x16 and a 16x8 matrix. Products of bf16 are exact in fp32; the sum
// runs over k upwards, one rounding each, where a tensor core adds several products at once.
void multiply(void *const lanes[32]) {
  float a[16][16], b[16][8], d[16][8];
  for (int i = 0; i < 32; i++) {
    const auto &f = *static_cast<Fragments *>(lanes[i]);
    const int g = i >> 2, t = (i & 3) * 2;
    for (int e = 0; e < 4; e++) {
      const int row = g + (e & 1) * 8, column = t + (e >> 1) * 8;
      a[row][column] = from_bf16(f.a[e] & 0xffff);
      a[row][column + 1] = from_bf16(f.a[e] >> 16);
      d[g + (e >> 1) * 8][t + (e & 1)] = f.d[e];
    }
    for (int e = 0; e < 2; e++) {
      b[t + e * 8][g] = from_bf16(f.b[e] & 0xffff);
      b[t + e * 8 + 1][g] = from_bf16(f.b[e] >> 16);
    }
  }
  for (int row = 0; row < 16; row++)
    for (int k = 0; k < 16; k++)
      for (int column = 0; column < 8; column++) d[row][column] += a[row][k] * b[k][column];
  for (int i = 0; i < 32; i++)
    for (int e = 0; e < 4; e++) static_cast<Fragments *>(lanes[i])->d[e] = d[(i >> 2) + (e >> 1) * 8][(i & 3) * 2 + (e & 1)];
}

struct Rows { uint32_t *r; const void *row; int matrices; bool transposed; };

void load_matrices(void *const lanes[32]) {
  for (int i = 0; i < 32; i++) {
    const auto &own = *static_cast<Rows *>(lanes[i]);
    const int g = i >> 2, t = (i & 3) * 2;
    for (int m = 0; m < own.matrices; m++) {
      auto at = [&](int row, int column) {
        uint16_t half;
        memcpy(&half, static_cast<const char *>(static_cast<Rows *>(lanes[m * 8 + row])->row) + 2 * column, 2);
        return static_cast<uint32_t>(half);
      };
      own.r[m] = own.transposed ? at(t, g) | at(t + 1, g) << 16 : at(g, t) | at(g, t + 1) << 16;
    }
  }
}

}  // namespace

uint32_t soft_shfl_xor(unsigned, uint32_t value, unsigned lanes) {
  Shuffle s{value, soft_cur->lane ^ lanes, 0};
  soft_collective("shfl.sync", &s, shuffle);
  return s.result;
}

uint32_t soft_shfl_idx(unsigned, uint32_t value, unsigned lane) {
  Shuffle s{value, lane, 0};
  soft_collective("shfl.sync", &s, shuffle);
  return s.result;
}

void soft_mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2]) {
  Fragments f{d, a, b};
  soft_collective("mma.sync", &f, multiply);
}

void soft_ldmatrix(uint32_t *r, const void *row, int matrices, bool transposed) {
  Rows rows{r, row, matrices, transposed};
  soft_collective("ldmatrix", &rows, load_matrices);
}
