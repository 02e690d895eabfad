// Cross-entropy of a chunk of rows of logits, a block of 256 threads a row. The logits are float in both
// precisions; their gradient softmax(logits) - onehot(target) has the precision's type.
#include "tile.h"

constexpr int XENT_THREADS = 256, XENT_WARPS = XENT_THREADS / 32;

// The largest of some numbers, and the sum of e^(number - largest).
struct Softmax { float largest, sum; };

template <class T> DEV_FN Softmax join(Softmax a, Softmax b) {
  const float largest = dev_max(a.largest, b.largest);
  return {largest, a.sum * exp_of<T>(a.largest - largest) + b.sum * exp_of<T>(b.largest - largest)};
}

// A thread goes over every 256th piece of four logits.
template <class T> DEV_FN Softmax softmax_of_thread(const float *logits, int vocab, bool whole) {
  Softmax s = {-0x1.fffffep127f, 0.0f}; // finite, so that the difference of two is no NaN
  for (int c = (int)DEV_THREAD * 4; c < vocab; c += XENT_THREADS * 4) {
    float v[4], largest = s.largest;
    get4(v, logits + c, vocab - c, whole);
#pragma unroll
    for (int e = 0; e < 4; e++)
      if (c + e < vocab) largest = dev_max(largest, v[e]);
    s.sum *= exp_of<T>(s.largest - largest);
    s.largest = largest;
#pragma unroll
    for (int e = 0; e < 4; e++)
      if (c + e < vocab) s.sum += exp_of<T>(v[e] - largest);
  }
  return s;
}

// The same of the whole row, by a tree of lanes and then of warps.
template <class T> DEV_FN Softmax softmax_of_block(Softmax s, Softmax *scratch) {
#pragma unroll
  for (unsigned x = 16; x; x >>= 1) s = join<T>(s, {dev_shfl_xor(s.largest, x), dev_shfl_xor(s.sum, x)});
  if (DEV_LANE == 0) scratch[DEV_WARP] = s;
  dev_sync();
  s = scratch[0];
  for (int w = 1; w < XENT_WARPS; w++) s = join<T>(s, scratch[w]);
  return s;
}

template <class T>
DEV_FN void cross_entropy(double *loss, T *dlogits, const float *logits, const uint32_t *tokens, int first, int rows, int t, int vocab, int ld) {
  DEV_SHARED(shared);
  const int row = (int)DEV_BLOCK_X;
  if (row >= rows) return;
  const float *x = logits + (long)row * ld;
  const bool whole = ld % 4 == 0;
  const int target = (int)tokens[first + row + (first + row) / t + 1];
  const float right = x[target];
  const Softmax s = softmax_of_block<T>(softmax_of_thread<T>(x, vocab, whole), (Softmax *)shared);
  if (DEV_THREAD == 0) loss[first + row] = log_ieee((double)s.sum) + ((double)s.largest - (double)right);
  if (!dlogits) return;
  dev_sync(); // dlogits may be logits: everybody has read the target's
  const float inverse = 1.0f / s.sum;
  for (int c = (int)DEV_THREAD * 4; c < ld; c += XENT_THREADS * 4) {
    float v[4];
    get4(v, x + c, vocab - c, whole);
#pragma unroll
    for (int e = 0; e < 4; e++) {
      v[e] = c + e < vocab ? exp_of<T>(v[e] - s.largest) * inverse : 0.0f;
      if (c + e == target) v[e] -= 1.0f;
    }
    put4(dlogits + (long)row * ld + c, v, ld - c, whole);
  }
}

#define XENT_KERNEL(name, T)                                                                                         \
  DEV_KERNEL(256, 4)                                                                                                 \
  name(double *loss, T *dlogits, const float *logits, const uint32_t *tokens, int first, int rows, int t, int vocab, \
       int ld) {                                                                                                     \
    cross_entropy<T>(loss, dlogits, logits, tokens, first, rows, t, vocab, ld);                                      \
  }                                                                                                                  \
  EXPORT_KERNEL(name)

XENT_KERNEL(cross_entropy_bf16, bf16)
XENT_KERNEL(cross_entropy_fp32, float)
