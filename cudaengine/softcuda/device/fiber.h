// fiber.h - CUDA threads as fibers of one operating system thread, with what the sanitizers must be told.
#pragma once
#include "soft.h"

// SOFT_ASAN and SOFT_TSAN: this build runs kernels under that sanitizer. For TSan the device itself is not
// instrumented (-DSOFT_TSAN says so), because its scheduler would order what the kernel leaves unordered.
#if defined(__SANITIZE_ADDRESS__)
#define SOFT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SOFT_ASAN 1
#endif
#endif

enum class State { ready, at_warp, at_block, done };

// Fiber is a thread of the running block with its stack.
struct Fiber : soft_thread {
  State state = State::done;
  const char *what = nullptr;  // the warp operation that it waits at
  void *operand = nullptr;     // what it handed over there
  unsigned block_barriers = 0, warp_barriers = 0;  // that it has reached
  void *stack_pointer = nullptr;
  char *stack = nullptr;
  void *tsan = nullptr;
};

constexpr size_t stack_bytes = 256 << 10;

// fiber returns fiber i of the pool; it and its stack are made when first asked for and never freed.
Fiber *fiber(size_t i);
// prepare makes a fiber start at entry when it is next switched to.
void prepare(Fiber *f, size_t i, void (*entry)());
// switch_to leaves `from` and continues `to`; null is the launcher. A fiber that is done never returns.
void switch_to(Fiber *from, Fiber *to);
// entered must be the first call of a fiber's entry.
void entered();
// published and seen order memory for the race detector: what one thread did before published(sync) is
// visible to those that call seen(sync) later.
void published(void *sync);
void seen(void *sync);
