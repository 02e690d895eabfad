// What goes over vectors element by element: the activations, for products of a library that has no such epilogue and
// leaves its sums as float, and the conversion to bfloat16. A thread takes four elements.
#include "tile.h"

enum Kind { RELU, RELU2 };

DEV_FN long first_element() { return ((long)DEV_BLOCK_X * 256 + DEV_THREAD) * 4; }

template <class T> DEV_FN void act_forward(T *y, const float *x, long left, int kind) {
  if (left <= 0) return;
  float v[4];
  get4(v, x, left, true);
#pragma unroll
  for (int e = 0; e < 4; e++) {
    v[e] = dev_max(v[e], 0.0f);
    if (kind == RELU2) v[e] *= v[e];
  }
  put4(y, v, left, true);
}

// act'(x) follows from y = act(x): 1 where y > 0, or 2·sqrt(y).
template <class T> DEV_FN void act_backward(T *dx, const float *dy, const T *y, long left, int kind) {
  if (left <= 0) return;
  float g[4], v[4];
  get4(g, dy, left, true);
  get4(v, y, left, true);
#pragma unroll
  for (int e = 0; e < 4; e++) {
    if (kind == RELU2) g[e] *= 2.0f * dev_sqrt(v[e]);
    else g[e] = v[e] > 0.0f ? g[e] : 0.0f;
  }
  put4(dx, g, left, true);
}

#define ACT_KERNELS(suffix, T)                                                             \
  DEV_KERNEL(256, 4) act_forward_##suffix(T *y, const float *x, int count, int kind) {     \
    const long at = first_element();                                                       \
    act_forward<T>(y + at, x + at, count - at, kind);                                      \
  }                                                                                        \
  EXPORT_KERNEL(act_forward_##suffix)                                                      \
  DEV_KERNEL(256, 4) act_backward_##suffix(T *dx, const float *dy, const T *y, int count, int kind) { \
    const long at = first_element();                                                       \
    act_backward<T>(dx + at, dy + at, y + at, count - at, kind);                           \
  }                                                                                        \
  EXPORT_KERNEL(act_backward_##suffix)

ACT_KERNELS(bf16, bf16)
ACT_KERNELS(fp32, float)

DEV_KERNEL(256, 4) narrow(bf16 *to, const float *from, int count) {
  const long at = first_element(), left = count - at;
  if (left <= 0) return;
  float v[4];
  get4(v, from + at, left, true);
  put4(to + at, v, left, true);
}
EXPORT_KERNEL(narrow)
