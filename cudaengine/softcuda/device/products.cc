// products.cc - the functions of NVIDIA's library of products, cuBLASLt, that the project calls. A program that finds this
// file's library as its libcublasLt.so runs them on the same device, in the order of plain loops. Whatever the real one is
// free to misunderstand is refused here: matrices that do not fit their product, handles of something else, an algorithm for
// another product, addresses less aligned than was promised, a workspace that is too small.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "api.h"

#define LT extern "C" __attribute__((visibility("default"))) Status

namespace {

// Status is a cublasStatus_t; these and all numbers below are those of cublasLt.h.
enum Status : int { fine = 0, no_start = 1, wrong_value = 7, execution_failed = 13, not_supported = 15 };

enum : int { float32 = 0, bfloat16 = 14 };       // cudaDataType_t
enum : int { exact32 = 68 };                     // cublasComputeType_t: float32, nothing faster
enum : int { keep_a = 3, keep_b = 4 };           // attributes of a product: what becomes of A and B
enum : int { plain_matrix = 0, transposed = 1 }; // cublasOperation_t
enum : int { most_workspace = 1, reductions = 3, align_first = 5, align_last = 8 }; // attributes of a preference
enum : int { version = 130000 };

struct Desc { int compute, scale, op_a = plain_matrix, op_b = plain_matrix; };
struct Layout { int type; uint64_t rows, columns; int64_t ld; };
struct Preference { uint64_t workspace = 0; uint32_t reductions = 7, alignment[4] = {256, 256, 256, 256}; };
struct Handle { int unused; };

// Algorithm is what the program keeps without looking inside: the product that it is for, and what was promised.
struct Algorithm { uint64_t product, workspace, alignment[4], unused[2]; };
struct Heuristic { Algorithm algorithm; size_t workspace; Status state; float waves; int reserved[4]; };

std::set<const void *> alive;  // descriptions that are not destroyed; handles too
size_t handles;

template <class T, class... Values> Status make(T **to, Values... values) {
  alive.insert(*to = new T{values...});
  return fine;
}
template <class T> Status destroy(const char *function, T *what) {
  if (!alive.erase(what)) {
    complain(std::string(function) + ": what is destroyed is not there, or no longer");
    return wrong_value;
  }
  delete what;
  return fine;
}

Status refuse(const char *function, const char *why) {
  complain(std::string(function) + ": " + why);
  return wrong_value;
}

uint64_t mix(uint64_t h, uint64_t v) { return (h ^ v) * 0x9e3779b97f4a7c15u ^ (h >> 29); }

// name_of is a number that products of other shapes do not have.
uint64_t name_of(const Desc &p, std::initializer_list<const Layout *> layouts) {
  uint64_t h = mix(mix(1, static_cast<uint64_t>(p.op_a)), static_cast<uint64_t>(p.op_b));
  for (const Layout *l : layouts) h = mix(mix(mix(mix(h, static_cast<uint64_t>(l->type)), l->rows), l->columns), static_cast<uint64_t>(l->ld));
  return h;
}

// fits reports whether D [m,n] = op(A) [m,k] times op(B) [k,n], all column by column.
bool fits(const Desc &p, const Layout &a, const Layout &b, const Layout &c, const Layout &d) {
  const uint64_t m = p.op_a ? a.columns : a.rows, k = p.op_a ? a.rows : a.columns;
  const uint64_t inner = p.op_b ? b.columns : b.rows, n = p.op_b ? b.rows : b.columns;
  for (const Layout *l : {&a, &b, &c, &d})
    if (!l->rows || !l->columns || l->ld < static_cast<int64_t>(l->rows)) return false;
  return inner == k && d.rows == m && d.columns == n && c.rows == m && c.columns == n && c.type == d.type && c.ld == d.ld;
}

bool supported(const Desc &p, const Layout &a, const Layout &b, const Layout &d) {
  return p.compute == exact32 && p.scale == float32 && a.type == b.type && (a.type == float32 || a.type == bfloat16) && (d.type == float32 || d.type == a.type);
}

size_t bytes(const Layout &l) { return ((l.columns - 1) * static_cast<size_t>(l.ld) + l.rows) * (l.type == float32 ? 4 : 2); }

// widened is a matrix as float32, one column after the other without gaps, or turned so that its rows are.
std::vector<float> widened(const Layout &l, const void *p, bool turn) {
  std::vector<float> to(l.rows * l.columns);
  for (uint64_t column = 0; column < l.columns; column++)
    for (uint64_t row = 0; row < l.rows; row++) {
      const size_t from = column * static_cast<size_t>(l.ld) + row;
      float f;
      if (l.type == float32) f = static_cast<const float *>(p)[from];
      else {
        const uint32_t bits = static_cast<uint32_t>(static_cast<const uint16_t *>(p)[from]) << 16;
        memcpy(&f, &bits, sizeof f);
      }
      to[turn ? row * l.columns + column : column * l.rows + row] = f;
    }
  return to;
}

void put(const Layout &l, void *p, size_t at, float f) {
  if (l.type == float32) {
    static_cast<float *>(p)[at] = f;
    return;
  }
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  const bool number = f == f;
  static_cast<uint16_t *>(p)[at] = static_cast<uint16_t>(number ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16 : bits >> 16 | 64);
}

// multiply sums every element over k upwards.
void multiply(const Desc &p, const Layout &la, const void *pa, const Layout &lb, const void *pb, const Layout &d, const void *pc, void *pd, float alpha, float beta) {
  const size_t M = d.rows, N = d.columns, K = p.op_a ? la.rows : la.columns;
  const std::vector<float> a = widened(la, pa, p.op_a == transposed);   // k columns of m
  const std::vector<float> b = widened(lb, pb, p.op_b == transposed);   // n columns of k
  const std::vector<float> c = beta == 0 ? std::vector<float>() : widened(d, pc, false);
  std::vector<float> sum(M);
  for (size_t n = 0; n < N; n++) {
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (size_t k = 0; k < K; k++)
      for (size_t m = 0; m < M; m++) sum[m] = std::fma(a[k * M + m], b[n * K + k], sum[m]);
    for (size_t m = 0; m < M; m++) {
      const float v = sum[m] * alpha;
      put(d, pd, n * static_cast<size_t>(d.ld) + m, beta == 0 ? v : beta * c[n * M + m] + v);
    }
  }
}

// begin says whether a function may do its work.
Status begin(const char *function) {
  const Result r = begin_call(function);
  if (r == invalid_context) return no_start;
  return soft_device.sticky ? execution_failed : static_cast<Status>(r);
}

#define BEGIN                                               \
  std::lock_guard<std::recursive_mutex> hold(soft_mutex);    \
  if (Status s_ = begin(__func__)) return s_

#define NEEDS(...)                                                       \
  for (const void *p_ : std::initializer_list<const void *>{__VA_ARGS__}) \
    if (!alive.count(p_)) return refuse(__func__, "a handle or description is not there, or no longer")

}  // namespace

