//go:build cuda && cgo && linux

// products.c - see products.h. The library counts matrices column by column; a matrix that lies row by row is its transpose
// there. So it is asked for Cᵀ = Bᵀ·Aᵀ: its first matrix is our B, its second one our A.
#define _GNU_SOURCE
#include "products.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Numbers of cublasLt.h, the same in versions 12 and 13.
enum { TYPE_FLOAT32 = 0, TYPE_BFLOAT16 = 14 };
enum { COMPUTE_FLOAT32 = 68 };  // not by way of TF32 or bfloat16
enum { FIRST_OPERATION = 3, SECOND_OPERATION = 4, TRANSPOSED = 1 };
enum { MOST_WORKSPACE = 1, REDUCTION_MASK = 3, ALIGNMENT = 5 };
enum { REDUCTIONS_IN_WORKSPACE = 2 };  // of float32, in a fixed order; not where others add, in any
enum { STATUS_NOT_SUPPORTED = 15 };

struct heuristic {
  uint64_t algorithm[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

#define FUNCTIONS(F)                                                                                                              \
  F(size_t, GetVersion, (void))                                                                                                   \
  F(int, Create, (void **))                                                                                                       \
  F(int, Destroy, (void *))                                                                                                       \
  F(int, MatmulDescCreate, (void **, int, int))                                                                                   \
  F(int, MatmulDescDestroy, (void *))                                                                                             \
  F(int, MatmulDescSetAttribute, (void *, int, const void *, size_t))                                                             \
  F(int, MatrixLayoutCreate, (void **, int, uint64_t, uint64_t, int64_t))                                                         \
  F(int, MatrixLayoutDestroy, (void *))                                                                                           \
  F(int, MatmulPreferenceCreate, (void **))                                                                                       \
  F(int, MatmulPreferenceDestroy, (void *))                                                                                       \
  F(int, MatmulPreferenceSetAttribute, (void *, int, const void *, size_t))                                                       \
  F(int, MatmulAlgoGetHeuristic, (void *, void *, void *, void *, void *, void *, void *, int, struct heuristic *, int *))        \
  F(int, Matmul,                                                                                                                  \
    (void *, void *, const void *, const void *, void *, const void *, void *, const void *, const void *, void *, void *, void *, \
     const uint64_t *, void *, size_t, void *))

#define DECLARE(result, name, parameters) static result(*name) parameters;
FUNCTIONS(DECLARE)

#define FIND(result, name, parameters)                                \
  if (!(name = (result(*) parameters)dlsym(library, "cublasLt" #name))) { \
    snprintf(why, size, "%s has no function cublasLt" #name, path);   \
    dlclose(library);                                                 \
    return -1;                                                        \
  }

static int find_all(void *library, const char *path, char *why, size_t size) {
  FUNCTIONS(FIND)
  return 0;
}

int andrea_products_load(char *why, size_t size) {
  static int loaded;
  if (loaded) return 0;
  const char *wish = getenv("ANDREA_CUBLASLT_LIBRARY");
  const char *tried[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
  if (wish && *wish) tried[0] = wish, tried[1] = NULL;
  size_t said = 0;
  for (int i = 0; tried[i]; i++) {
    void *library = dlopen(tried[i], RTLD_NOW | RTLD_LOCAL);
    if (library) {
      if (find_all(library, tried[i], why, size)) return -1;
      loaded = 1;
      return 0;
    }
    const int n = snprintf(why + said, size - said, "%s%s", said ? "; " : "", dlerror());
    if (n > 0) said = said + (size_t)n < size ? said + (size_t)n : size - 1;
  }
  return -1;
}

size_t andrea_products_version(void) { return GetVersion(); }

// TRY leaves the function with the status of a call that failed.
#define TRY(name, ...)                                       \
  do {                                                       \
    const int status_ = name(__VA_ARGS__);                   \
    if (status_) {                                           \
      *call = "cublasLt" #name;                              \
      return status_;                                        \
    }                                                        \
  } while (0)

int andrea_products_create(void **handle, const char **call) {
  TRY(Create, handle);
  return 0;
}

int andrea_products_destroy(void *handle, const char **call) {
  TRY(Destroy, handle);
  return 0;
}

static int describe(const struct andrea_shape *s, struct andrea_product *p, const char **call) {
  const int in = s->half_in ? TYPE_BFLOAT16 : TYPE_FLOAT32, out = s->half_out ? TYPE_BFLOAT16 : TYPE_FLOAT32;
  const int32_t first = s->turn_b ? TRANSPOSED : 0, second = s->turn_a ? TRANSPOSED : 0;
  TRY(MatmulDescCreate, &p->operation, COMPUTE_FLOAT32, TYPE_FLOAT32);
  TRY(MatmulDescSetAttribute, p->operation, FIRST_OPERATION, &first, sizeof first);
  TRY(MatmulDescSetAttribute, p->operation, SECOND_OPERATION, &second, sizeof second);
  TRY(MatrixLayoutCreate, &p->b, in, (uint64_t)(s->turn_b ? s->k : s->n), (uint64_t)(s->turn_b ? s->n : s->k), s->ldb);
  TRY(MatrixLayoutCreate, &p->a, in, (uint64_t)(s->turn_a ? s->m : s->k), (uint64_t)(s->turn_a ? s->k : s->m), s->lda);
  TRY(MatrixLayoutCreate, &p->c, out, (uint64_t)s->n, (uint64_t)s->m, s->ldc);
  return 0;
}

static int prefer(void *preference, const struct andrea_shape *s, size_t workspace, const char **call) {
  const uint64_t most = workspace;
  const uint32_t reductions = REDUCTIONS_IN_WORKSPACE;
  const uint32_t alignment[4] = {s->align_b, s->align_a, s->align_c, s->align_c};
  TRY(MatmulPreferenceSetAttribute, preference, MOST_WORKSPACE, &most, sizeof most);
  TRY(MatmulPreferenceSetAttribute, preference, REDUCTION_MASK, &reductions, sizeof reductions);
  for (int i = 0; i < 4; i++) TRY(MatmulPreferenceSetAttribute, preference, ALIGNMENT + i, &alignment[i], sizeof alignment[i]);
  return 0;
}

static int choose(void *handle, void *preference, struct andrea_product *p, const char **call) {
  struct heuristic found;
  int count = 0;
  TRY(MatmulAlgoGetHeuristic, handle, p->operation, p->b, p->a, p->c, p->c, preference, 1, &found, &count);
  if (count < 1 || found.state) {
    *call = "cublasLtMatmulAlgoGetHeuristic";
    return count < 1 ? STATUS_NOT_SUPPORTED : found.state;
  }
  memcpy(p->algorithm, found.algorithm, sizeof p->algorithm);
  return 0;
}

int andrea_product_plan(void *handle, const struct andrea_shape *shape, size_t workspace, struct andrea_product *product, const char **call) {
  void *preference = NULL;
  int status = describe(shape, product, call);
  if (status) return status;
  TRY(MatmulPreferenceCreate, &preference);
  status = prefer(preference, shape, workspace, call);
  if (!status) status = choose(handle, preference, product, call);
  const int kept = MatmulPreferenceDestroy(preference);
  if (!status && kept) *call = "cublasLtMatmulPreferenceDestroy";
  return status ? status : kept;
}

int andrea_product_release(struct andrea_product *p, const char **call) {
  if (p->c) TRY(MatrixLayoutDestroy, p->c);
  if (p->a) TRY(MatrixLayoutDestroy, p->a);
  if (p->b) TRY(MatrixLayoutDestroy, p->b);
  if (p->operation) TRY(MatmulDescDestroy, p->operation);
  return 0;
}

int andrea_product_run(void *handle, const struct andrea_product *p, uint64_t c, uint64_t a, uint64_t b, int add, uint64_t workspace, size_t size, void *stream,
                       const char **call) {
  const float one = 1, old = add ? 1 : 0;
  TRY(Matmul, handle, p->operation, &one, (void *)b, p->b, (void *)a, p->a, &old, (void *)c, p->c, (void *)c, p->c, p->algorithm, (void *)workspace, size, stream);
  return 0;
}
