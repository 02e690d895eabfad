#include "grid.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include "fiber.h"
#include "options.h"

namespace {

constexpr unsigned max_warps = 32;

std::map<std::string, Kernel *> &kernels() {
  static auto &m = *new std::map<std::string, Kernel *>;  // registered before main, used while exiting
  return m;
}

// The running launch.
void (*run_kernel)(void **);
void **parameters;
std::string fault;

// The running block.
std::vector<Fiber *> order;  // its threads in the order in which they run
size_t position;             // of the running thread in it
unsigned threads, alive, at_block;
unsigned at_warp[max_warps];
// Addresses that the race detector knows barriers by. Barriers take turns with two: a thread that is already at the
// next one must not be taken for having finished before one that still leaves the last.
char start_sync, block_sync[2], warp_sync[max_warps][2], end_sync;

Fiber *self() { return static_cast<Fiber *>(soft_cur); }

// run_next continues another thread that is ready, in order from the running one, or the launcher when none is.
void run_next(Fiber *me) {
  for (size_t i = 1; i <= order.size(); i++) {
    size_t j = (position + i) % order.size();
    if (order[j]->state != State::ready) continue;
    position = j;
    if (order[j] != me) switch_to(me, order[j]);
    return;
  }
  if (alive) soft_fault("threads of one block wait for each other at different barriers");
  switch_to(me, nullptr);
}

// release_block wakes the threads at the block's barrier once every living one has arrived.
bool release_block() {
  if (!at_block || at_block != alive) return false;
  for (Fiber *f : order)
    if (f->state == State::at_block) f->state = State::ready;
  at_block = 0;
  return true;
}

void thread_main() {
  entered();
  seen(&start_sync);
  Fiber *me = self();
  run_kernel(parameters);
  published(&end_sync);
  me->state = State::done;
  alive--;
  release_block();  // an exited thread counts as arrived, as on the device
  run_next(me);
  abort();  // a thread that is done is never continued
}

// place sets what thread i knows of itself.
void place(Fiber *f, unsigned i, dim3_t block) {
  f->tid = {i % block.x, i / block.x % block.y, i / (block.x * block.y)};
  f->lane = i % 32;
  f->warp = i / 32;
  f->ncopies = f->group = 0;
  f->block_barriers = f->warp_barriers = 0;
}

// shuffle puts the threads into the order that SOFTCUDA_ORDER asks for: fwd, rev or rand:SEED.
void shuffle() {
  static Dice dice;
  const std::string how = option("SOFTCUDA_ORDER", "fwd");
  if (how == "rev") {
    std::vector<Fiber *>(order.rbegin(), order.rend()).swap(order);
  } else if (dice.seeded(how)) {
    for (size_t i = order.size() - 1; i > 0; i--) std::swap(order[i], order[dice.below(static_cast<unsigned>(i) + 1)]);
  }
}

void run_block(const Geometry &g, dim3_t block, unsigned char *shared) {
  memset(shared, 0xff, g.shared);  // NaN: reading what nobody wrote shows up
  soft_blk = {block, g.block, g.grid, shared, g.shared};
  order.clear();
  for (unsigned i = 0; i < threads; i++) {
    Fiber *f = fiber(i);
    place(f, i, g.block);
    prepare(f, i, thread_main);
    order.push_back(f);
  }
  shuffle();
  memset(at_warp, 0, sizeof at_warp);
  alive = threads;
  at_block = 0;
  position = 0;
  published(&start_sync);
  switch_to(nullptr, order[0]);
  seen(&end_sync);
}

// rendezvous waits for the other lanes of the warp; the last one runs compute.
template <class Compute>
void rendezvous(const char *what, void *operand, Compute compute) {
  Fiber *me = self();
  const unsigned w = me->warp;
  if ((w + 1) * 32 > threads) {
    soft_fault("a warp operation in a warp of fewer than 32 threads");
    return;
  }
  me->what = what;
  me->operand = operand;
  if (++at_warp[w] < 32) {
    me->state = State::at_warp;
    run_next(me);
    return;
  }
  at_warp[w] = 0;
  void *lanes[32];
  for (unsigned i = 0; i < 32; i++) {
    Fiber *f = fiber(w * 32 + i);
    if (f->what != what && strcmp(f->what, what) != 0) soft_fault("lanes of one warp meet at different operations");
    lanes[i] = f->operand;
    f->state = State::ready;
  }
  if (fault.empty()) compute(lanes);
}

}  // namespace

Kernel *find_kernel(const std::string &name) {
  auto it = kernels().find(name);
  return it == kernels().end() ? nullptr : it->second;
}

void soft_register(const char *name, void (*run)(void **), const unsigned *sizes, unsigned n) {
  kernels()[name] = new Kernel{name, run, std::vector<unsigned>(sizes, sizes + n)};
}

void soft_fault(const char *what) {
  if (fault.empty()) fault = what;
}

void soft_syncthreads() {
  char *sync = &block_sync[self()->block_barriers++ % 2];
  published(sync);
  at_block++;
  if (!release_block()) {
    self()->state = State::at_block;
    run_next(self());
  }
  seen(sync);
}

void soft_syncwarp(unsigned) {
  char *sync = &warp_sync[self()->warp][self()->warp_barriers++ % 2];
  published(sync);
  rendezvous("bar.warp.sync", nullptr, [](void *const *) {});
  seen(sync);
}

void soft_collective(const char *what, void *operand, void (*compute)(void *const lanes[32])) {
  rendezvous(what, operand, compute);
}

Outcome run_grid(const Kernel &k, const Geometry &g, void **params) {
  run_kernel = k.run;
  parameters = params;
  fault.clear();
  soft_cp_early = option("SOFTCUDA_CP", "late") == "early";
  threads = g.block.x * g.block.y * g.block.z;
  void *shared = nullptr;
  if (posix_memalign(&shared, 1024, g.shared ? g.shared : 1)) return {"no host memory for shared memory", Access::good};
  const Access access = guarded([&] {
    for (unsigned z = 0; z < g.grid.z && fault.empty(); z++)
      for (unsigned y = 0; y < g.grid.y && fault.empty(); y++)
        for (unsigned x = 0; x < g.grid.x && fault.empty(); x++) run_block(g, {x, y, z}, static_cast<unsigned char *>(shared));
  });
  free(shared);
  if (access == Access::illegal) fault = "access to memory that does not exist";
  if (access == Access::misaligned) fault = "access to a misaligned address";
  return {fault.empty() ? "" : k.name + ": " + fault, access};
}