extern "C" __attribute__((visibility("default"))) size_t cublasLtGetVersion() { return version; }

LT cublasLtCreate(Handle **h) { BEGIN; handles++; return make(h, 0); }
LT cublasLtDestroy(Handle *h) {
  BEGIN;
  if (Status s = destroy(__func__, h)) return s;
  if (--handles || alive.empty()) return fine;
  return refuse(__func__, "the last handle is destroyed and descriptions are left");
}

LT cublasLtMatmulDescCreate(Desc **d, int compute, int scale) { BEGIN; return make(d, compute, scale); }
LT cublasLtMatmulDescDestroy(Desc *d) { BEGIN; return destroy(__func__, d); }
LT cublasLtMatmulDescSetAttribute(Desc *d, int attribute, const void *value, size_t size) {
  BEGIN;
  NEEDS(d);
  int op;
  if (size != sizeof op || (attribute != keep_a && attribute != keep_b)) return wrong_value;
  memcpy(&op, value, size);
  if (op != plain_matrix && op != transposed) return wrong_value;
  (attribute == keep_a ? d->op_a : d->op_b) = op;
  return fine;
}

LT cublasLtMatrixLayoutCreate(Layout **l, int type, uint64_t rows, uint64_t columns, int64_t ld) { BEGIN; return make(l, type, rows, columns, ld); }
LT cublasLtMatrixLayoutDestroy(Layout *l) { BEGIN; return destroy(__func__, l); }

