#include "options.h"

#include <cstdlib>

std::string option(const char *name, const char *otherwise) {
  const char *value = getenv(name);
  return value && *value ? value : otherwise;
}

bool Dice::seeded(const std::string &option) {
  if (option.compare(0, 5, "rand:") != 0) return false;
  if (option != seed_) {
    seed_ = option;
    state_ = strtoull(option.c_str() + 5, nullptr, 10) * 2 + 1;
  }
  return true;
}

unsigned Dice::below(unsigned n) {
  state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
  return static_cast<unsigned>(state_ >> 33) % n;
}
