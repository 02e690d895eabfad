#include "recorder.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

namespace {

// A piece of memory that a pointer leads to.
struct Piece {
  uintptr_t start, end;
  std::vector<unsigned char> before;
};

constexpr size_t block = 512;  // the engine's regions start at its multiples, and have one between them that nobody writes

bool untouched(const unsigned char *p) {
  return std::all_of(p, p + block, [](unsigned char b) { return b == 0xff; });
}

// allocation_end is where the allocation around an address ends, or 0.
uintptr_t allocation_end(const Range &memory, uintptr_t p) {
  auto next = memory.pieces.upper_bound(p);
  if (next == memory.pieces.begin()) return 0;
  auto piece = std::prev(next);
  return p < piece->first + piece->second ? piece->first + piece->second : 0;
}

// region_end is where the region around an address ends: at the first block that nobody has written.
uintptr_t region_end(uintptr_t p, uintptr_t limit) {
  for (uintptr_t at = (p + block - 1) / block * block; at + block <= limit; at += block)
    if (untouched(reinterpret_cast<unsigned char *>(at))) return at;
  return limit;
}

// copies of the allocations that pointers lead to, as they were before a launch.
std::vector<Piece> snapshot(const Kernel &k, const std::vector<uint64_t> &values, const Range &memory) {
  std::vector<Piece> list;
  for (size_t i = 0; i < k.sizes.size(); i++) {
    const uintptr_t end = k.sizes[i] == 8 ? allocation_end(memory, values[i]) : 0;
    if (!end) continue;
    const auto *from = reinterpret_cast<unsigned char *>(values[i]);
    list.push_back({values[i], end, {from, from + (end - values[i])}});
  }
  std::sort(list.begin(), list.end(), [](const Piece &a, const Piece &b) { return a.start < b.start; });
  return list;
}

// trim cuts pieces at the end of their regions after the launch, and joins those that overlap.
std::vector<Piece> trim(const std::vector<Piece> &list) {
  std::vector<Piece> out;
  for (Piece p : list) {
    p.end = std::max(region_end(p.start, p.end), std::min(p.start + block, p.end));
    if (!out.empty() && p.start < out.back().end) continue;  // starts inside the region before, which ends where it does
    p.before.resize(p.end - p.start);
    out.push_back(std::move(p));
  }
  return out;
}

void put(FILE *f, uint64_t word) { fwrite(&word, 1, sizeof word, f); }

void write_recording(FILE *f, const Kernel &k, const Geometry &g, const std::vector<uint64_t> &values, const std::vector<Piece> &pieces) {
  fputs(record_magic, f);
  put(f, k.name.size());
  fwrite(k.name.data(), 1, k.name.size(), f);
  for (unsigned n : {g.grid.x, g.grid.y, g.grid.z, g.block.x, g.block.y, g.block.z, g.shared}) put(f, n);
  put(f, pieces.size());
  for (const Piece &p : pieces) {
    put(f, p.before.size());
    fwrite(p.before.data(), 1, p.before.size(), f);
    fwrite(reinterpret_cast<void *>(p.start), 1, p.before.size(), f);
  }
  put(f, k.sizes.size());
  for (size_t i = 0; i < k.sizes.size(); i++) {
    uint64_t buffer = 0, value = values[i];
    for (size_t b = 0; b < pieces.size() && k.sizes[i] == 8; b++)
      if (values[i] >= pieces[b].start && values[i] < pieces[b].end) { buffer = b + 1; value = values[i] - pieces[b].start; }
    put(f, k.sizes[i]);
    put(f, buffer);
    put(f, value);
  }
}

// identity is what makes a launch another: its kernel, geometry and parameters that are no pointers.
std::string identity(const Kernel &k, const Geometry &g, const std::vector<uint64_t> &values) {
  std::string id = k.name;
  for (unsigned n : {g.grid.x, g.grid.y, g.grid.z, g.block.x, g.shared}) id += " " + std::to_string(n);
  for (size_t i = 0; i < k.sizes.size(); i++)
    if (k.sizes[i] < 8) id += " " + std::to_string(values[i]);
  return id;
}

}  // namespace

Outcome recorded(const Kernel &k, const Geometry &g, const std::vector<uint64_t> &values, const Range &memory,
                 const std::function<Outcome()> &launch) {
  static auto &seen = *new std::set<std::string>;
  const std::string folder = option("SOFTCUDA_RECORD", "");
  if (folder.empty() || !seen.insert(identity(k, g, values)).second) return launch();
  const std::vector<Piece> before = snapshot(k, values, memory);
  Outcome o = launch();
  const std::string path = folder + "/" + std::to_string(seen.size()) + "-" + k.name + ".launch";
  FILE *f = fopen(path.c_str(), "wb");
  if (!f) {
    complain("SOFTCUDA_RECORD: " + path + " cannot be written");
    return o;
  }
  write_recording(f, k, g, values, trim(before));
  if (fclose(f)) complain("SOFTCUDA_RECORD: " + path + " is not written whole");
  return o;
}
