// RMSNorm without gain, a warp a row:
//
//   y = x·inverse, inverse = 1/sqrt(mean(x²) + eps)
//   dx = inverse·(dy - y·mean(dy·y))
//
// The residual stream x and its gradient dx are float in both precisions; y, dy and the copy of dx that the next
// products read have the precision's type. A lane adds every 32nd piece of four elements, the warp a fixed tree.
#include "norm.h"

template <class T> DEV_FN void norm_forward(T *y, float *inverse, const float *x, int rows, int width, float eps) {
  const int row = row_of_warp();
  if (row >= rows) return;
  const long at = (long)row * width;
  const float i = inverse_root([&](float(&v)[4], int c) { get4(v, x + at + c, width - c, width % 4 == 0); }, width, eps);
  for (int c = first_column(); c < width; c += COLUMNS) {
    float v[4];
    get4(v, x + at + c, width - c, width % 4 == 0);
#pragma unroll
    for (int e = 0; e < 4; e++) v[e] *= i;
    put4(y + at + c, v, width - c, width % 4 == 0);
  }
  if (DEV_LANE == 0) inverse[row] = i;
}

template <class T>
DEV_FN void norm_backward(float *dx, T *copy, const T *dy, const T *y, const float *inverse, int rows, int width, int add) {
  const int row = row_of_warp();
  if (row >= rows) return;
  const long at = (long)row * width;
  const bool whole = width % 4 == 0;
  float dot = 0.0f;
  for (int c = first_column(); c < width; c += COLUMNS) {
    float g[4], v[4];
    get4(g, dy + at + c, width - c, whole);
    get4(v, y + at + c, width - c, whole);
#pragma unroll
    for (int e = 0; e < 4; e++) dot = dev_fma(g[e], v[e], dot);
  }
  const float mean = warp_sum(dot) / (float)width, scale = inverse[row];
  for (int c = first_column(); c < width; c += COLUMNS) {
    float g[4], v[4], old[4];
    get4(g, dy + at + c, width - c, whole);
    get4(v, y + at + c, width - c, whole);
    if (add) get4(old, dx + at + c, width - c, whole);
#pragma unroll
    for (int e = 0; e < 4; e++) {
      g[e] = scale * (g[e] - v[e] * mean);
      if (add) g[e] = old[e] + g[e];
    }
    put4(dx + at + c, g, width - c, whole);
    if (copy) put4(copy + at + c, g, width - c, whole);
  }
}

#define NORM_KERNELS(suffix, T)                                                                                           \
  DEV_KERNEL(128, 8) norm_forward_##suffix(T *y, float *inverse, const float *x, int rows, int width, float eps) {        \
    norm_forward<T>(y, inverse, x, rows, width, eps);                                                                     \
  }                                                                                                                       \
  EXPORT_KERNEL(norm_forward_##suffix)                                                                                    \
  DEV_KERNEL(128, 8)                                                                                                      \
  norm_backward_##suffix(float *dx, T *copy, const T *dy, const T *y, const float *inverse, int rows, int width, int add) { \
    norm_backward<T>(dx, copy, dy, y, inverse, rows, width, add);                                                         \
  }                                                                                                                       \
  EXPORT_KERNEL(norm_backward_##suffix)

NORM_KERNELS(bf16, bf16)
NORM_KERNELS(fp32, float)