LT cublasLtMatmulPreferenceCreate(Preference **p) { BEGIN; return make(p); }
LT cublasLtMatmulPreferenceDestroy(Preference *p) { BEGIN; return destroy(__func__, p); }
LT cublasLtMatmulPreferenceSetAttribute(Preference *p, int attribute, const void *value, size_t size) {
  BEGIN;
  NEEDS(p);
  if (attribute == most_workspace && size == sizeof p->workspace) memcpy(&p->workspace, value, size);
  else if (attribute == reductions && size == sizeof p->reductions) memcpy(&p->reductions, value, size);
  else if (attribute >= align_first && attribute <= align_last && size == 4) memcpy(&p->alignment[attribute - align_first], value, size);
  else return wrong_value;
  return fine;
}

// There is one algorithm. It is refused to a program that would let sums be added where they lie, in no order.
LT cublasLtMatmulAlgoGetHeuristic(Handle *h, Desc *d, Layout *a, Layout *b, Layout *c, Layout *to, Preference *p, int wanted, Heuristic *found, int *count) {
  BEGIN;
  NEEDS(h, d, a, b, c, to, p);
  *count = 0;
  if (wanted < 1 || !fits(*d, *a, *b, *c, *to)) return refuse(__func__, "the matrices do not fit their product");
  if (p->reductions & 1) return refuse(__func__, "reductions in place are allowed");
  if (!supported(*d, *a, *b, *to)) return not_supported;
  Heuristic one = {};
  one.algorithm.product = name_of(*d, {a, b, to});
  one.algorithm.workspace = one.workspace = std::min<uint64_t>(p->workspace, 4096);
  for (int i = 0; i < 4; i++) one.algorithm.alignment[i] = p->alignment[i];
  *found = one;
  *count = 1;
  return fine;
}

LT cublasLtMatmul(Handle *h, Desc *d, const float *alpha, const void *pa, Layout *a, const void *pb, Layout *b, const float *beta, const void *pc,
                  Layout *c, void *pd, Layout *to, const Algorithm *algorithm, void *workspace, size_t size, Stream *stream) {
  BEGIN;
  NEEDS(h, d, a, b, c, to);
  if (!known(stream)) return refuse(__func__, "the stream is not, or no longer, one of this device");
  if (!fits(*d, *a, *b, *c, *to)) return refuse(__func__, "the matrices do not fit their product");
  if (algorithm->product != name_of(*d, {a, b, to})) return refuse(__func__, "the algorithm is that of another product");
  const void *addresses[] = {pa, pb, pc, pd};
  const Layout *layouts[] = {a, b, c, to};
  for (int i = 0; i < 4; i++) {
    const auto at = reinterpret_cast<uint64_t>(addresses[i]);
    if (outside(__func__, at, bytes(*layouts[i]))) return wrong_value;
    if (at % algorithm->alignment[i]) return refuse(__func__, "a matrix is less aligned than was promised");
  }
  const size_t used = algorithm->workspace;
  if (size < used || outside(__func__, reinterpret_cast<uint64_t>(workspace), used)) return refuse(__func__, "the workspace is too small");
  const Desc product = *d;
  const Layout la = *a, lb = *b, ld = *to;
  const float by = *alpha, plus = *beta;
  const Result r = soft_device.submit(stream, {[=] {
    memset(workspace, 0xff, used);
    multiply(product, la, pa, lb, pb, ld, pc, pd, by, plus);
    return success;
  }, nullptr});
  return r ? execution_failed : fine;
}
