// trampoline.c - the CUDA driver's functions as jumps through pointers. They lead nowhere until andrea_cuda_load has
// opened the driver's library; until then every call fails as "not initialized", except that cuInit seems to
// succeed, because gorgonia.org/cu ends the process in its init function otherwise.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int not_initialized(void) { return 3; }  // CUDA_ERROR_NOT_INITIALIZED
static int init_later(unsigned flags) { return (void)flags, 0; }
static int missing(void) { return 500; }  // CUDA_ERROR_NOT_FOUND: this driver is too old to have the function

#if defined(__x86_64__)
#define JUMP(name) "jmp *trampoline_" #name "(%rip)\n"
#elif defined(__aarch64__)
#define JUMP(name) "adrp x16, trampoline_" #name "\nldr x16, [x16, #:lo12:trampoline_" #name "]\nbr x16\n"
#else
#error "CUDA builds are for x86-64 and arm64"
#endif

#define SYMBOL(name)                                              \
  __attribute__((visibility("hidden"))) void *trampoline_##name = (void *)not_initialized; \
  __asm__(".text\n.globl " #name "\n.type " #name ", %function\n" #name ":\n" JUMP(name) ".size " #name ", .-" #name "\n");
#include "symbols.inc"
#undef SYMBOL

#define SYMBOL(name) {#name, &trampoline_##name},
static const struct { const char *name; void **target; } symbols[] = {
#include "symbols.inc"
};
#undef SYMBOL

__attribute__((constructor)) static void start(void) { trampoline_cuInit = (void *)init_later; }

// andrea_cuda_load opens the driver's library (libcuda.so.1, or what ANDREA_CUDA_LIBRARY names) and initializes it.
// It returns 0 or a CUDA error code, or -1 when there is no library; why then says what the loader said, in at most
// size bytes. It may be called again after a failure, by one thread at a time.
int andrea_cuda_load(char *why, size_t size) {
  const char *wish = getenv("ANDREA_CUDA_LIBRARY");
  const char *path = wish && *wish ? wish : "libcuda.so.1";
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    snprintf(why, size, "%s", dlerror());
    return -1;
  }
  int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
  if (!init) {
    snprintf(why, size, "%s has no function cuInit", path);
    return -1;
  }
  int code = init(0);
  if (code) return code;
  for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
    void *found = dlsym(library, symbols[i].name);
    *symbols[i].target = found ? found : (void *)missing;
  }
  return 0;
}
