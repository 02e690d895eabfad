// replay LIBRARY IMAGES RECORDING... - runs recorded launches on the CUDA device of a library, and compares what they
// leave with what the software device left. LIBRARY is a libcuda.so.1, real or software; IMAGES is a folder of PTX files.
//
// On the software device every bit must agree, in whatever order its threads run. On a GPU those of the kernels in fp32
// and of the updates must; a kernel in bf16 may differ by a little, because tensor cores add in an order of their own.
// Exits 0 if all agree, 1 otherwise, and prints a line for every kernel.
#include <dirent.h>
#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>

#include "record.h"

namespace {

using Address = unsigned long long;
using Handle = void *;

constexpr double tolerance = 0x1p-6;  // of the largest element, for bf16: two units in its last place

void *library;

[[noreturn]] void fail(const std::string &what) {
  fprintf(stderr, "replay: %s\n", what.c_str());
  exit(1);
}

// call calls a function of the driver.
template <class... A> int call(const char *name, A... arguments) {
  auto f = reinterpret_cast<int (*)(A...)>(dlsym(library, name));
  if (!f) fail(std::string(name) + " is not in the library");
  return f(arguments...);
}

// must calls a function of the driver that may not fail.
template <class... A> void must(const char *name, A... arguments) {
  const int code = call(name, arguments...);
  if (code) fail(std::string(name) + " returns " + std::to_string(code));
}

// Reader reads a recording.
class Reader {
 public:
  explicit Reader(const std::string &path) : path_(path), in_(path, std::ios::binary) {
    if (text(sizeof record_magic - 1) != record_magic) fail(path + " is no recording of a launch");
  }
  uint64_t word() {
    uint64_t w = 0;
    read(&w, sizeof w);
    return w;
  }
  std::string text(size_t n) {
    std::string s(n, ' ');
    read(s.data(), n);
    return s;
  }
  std::vector<unsigned char> bytes(size_t n) {
    std::vector<unsigned char> b(n);
    read(b.data(), n);
    return b;
  }
  // size reads a length, which no recording has above a GiB.
  size_t size() {
    const uint64_t n = word();
    if (n > 1u << 30) fail(path_ + " is damaged");
    return n;
  }

