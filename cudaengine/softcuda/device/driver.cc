// driver.cc - the functions of the CUDA driver API that the project calls, as libcuda.so.1 exports them.
// Whatever a program may not do is refused, and said on standard error where the error code alone would not tell.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "api.h"
#include "recorder.h"

#define API extern "C" __attribute__((visibility("default"))) Result

std::recursive_mutex soft_mutex;
Device &soft_device = *new Device;  // never destroyed: programs may call while they exit

namespace {

using Address = unsigned long long;

Device &device = soft_device;

struct Context {};

Context primary;
thread_local Context *current;

// stays reports whether a context is unusable after an error.
bool stays(Result code) { return code == illegal_address || code == misaligned_address || code == launch_failed || code == unknown; }

// injected returns the error that SOFTCUDA_FAIL=FUNCTION:N:CODE asks for at the Nth call of a function from
// the moment the variable was set, and success otherwise. With :FILE behind it only the process fails that creates FILE.
Result injected(const char *function) {
  static std::string wish;
  static unsigned long calls;
  const std::string now = option("SOFTCUDA_FAIL", "");
  if (now != wish) { wish = now; calls = 0; }
  const size_t name = strlen(function);
  if (wish.compare(0, name, function) != 0 || wish.size() <= name || wish[name] != ':') return success;
  char *rest;
  const unsigned long at = strtoul(wish.c_str() + name + 1, &rest, 10);
  if (++calls != at || *rest != ':') return success;
  const auto code = static_cast<Result>(strtol(rest + 1, &rest, 10));
  if (*rest == ':') {
    const int file = open(rest + 1, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (file < 0) return success;
    close(file);
  }
  if (stays(code)) device.sticky = code;
  return code;
}

Result bad_handle(const char *function) {
  complain(std::string(function) + ": the handle is not, or no longer, one of this device");
  return invalid_handle;
}

void *pointer(Address a) { return reinterpret_cast<void *>(a); }

// pageable complains about host memory that the device may not read or write later.
bool pageable(const char *function, const void *p, size_t n) {
  if (device.pinned.holds(reinterpret_cast<uintptr_t>(p), n)) return false;
  complain(std::string(function) + ": the host memory of an asynchronous copy is not pinned");
  return true;
}

Result submit_copy(Stream *s, void *to, const void *from, size_t n) {
  return device.submit(s, {[=] { memmove(to, from, n); return success; }, nullptr});
}

// entry_of reports whether a PTX image has a kernel.
bool entry_of(const std::string &image, const std::string &name) {
  const std::string entry = ".entry " + name;
  for (size_t at = image.find(entry); at != std::string::npos; at = image.find(entry, at + 1)) {
    const char after = image[at + entry.size()];
    if (after == '(' || after == ' ' || after == '\n') return true;
  }
  return false;
}

// devices is how many devices the driver lists. They are one and the same, so that a process should open one.
int devices() { return atoi(option("SOFTCUDA_DEVICES", "1").c_str()); }

}  // namespace

Result begin_call(const char *function) {
  if (!current || !device.retained) return invalid_context;
  if (Result r = injected(function)) return r;
  return device.sticky;
}

bool known(Stream *s) { return !s || device.streams.count(s); }

bool outside(const char *function, Address a, size_t n) {
  if (device.memory.holds(a, n)) return false;
  complain(std::string(function) + ": " + std::to_string(n) + " bytes do not lie in one allocation of device memory");
  return true;
}

#define ENTER                                              \
  std::lock_guard<std::recursive_mutex> hold(soft_mutex);   \
  if (Result r_ = begin_call(__func__)) return r_

// Devices and the context.

API cuInit(unsigned) { return devices() == 0 ? no_device : success; }
API cuDriverGetVersion(int *v) { *v = 13000; return success; }
API cuDeviceGetCount(int *n) { *n = devices(); return success; }
API cuDeviceGet(int *d, int i) { *d = i; return i >= 0 && i < devices() ? success : invalid_device; }
API cuDeviceGetName(char *s, int n, int) { snprintf(s, static_cast<size_t>(n), "software CUDA device"); return success; }
API cuDeviceTotalMem_v2(size_t *n, int) { *n = device.capacity(); return success; }

API cuDeviceGetAttribute(int *v, int attribute, int) {
  const std::string capability = option("SOFTCUDA_CAPABILITY", "8.0");
  switch (attribute) {
    case 1: *v = 1024; break;                        // threads of a block
    case 8: *v = 48 << 10; break;                    // shared memory of a block
    case 10: *v = 32; break;                         // threads of a warp
    case 16: *v = 4; break;                          // multiprocessors
    case 75: *v = atoi(capability.c_str()); break;   // compute capability, major
    case 76: *v = atoi(capability.c_str() + capability.find('.') + 1); break;
    case 97: *v = 163 << 10; break;                  // shared memory of a block that asks for it
    default: *v = 0;
  }
  return success;
}

API cuDevicePrimaryCtxRetain(Context **c, int) {
  std::lock_guard<std::recursive_mutex> hold(soft_mutex);
  device.retained++;
  *c = &primary;
  return success;
}

// The last release of the primary context reports what was never freed, and fails then.
API cuDevicePrimaryCtxRelease_v2(int) {
  std::lock_guard<std::recursive_mutex> hold(soft_mutex);
  if (!device.retained) return invalid_context;
  if (--device.retained) return success;
  const std::string leaks = device.leaks();
  const bool healthy = !device.sticky;
  device.reset();
  if (leaks.empty() || !healthy) return success;
  complain("the context is released and holds " + leaks);
  return unknown;
}

API cuCtxSetCurrent(Context *c) { current = c; return success; }
API cuCtxGetCurrent(Context **c) { *c = current; return success; }
API cuCtxSynchronize() { ENTER; return device.finish_all(); }

// Memory.

API cuMemGetInfo_v2(size_t *available, size_t *total) {
  ENTER;
  *total = device.capacity();
  *available = *total - device.used;
  return success;
}
API cuMemAlloc_v2(Address *p, size_t n) { ENTER; uint64_t a = 0; const Result r = device.allocate(n, &a); *p = a; return r; }
API cuMemFree_v2(Address p) { ENTER; return device.release(p); }
API cuMemHostAlloc(void **p, size_t n, unsigned) { ENTER; return device.pin(n, p); }
API cuMemFreeHost(void *p) { ENTER; return device.unpin(p); }

// Copies that wait belong to the null stream: they do not wait for streams made non-blocking.
API cuMemcpyHtoD_v2(Address to, const void *from, size_t n) {
  ENTER;
  return outside(__func__, to, n) ? invalid_value : submit_copy(nullptr, pointer(to), from, n);
}
API cuMemcpyDtoH_v2(void *to, Address from, size_t n) {
  ENTER;
  return outside(__func__, from, n) ? invalid_value : submit_copy(nullptr, to, pointer(from), n);
}
API cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t n, Stream *s) {
  ENTER;
  if (!known(s)) return bad_handle(__func__);
  if (outside(__func__, to, n) || pageable(__func__, from, n)) return invalid_value;
  return submit_copy(s, pointer(to), from, n);
}
API cuMemcpyDtoHAsync_v2(void *to, Address from, size_t n, Stream *s) {
  ENTER;
  if (!known(s)) return bad_handle(__func__);
  if (outside(__func__, from, n) || pageable(__func__, to, n)) return invalid_value;
  return submit_copy(s, to, pointer(from), n);
}
API cuMemcpyDtoDAsync_v2(Address to, Address from, size_t n, Stream *s) {
  ENTER;
  if (!known(s)) return bad_handle(__func__);
  if (outside(__func__, to, n) || outside(__func__, from, n)) return invalid_value;
  return submit_copy(s, pointer(to), pointer(from), n);
}
API cuMemsetD32Async(Address to, unsigned value, size_t n, Stream *s) {
  ENTER;
  if (!known(s)) return bad_handle(__func__);
  if (to & 3 || outside(__func__, to, n * 4)) return invalid_value;
  return device.submit(s, {[=] {
    auto *words = static_cast<unsigned *>(pointer(to));
    for (size_t i = 0; i < n; i++) words[i] = value;
    return success;
  }, nullptr});
}

