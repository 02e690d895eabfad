#include "fiber.h"

#include <sys/mman.h>

#include <cstdlib>
#include <vector>

#ifdef SOFT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef SOFT_TSAN
extern "C" {
void *__tsan_get_current_fiber();
void *__tsan_create_fiber(unsigned);
void __tsan_switch_to_fiber(void *, unsigned);
void __tsan_acquire(void *);
void __tsan_release(void *);
}
#endif

soft_thread *soft_cur;
soft_block soft_blk;
bool soft_cp_early;

// soft_switch(save, load) keeps the callee-saved registers on the stack, stores the stack pointer in *save
// and continues with the stack pointer load.
extern "C" void soft_switch(void **save, void *load);
#if defined(__x86_64__)
asm(R"(
.text
.globl soft_switch
.type soft_switch,@function
soft_switch:
  pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
  ret
.size soft_switch, .-soft_switch
)");
constexpr int saved_words = 6;    // below the return address
constexpr int return_word = 6;    // where it lies
constexpr int frame_words = 8;    // one word above keeps the stack aligned as after a call
#elif defined(__aarch64__)
asm(R"(
.text
.globl soft_switch
.type soft_switch,%function
soft_switch:
  sub sp, sp, #160
  stp x19, x20, [sp]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size soft_switch, .-soft_switch
)");
constexpr int saved_words = 20;
constexpr int return_word = 11;
constexpr int frame_words = 20;
#else
#error "the software device knows how to switch stacks on x86-64 and arm64 only"
#endif

static void *launcher_stack_pointer;
#ifdef SOFT_ASAN
static const void *launcher_bottom;
static size_t launcher_size;
static bool left_launcher;  // the switch under way leaves the launcher
#endif
#ifdef SOFT_TSAN
static void *launcher_tsan;
#endif

// fresh_stack maps a stack whose lowest page faults.
static char *fresh_stack() {
  void *p = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED || mprotect(p, 4096, PROT_NONE)) abort();
  return static_cast<char *>(p);
}

Fiber *fiber(size_t i) {
  static auto &pool = *new std::vector<Fiber *>;  // never destroyed: launches may run while the program exits
  while (pool.size() <= i) {
    auto *f = new Fiber();
    f->stack = fresh_stack();
#ifdef SOFT_TSAN
    f->tsan = __tsan_create_fiber(0);
#endif
    pool.push_back(f);
  }
  return pool[i];
}

void prepare(Fiber *f, size_t i, void (*entry)()) {
  // Tops of stacks are staggered: at equal distances of 2^n they share the lines of the cache.
  auto **top = reinterpret_cast<void **>(f->stack + stack_bytes - 64 - (i % 61) * 1088);
  void **frame = top - frame_words;
  for (int j = 0; j < saved_words; j++) frame[j] = nullptr;
  frame[return_word] = reinterpret_cast<void *>(entry);
  f->stack_pointer = frame;
  f->state = State::ready;
#ifdef SOFT_ASAN
  // The thread that ran here before never returned from its last frames, whose redzones would stay.
  ASAN_UNPOISON_MEMORY_REGION(reinterpret_cast<char *>(top) - 8192, 8192);
#endif
}

void switch_to(Fiber *from, Fiber *to) {
  void **save = from ? &from->stack_pointer : &launcher_stack_pointer;
  void *load = to ? to->stack_pointer : launcher_stack_pointer;
  soft_cur = to;
#ifdef SOFT_ASAN
  void *fake = nullptr;
  left_launcher = !from;
  __sanitizer_start_switch_fiber(from && from->state == State::done ? nullptr : &fake,
                                 to ? static_cast<const void *>(to->stack) : launcher_bottom, to ? stack_bytes : launcher_size);
#endif
#ifdef SOFT_TSAN
  if (!from) launcher_tsan = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(to ? to->tsan : launcher_tsan, 1);  // 1: the switch itself orders nothing
#endif
  soft_switch(save, load);
#ifdef SOFT_ASAN
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

void entered() {
#ifdef SOFT_ASAN
  const void *bottom;
  size_t size;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &size);
  if (left_launcher) { launcher_bottom = bottom; launcher_size = size; }
#endif
}

void published([[maybe_unused]] void *sync) {
#ifdef SOFT_TSAN
  __tsan_release(sync);
#endif
}

void seen([[maybe_unused]] void *sync) {
#ifdef SOFT_TSAN
  __tsan_acquire(sync);
#endif
}
