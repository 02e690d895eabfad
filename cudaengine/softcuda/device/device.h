// device.h - memory, streams and events of the software device, below the driver API.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "grid.h"
#include "options.h"

// Result is a CUresult; the values are those of the driver API.
enum Result : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  no_device = 100,
  invalid_device = 101,
  invalid_image = 200,
  invalid_context = 201,
  invalid_handle = 400,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  misaligned_address = 716,
  launch_failed = 719,
  unknown = 999,
};

// Mark is one recording of an event: done when its stream has come past it.
struct Stream;
struct Mark {
  bool done = false;
  Stream *stream = nullptr;
};

struct Event {
  std::shared_ptr<Mark> mark;  // null: never recorded
};

// Operation is an entry of a stream: something to run, or a mark to wait for.
struct Operation {
  std::function<Result()> run;
  std::shared_ptr<Mark> wait;
};

struct Stream {
  std::deque<Operation> queue;
  bool blocking = true;  // it and the null stream wait for each other
};

// Module is a loaded image; its kernels are those that the image names and the device has registered.
struct Module {
  std::string image;
};

// Function is a kernel of a module.
struct Function {
  const Kernel *kernel;
  Module *module;
  unsigned max_shared = 48 << 10;  // dynamic shared memory that a launch may ask for, in bytes
};

// Range is a piece of memory.
struct Range {
  std::map<uintptr_t, size_t> pieces;  // start to length in bytes

  // holds reports whether n bytes from p lie in one piece.
  bool holds(uintptr_t p, size_t n) const;
};

// Device is the state of the one device and its primary context.
class Device {
 public:
  int retained = 0;         // how often the primary context is held
  Result sticky = success;  // the error after which nothing works until the context is released
  Range memory, pinned;
  size_t used = 0;  // bytes of device memory
  std::set<Stream *> streams;
  std::set<Event *> events;
  std::set<Module *> modules;
  std::set<Function *> functions;

  // capacity is the device's memory in bytes (SOFTCUDA_MEMORY).
  size_t capacity() const;
  Result allocate(size_t bytes, uint64_t *pointer);
  Result release(uint64_t pointer);
  Result pin(size_t bytes, void **pointer);
  Result unpin(void *pointer);

  // submit appends an operation to a stream (null: the null stream) and runs what the mode runs at once.
  Result submit(Stream *s, Operation o);
  // finish runs everything in a stream, in several, or up to a mark.
  Result finish(Stream *s);
  Result finish_blocking();
  Result finish_all();
  Result finish_mark(const std::shared_ptr<Mark> &m);
  // idle reports whether a stream has nothing left.
  bool idle(Stream *s);

  // leaks names what is still held; reset frees it all and forgets the sticky error.
  std::string leaks() const;
  void reset();

 private:
  Stream null_;
  Dice dice_;

  Result step(Stream *s);
  Result wander();
};

// complain says on standard error what a program did wrong.
void complain(const std::string &what);