// Modules and kernels.

API cuModuleLoadData(Module **m, const void *image) {
  ENTER;
  const auto *text = static_cast<const char *>(image);
  if (!strstr(text, ".version")) return invalid_image;
  *m = new Module{text};
  device.modules.insert(*m);
  return success;
}
API cuModuleUnload(Module *m) {
  ENTER;
  if (!device.modules.erase(m)) return bad_handle(__func__);
  const Result r = device.finish_all();
  for (auto f = device.functions.begin(); f != device.functions.end();) {
    if ((*f)->module != m) { ++f; continue; }
    delete *f;
    f = device.functions.erase(f);
  }
  delete m;
  return r;
}

// A kernel must be in the image, and among those compiled into the device.
API cuModuleGetFunction(Function **f, Module *m, const char *name) {
  ENTER;
  if (!device.modules.count(m)) return bad_handle(__func__);
  const Kernel *k = find_kernel(name);
  if (!k || !entry_of(m->image, name)) return not_found;
  *f = new Function{k, m};
  device.functions.insert(*f);
  return success;
}
API cuFuncSetAttribute(Function *f, int attribute, int value) {
  ENTER;
  if (!device.functions.count(f)) return bad_handle(__func__);
  if (attribute != 8 || value < 0 || value > 163 << 10) return invalid_value;  // 8: most dynamic shared memory
  f->max_shared = static_cast<unsigned>(value);
  return success;
}
API cuFuncGetAttribute(int *value, int, Function *f) {
  ENTER;
  *value = 0;
  return device.functions.count(f) ? success : bad_handle(__func__);
}

