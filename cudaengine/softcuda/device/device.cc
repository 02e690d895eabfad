#include "device.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

void complain(const std::string &what) { fprintf(stderr, "softcuda: %s\n", what.c_str()); }

bool Range::holds(uintptr_t p, size_t n) const {
  auto next = pieces.upper_bound(p);
  if (next == pieces.begin()) return false;
  auto piece = std::prev(next);
  return p - piece->first <= piece->second && n <= piece->second - (p - piece->first);
}

size_t Device::capacity() const { return strtoull(option("SOFTCUDA_MEMORY", "1073741824").c_str(), nullptr, 10); }

Result Device::allocate(size_t bytes, uint64_t *pointer) {
  if (!bytes) return invalid_value;
  void *p;
  if (bytes > capacity() - used || posix_memalign(&p, 512, bytes)) return out_of_memory;
  memset(p, 0xff, bytes);  // NaN in every precision: use of what nobody wrote shows up
  used += bytes;
  memory.pieces[reinterpret_cast<uintptr_t>(p)] = bytes;
  *pointer = reinterpret_cast<uintptr_t>(p);
  return success;
}

Result Device::release(uint64_t pointer) {
  auto piece = memory.pieces.find(pointer);
  if (piece == memory.pieces.end()) {
    complain("a pointer is freed that is no allocation");
    return invalid_value;
  }
  const Result r = finish_all();
  used -= piece->second;
  free(reinterpret_cast<void *>(piece->first));
  memory.pieces.erase(piece);
  return r;
}

Result Device::pin(size_t bytes, void **pointer) {
  if (!bytes) return invalid_value;
  if (posix_memalign(pointer, 4096, bytes)) return out_of_memory;
  memset(*pointer, 0xff, bytes);
  pinned.pieces[reinterpret_cast<uintptr_t>(*pointer)] = bytes;
  return success;
}

Result Device::unpin(void *pointer) {
  if (!pinned.pieces.count(reinterpret_cast<uintptr_t>(pointer))) {
    complain("host memory is unpinned that is not pinned");
    return invalid_value;
  }
  const Result r = finish_all();
  pinned.pieces.erase(reinterpret_cast<uintptr_t>(pointer));
  free(pointer);
  return r;
}

Result Device::submit(Stream *s, Operation o) {
  if (sticky) return sticky;
  if (!s) {
    if (Result r = finish_blocking()) return r;
    null_.queue.push_back(std::move(o));
    return finish(&null_);
  }
  s->queue.push_back(std::move(o));
  const std::string mode = option("SOFTCUDA_STREAMS", "eager");
  if (mode == "lazy") return success;
  return dice_.seeded(mode) ? wander() : finish(s);
}

// wander runs a few operations of streams drawn by chance: any interleaving that the events allow.
Result Device::wander() {
  for (unsigned n = dice_.below(3); n > 0; n--) {
    auto s = streams.begin();
    std::advance(s, dice_.below(static_cast<unsigned>(streams.size())));
    if (!(*s)->queue.empty())
      if (Result r = step(*s)) return r;
  }
  return success;
}

// step runs the first operation of a stream, and before it what that waits for.
Result Device::step(Stream *s) {
  if (sticky) return sticky;
  Operation o = std::move(s->queue.front());
  s->queue.pop_front();
  Result r = o.wait ? finish_mark(o.wait) : o.run();
  if (r) sticky = r;
  return r;
}

Result Device::finish(Stream *s) {
  while (!s->queue.empty())
    if (Result r = step(s)) return r;
  return sticky;
}

Result Device::finish_blocking() {
  for (Stream *s : streams)
    if (s->blocking)
      if (Result r = finish(s)) return r;
  return finish(&null_);
}

Result Device::finish_all() {
  for (Stream *s : streams)
    if (Result r = finish(s)) return r;
  return finish(&null_);
}

Result Device::finish_mark(const std::shared_ptr<Mark> &m) {
  while (m && !m->done)
    if (Result r = step(m->stream ? m->stream : &null_)) return r;
  return sticky;
}

bool Device::idle(Stream *s) { return s ? s->queue.empty() : null_.queue.empty(); }

std::string Device::leaks() const {
  std::string list;
  auto count = [&](size_t n, const char *what) {
    if (n) list += (list.empty() ? "" : ", ") + std::to_string(n) + " " + what;
  };
  count(memory.pieces.size(), "allocations of device memory");
  count(pinned.pieces.size(), "allocations of pinned memory");
  count(streams.size(), "streams");
  count(events.size(), "events");
  count(modules.size(), "modules");
  return list;
}

void Device::reset() {
  for (const auto &p : memory.pieces) free(reinterpret_cast<void *>(p.first));
  for (const auto &p : pinned.pieces) free(reinterpret_cast<void *>(p.first));
  for (Stream *s : streams) delete s;
  for (Event *e : events) delete e;
  for (Function *f : functions) delete f;
  for (Module *m : modules) delete m;
  const Result last = option("SOFTCUDA_STUCK", "").empty() ? success : sticky;
  *this = Device();
  sticky = last;
}
