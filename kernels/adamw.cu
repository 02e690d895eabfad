// AdamW over the flat vector, in IEEE operations and without fused multiply-adds, so that every engine computes the
// same weights from the same gradient; and the digest of the new state in the same pass. A block takes 4096
// elements, a thread four at a time.
#include "digest.h"

constexpr int SPAN = 4096, ADAMW_THREADS = 256;

struct Hyper {
  float scale, lr, beta1, one_minus_beta1, beta2, one_minus_beta2, correction1, correction2, eps, decay;
};

DEV_FN void update(float &w, float &m, float &v, float gradient, const Hyper &h, float decay) {
  const float g = gradient * h.scale;
  m = h.beta1 * m + h.one_minus_beta1 * g;
  v = h.beta2 * v + h.one_minus_beta2 * (g * g);
  w = w - h.lr * ((m / h.correction1) / (dev_sqrt(v / h.correction2) + h.eps) + decay * w);
}

DEV_KERNEL(ADAMW_THREADS, 2)
adamw(uint64_t *digest, float *w, float *m, float *v, const float *g, bf16 *copy, int start, int count, int decay_from,
      float scale, float lr, float beta1, float one_minus_beta1, float beta2, float one_minus_beta2, float correction1,
      float correction2, float eps, float decay) {
  DEV_SHARED(shared);
  const Hyper h = {scale, lr, beta1, one_minus_beta1, beta2, one_minus_beta2, correction1, correction2, eps, decay};
  const long first = (long)DEV_BLOCK_X * SPAN, end = first + SPAN < count ? first + SPAN : count;
  Digest d = {};
  for (long i = first + DEV_THREAD * 4; i < end; i += ADAMW_THREADS * 4) {
    float wi[4], mi[4], vi[4], gi[4];
    get4(wi, w + i, end - i, true);
    get4(mi, m + i, end - i, true);
    get4(vi, v + i, end - i, true);
    get4(gi, g + i, end - i, true);
#pragma unroll
    for (int e = 0; e < 4; e++) {
      if (i + e >= end) continue;
      const uint32_t at = (uint32_t)(start + i + e);
      update(wi[e], mi[e], vi[e], gi[e], h, (int)at >= decay_from ? h.decay : 0.0f);
      digest_add(d, 0, at, wi[e]);
      digest_add(d, 1, at, mi[e]);
      digest_add(d, 2, at, vi[e]);
    }
    put4(w + i, wi, end - i, true);
    put4(m + i, mi, end - i, true);
    put4(v + i, vi, end - i, true);
    if (copy) put4(copy + i, wi, end - i, true);
  }
  digest_store<ADAMW_THREADS / 32>(digest, d, (uint64_t *)shared);
}
EXPORT_KERNEL(adamw)