API cuLaunchKernel(Function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, Stream *s,
                   void **params, void **extra) {
  ENTER;
  if (!known(s) || !device.functions.count(f)) return bad_handle(__func__);
  if (!gx || !gy || !gz || gx > 0x7fffffff || gy > 65535 || gz > 65535) return invalid_value;
  if (!bx || !by || !bz || bx > 1024 || by > 1024 || bz > 64 || bx * by * bz > 1024) return invalid_value;
  if (shared > f->max_shared || extra) return invalid_value;
  auto values = std::make_shared<std::vector<uint64_t>>(f->kernel->sizes.size() + 1);  // copied now, as the driver does
  for (size_t i = 0; i < f->kernel->sizes.size(); i++) {
    if (f->kernel->sizes[i] > 8) return invalid_value;
    memcpy(&(*values)[i], params[i], f->kernel->sizes[i]);
  }
  const Geometry g{{gx, gy, gz}, {bx, by, bz}, shared};
  const Kernel *k = f->kernel;
  return device.submit(s, {[=] {
    std::vector<void *> pointers;
    for (auto &v : *values) pointers.push_back(&v);
    const Outcome o = recorded(*k, g, *values, device.memory, [&] { return run_grid(*k, g, pointers.data()); });
    if (o.fault.empty()) return success;
    complain(o.fault);
    switch (o.access) {
      case Access::illegal: return illegal_address;
      case Access::misaligned: return misaligned_address;
      default: return launch_failed;
    }
  }, nullptr});
}

// Streams and events.

API cuStreamCreate(Stream **s, unsigned flags) {
  ENTER;
  *s = new Stream;
  (*s)->blocking = !(flags & 1);
  device.streams.insert(*s);
  return success;
}
API cuStreamDestroy_v2(Stream *s) {
  ENTER;
  if (!device.streams.count(s)) return bad_handle(__func__);
  const Result r = device.finish(s);
  device.streams.erase(s);
  delete s;
  return r;
}
API cuStreamSynchronize(Stream *s) {
  ENTER;
  if (!known(s)) return bad_handle(__func__);
  return s ? device.finish(s) : device.finish_blocking();
}
API cuStreamQuery(Stream *s) {
  ENTER;
  if (!known(s)) return bad_handle(__func__);
  return device.idle(s) ? success : not_ready;
}
API cuStreamWaitEvent(Stream *s, Event *e, unsigned) {
  ENTER;
  if (!known(s) || !device.events.count(e)) return bad_handle(__func__);
  return e->mark ? device.submit(s, {nullptr, e->mark}) : success;
}

API cuEventCreate(Event **e, unsigned) { ENTER; device.events.insert(*e = new Event); return success; }
API cuEventDestroy_v2(Event *e) {
  ENTER;
  if (!device.events.erase(e)) return bad_handle(__func__);
  delete e;
  return success;
}
API cuEventRecord(Event *e, Stream *s) {
  ENTER;
  if (!known(s) || !device.events.count(e)) return bad_handle(__func__);
  auto mark = std::make_shared<Mark>();
  mark->stream = s;
  e->mark = mark;
  return device.submit(s, {[mark] { mark->done = true; return success; }, nullptr});
}
API cuEventSynchronize(Event *e) {
  ENTER;
  if (!device.events.count(e)) return bad_handle(__func__);
  return device.finish_mark(e->mark);
}
API cuEventQuery(Event *e) {
  ENTER;
  if (!device.events.count(e)) return bad_handle(__func__);
  return !e->mark || e->mark->done ? success : not_ready;
}

// The software device has no clock: everything takes no time.
API cuEventElapsedTime(float *ms, Event *, Event *) { *ms = 0; return success; }
