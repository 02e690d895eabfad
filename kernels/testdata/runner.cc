// Runs kernels on a CUDA driver for the tests of this folder: reads commands from its input and answers each with a
// length and that many bytes; an empty answer to a command that has no result means success, and a length with the
// highest bit set announces the text of an error.
//
//   I bytes            load an image
//   N size             allocate a buffer, of 16·k bytes or not; answers nothing, buffers are numbered from 1
//   W buffer bytes     write a buffer
//   R buffer           read a buffer
//   X                  free all buffers
//   E name=value       set a variable of the environment
//   L name gx gy gz threads shared n (kind value)...   launch and wait; kind 0: 8 bytes are the value's bits, 1: a
//                      buffer in the lower 4 bytes, an offset in the upper ones
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

typedef unsigned long long dptr;
extern "C" {
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void **, int);
int cuDevicePrimaryCtxRelease_v2(int);
int cuCtxSetCurrent(void *);
int cuCtxSynchronize();
int cuModuleLoadData(void **, const void *);
int cuModuleUnload(void *);
int cuModuleGetFunction(void **, void *, const char *);
int cuFuncSetAttribute(void *, int, int);
int cuMemAlloc_v2(dptr *, size_t);
int cuMemFree_v2(dptr);
int cuMemcpyHtoD_v2(dptr, const void *, size_t);
int cuMemcpyDtoH_v2(void *, dptr, size_t);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
}

namespace {

struct Buffer { dptr at; size_t size; };
std::vector<Buffer> buffers;
std::vector<void *> modules;
std::string failure;

bool check(const char *what, int code) {
  if (code && failure.empty()) failure = std::string(what) + ": error " + std::to_string(code);
  return code == 0;
}

void read_exactly(void *to, size_t n) {
  if (n && fread(to, 1, n, stdin) != n) exit(3);
}
uint64_t number() {
  uint64_t n;
  read_exactly(&n, 8);
  return n;
}
std::string text() {
  std::string s(number(), 0);
  read_exactly(s.data(), s.size());
  return s;
}
void answer(const std::string &bytes) {
  const bool failed = !failure.empty();
  const std::string &out = failed ? failure : bytes;
  const uint64_t n = out.size() | (failed ? 1ull << 63 : 0);
  fwrite(&n, 8, 1, stdout);
  fwrite(out.data(), 1, out.size(), stdout);
  fflush(stdout);
  failure.clear();
}

void allocate(size_t size) {
  Buffer b{0, size};
  if (check("cuMemAlloc", cuMemAlloc_v2(&b.at, size))) buffers.push_back(b);
}

void free_all() {
  for (const Buffer &b : buffers) check("cuMemFree", cuMemFree_v2(b.at));
  buffers.clear();
}

void *find(const std::string &name) {
  for (void *m : modules) {
    void *f = nullptr;
    if (!cuModuleGetFunction(&f, m, name.c_str())) return f;
  }
  failure = name + ": no image has this kernel";
  return nullptr;
}

void launch() {
  const std::string name = text();
  uint64_t size[6];
  for (auto &s : size) s = number();
  std::vector<uint64_t> values(size[5]);
  for (auto &v : values) {
    const uint64_t kind = number();
    v = number();
    if (kind == 1) v = (v & 0xffffffff) ? buffers.at((v & 0xffffffff) - 1).at + (v >> 32) : 0;
  }
  std::vector<void *> params;
  for (auto &v : values) params.push_back(&v);
  void *f = find(name);
  if (!f) return;
  const unsigned shared = static_cast<unsigned>(size[4]);
  check("cuFuncSetAttribute", cuFuncSetAttribute(f, 8, static_cast<int>(shared)));
  auto u = [&](int i) { return static_cast<unsigned>(size[i]); };
  check(name.c_str(), cuLaunchKernel(f, u(0), u(1), u(2), u(3), 1, 1, shared, nullptr, params.data(), nullptr));
  check(name.c_str(), cuCtxSynchronize());
}

void obey(int command) {
  std::string bytes;
  switch (command) {
  case 'I': {
    void *m = nullptr;
    if (check("cuModuleLoadData", cuModuleLoadData(&m, text().c_str()))) modules.push_back(m);
    break;
  }
  case 'N': allocate(number()); break;
  case 'W': {
    const Buffer b = buffers.at(number() - 1);
    const std::string s = text();
    check("cuMemcpyHtoD", cuMemcpyHtoD_v2(b.at, s.data(), s.size()));
    break;
  }
  case 'R': {
    const Buffer b = buffers.at(number() - 1);
    bytes.resize(b.size);
    check("cuMemcpyDtoH", cuMemcpyDtoH_v2(bytes.data(), b.at, b.size));
    break;
  }
  case 'X': free_all(); break;
  case 'E': {
    const std::string s = text();
    setenv(s.substr(0, s.find('=')).c_str(), s.substr(s.find('=') + 1).c_str(), 1);
    break;
  }
  case 'L': launch(); break;
  default: exit(4);
  }
  answer(bytes);
}

}  // namespace

int main() {
  void *context = nullptr;
  if (!check("cuInit", cuInit(0)) || !check("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, 0)) || !check("cuCtxSetCurrent", cuCtxSetCurrent(context))) {
    fprintf(stderr, "%s\n", failure.c_str());
    return 1;
  }
  for (int c; (c = getchar()) != EOF;) obey(c);
  free_all();
  for (void *m : modules) cuModuleUnload(m);
  check("cuDevicePrimaryCtxRelease", cuDevicePrimaryCtxRelease_v2(0));
  if (!failure.empty()) fprintf(stderr, "%s\n", failure.c_str());
  return failure.empty() ? 0 : 1;
}
