// products.h - products of matrices by NVIDIA's library cuBLASLt, opened at run time.
#pragma once
#include <stddef.h>
#include <stdint.h>

// andrea_shape is C[m,n] = A·B of matrices that lie row by row: A is [m,k], or [k,m] if it is turned; B is [k,n], or
// [n,k] if it is turned. ld* are the elements from one row to the next.
struct andrea_shape {
  int64_t m, n, k, lda, ldb, ldc;
  int32_t turn_a, turn_b;
  int32_t half_in, half_out;             // bfloat16 instead of float32
  uint32_t align_a, align_b, align_c;    // bytes that the addresses are multiples of
};

// andrea_product is a shape that has been planned: the library's descriptions, and the algorithm that is used from then on.
struct andrea_product {
  void *operation, *a, *b, *c;
  uint64_t algorithm[8];
};

// andrea_products_load opens the library once: what ANDREA_CUBLASLT_LIBRARY names, or libcublasLt.so.13 or .12. It returns 0, or
// -1 when there is none or it lacks a function; why then says so, in at most size bytes. One thread at a time.
int andrea_products_load(char *why, size_t size);

// andrea_products_version is the library's, such as 130002 for 13.0.2.
size_t andrea_products_version(void);

// These return 0 or a cublasStatus_t; *call is then the function that failed.
int andrea_products_create(void **handle, const char **call);
int andrea_products_destroy(void *handle, const char **call);
int andrea_product_plan(void *handle, const struct andrea_shape *shape, size_t workspace, struct andrea_product *product, const char **call);
int andrea_product_release(struct andrea_product *product, const char **call);
// andrea_product_run queues C = A·B, or with add C = C + A·B.
int andrea_product_run(void *handle, const struct andrea_product *product, uint64_t c, uint64_t a, uint64_t b, int add, uint64_t workspace, size_t size, void *stream,
                       const char **call);