 private:
  void read(void *to, size_t n) {
    if (!in_.read(static_cast<char *>(to), static_cast<std::streamsize>(n))) fail(path_ + " ends early");
  }
  std::string path_;
  std::ifstream in_;
};

Recording read_recording(const std::string &path) {
  Reader in(path);
  Recording r;
  r.kernel = in.text(in.size());
  for (uint64_t &n : r.geometry) n = in.word();
  r.buffers.resize(in.size());
  for (RecordedBuffer &b : r.buffers) {
    const size_t n = in.size();
    b.before = in.bytes(n);
    b.after = in.bytes(n);
  }
  r.parameters.resize(in.size());
  for (RecordedParameter &p : r.parameters) {
    p.size = in.word();
    p.buffer = in.word();
    p.value = in.word();
  }
  return r;
}

std::vector<Handle> load_images(const char *folder) {
  std::vector<Handle> modules;
  DIR *d = opendir(folder);
  if (!d) fail(std::string(folder) + " is no folder");
  while (dirent *e = readdir(d)) {
    const std::string name = e->d_name;
    if (name.size() < 4 || name.substr(name.size() - 4) != ".ptx") continue;
    std::ifstream in(std::string(folder) + "/" + name, std::ios::binary);
    const std::string image{std::istreambuf_iterator<char>(in), {}};
    modules.push_back(nullptr);
    must("cuModuleLoadData", &modules.back(), static_cast<const void *>(image.c_str()));
  }
  closedir(d);
  return modules;
}

Handle find_kernel(const std::vector<Handle> &modules, const Recording &r) {
  for (Handle m : modules) {
    Handle f = nullptr;
    if (call("cuModuleGetFunction", &f, m, r.kernel.c_str())) continue;
    if (r.geometry[6] > 48 << 10) must("cuFuncSetAttribute", f, 8, static_cast<int>(r.geometry[6]));
    return f;
  }
  fail(r.kernel + " is in no image");
}

// run launches a recording and returns what it leaves in each buffer.
std::vector<std::vector<unsigned char>> run(const std::vector<Handle> &modules, const Recording &r) {
  std::vector<Address> at(r.buffers.size());
  for (size_t i = 0; i < at.size(); i++) {
    must("cuMemAlloc_v2", &at[i], r.buffers[i].before.size());
    must("cuMemcpyHtoD_v2", at[i], static_cast<const void *>(r.buffers[i].before.data()), r.buffers[i].before.size());
  }
  std::vector<uint64_t> values;
  for (const RecordedParameter &p : r.parameters) values.push_back(p.buffer ? at.at(p.buffer - 1) + p.value : p.value);
  std::vector<void *> pointers;
  for (uint64_t &v : values) pointers.push_back(&v);
  auto n = [&](int i) { return static_cast<unsigned>(r.geometry[i]); };
  must("cuLaunchKernel", find_kernel(modules, r), n(0), n(1), n(2), n(3), n(4), n(5), n(6), static_cast<void *>(nullptr), pointers.data(), static_cast<void **>(nullptr));
  must("cuCtxSynchronize");
  std::vector<std::vector<unsigned char>> out(at.size());
  for (size_t i = 0; i < at.size(); i++) {
    out[i].resize(r.buffers[i].after.size());
    must("cuMemcpyDtoH_v2", static_cast<void *>(out[i].data()), at[i], out[i].size());
    must("cuMemFree_v2", at[i]);
  }
  return out;
}

double as_float(const unsigned char *p) { float f; memcpy(&f, p, 4); return f; }
double as_bf16(const unsigned char *p) {
  unsigned char word[4] = {0, 0, p[0], p[1]};
  return as_float(word);
}

// distance is the largest difference relative to the largest element, of elements read by at.
double distance(const std::vector<unsigned char> &got, const std::vector<unsigned char> &want, size_t size, double (*at)(const unsigned char *)) {
  double largest = 0, difference = 0;
  for (size_t i = 0; i + size <= want.size(); i += size) {
    if (!memcmp(&got[i], &want[i], size)) {
      if (std::isfinite(at(&want[i]))) largest = std::fmax(largest, std::fabs(at(&want[i])));
      continue;
    }
    const double d = std::fabs(at(&got[i]) - at(&want[i]));
    if (!std::isfinite(d)) return INFINITY;
    difference = std::fmax(difference, d);
    largest = std::fmax(largest, std::fabs(at(&want[i])));
  }
  return difference == 0 ? 0 : difference / largest;
}

struct Result { int launches = 0, equal = 0; double distance = 0; };

// compare takes a launch into the result of its kernel. A buffer does not say what it holds: the type by which the two
// are closer counts.
void compare(Result &to, const Recording &r, const std::vector<std::vector<unsigned char>> &got) {
  bool equal = true;
  for (size_t i = 0; i < got.size(); i++) {
    const auto &want = r.buffers[i].after;
    if (got[i] == want) continue;
    equal = false;
    to.distance = std::fmax(to.distance, std::fmin(distance(got[i], want, 4, as_float), distance(got[i], want, 2, as_bf16)));
  }
  to.launches++;
  to.equal += equal;
}

// report prints the results and returns whether all are as they must be.
bool report(const std::map<std::string, Result> &results, bool software) {
  bool good = true;
  printf("%-32s %8s %8s %10s\n", "kernel", "launches", "equal", "distance");
  for (const auto &[name, r] : results) {
    const bool bf16 = name.size() > 5 && name.substr(name.size() - 5) == "_bf16";
    const bool ok = r.equal == r.launches || (bf16 && !software && r.distance <= tolerance);
    printf("%-32s %8d %8d %10.2g%s\n", name.c_str(), r.launches, r.equal, r.distance, ok ? "" : "  DIFFERS");
    good = good && ok;
  }
  return good;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc < 4) fail("usage: replay LIBRARY IMAGES RECORDING...");
  library = dlopen(argv[1], RTLD_NOW);
  if (!library) fail(dlerror());
  char name[256] = "";
  Handle context = nullptr;
  must("cuInit", 0u);
  must("cuDevicePrimaryCtxRetain", &context, 0);
  must("cuCtxSetCurrent", context);
  must("cuDeviceGetName", name, 255, 0);
  std::vector<Handle> modules = load_images(argv[2]);
  std::map<std::string, Result> results;
  for (int i = 3; i < argc; i++) {
    const Recording r = read_recording(argv[i]);
    compare(results[r.kernel], r, run(modules, r));
  }
  for (Handle m : modules) must("cuModuleUnload", m);
  must("cuDevicePrimaryCtxRelease_v2", 0);
  printf("on %s\n", name);
  return report(results, strstr(name, "software") != nullptr) ? 0 : 1;
}
