// The embeddings: x = wte[token] + wpe[position], normed where the model has an embed_norm, and the gradients of
// both tables. Everything is float.
#include "norm.h"

// A warp a row.
DEV_KERNEL(128, 8)
embed_forward(float *x, float *embedded, float *inverse, const float *wte, const float *wpe, const uint32_t *tokens, int rows,
              int t, int width, float eps) {
  const int row = row_of_warp();
  if (row >= rows) return;
  const bool whole = width % 4 == 0;
  const float *token = wte + (long)tokens[row + row / t] * width, *position = wpe + (long)(row % t) * width;
  auto read = [&](float(&v)[4], int c) {
    float p[4];
    get4(v, token + c, width - c, whole);
    get4(p, position + c, width - c, whole);
#pragma unroll
    for (int e = 0; e < 4; e++) v[e] += p[e];
  };
  const float scale = embedded ? inverse_root(read, width, eps) : 1.0f;
  const long at = (long)row * width;
  for (int c = first_column(); c < width; c += COLUMNS) {
    float v[4];
    read(v, c);
#pragma unroll
    for (int e = 0; e < 4; e++) v[e] *= scale;
    put4(x + at + c, v, width - c, whole);
    if (embedded) put4(embedded + at + c, v, width - c, whole);
  }
  if (embedded && DEV_LANE == 0) inverse[row] = scale;
}
EXPORT_KERNEL(embed_forward)

// A block adds 32 columns of the rows of one token: warp w those of order w, w+8, ... in order, then the warps one
// after the other. A frequent token has thousands of rows, and the warps hide each other's waits.
DEV_KERNEL(256, 4)
embed_tokens(float *dwte, const float *dx, const uint32_t *order, const uint32_t *starts, const uint32_t *ids, int count, int width) {
  DEV_SHARED(shared);
  float *partial = (float *)shared;
  const int i = (int)DEV_BLOCK_X, column = (int)(DEV_BLOCK_Y * 32 + DEV_LANE);
  const bool there = i < count && column < width;
  float sum = 0.0f;
  if (there)
#pragma unroll 4
    for (uint32_t r = starts[i] + DEV_WARP; r < starts[i + 1]; r += 8) sum += dx[(long)order[r] * width + column];
  partial[DEV_THREAD] = sum;
  dev_sync();
  if (DEV_WARP != 0 || !there) return;
  for (int w = 1; w < 8; w++) sum += partial[w * 32 + DEV_LANE];
  dwte[(long)ids[i] * width + column] += sum;
}
EXPORT_KERNEL(embed_tokens)

// A thread adds four elements of a position over all windows, in order.
DEV_KERNEL(256, 4) embed_positions(float *dwpe, const float *dx, int windows, int t, int width) {
  const long size = (long)t * width, at = ((long)DEV_BLOCK_X * 256 + DEV_THREAD) * 4;
  if (at >= size) return;
  const bool whole = in_fours(dwpe, 4);
  float sum[4] = {}, v[4];
  for (int w = 0; w < windows; w++) {
    get4(v, dx + w * size + at, size - at, in_fours(dx, size));
#pragma unroll
    for (int e = 0; e < 4; e++) sum[e] += v[e];
  }
  get4(v, dwpe + at, size - at, whole);
#pragma unroll
  for (int e = 0; e < 4; e++) v[e] += sum[e];
  put4(dwpe + at, v, size - at, whole);
}
EXPORT_KERNEL(embed_positions)
