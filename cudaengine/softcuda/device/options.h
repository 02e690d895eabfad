// options.h - the modes of the software device, from the environment. They are read again at every use, so
// that a test may change them between two launches.
#pragma once
#include <cstdint>
#include <string>

// option returns an environment variable, or the default where it is not set.
std::string option(const char *name, const char *otherwise);

// Dice gives the random numbers of an option "rand:SEED": the same ones for the same seed.
class Dice {
 public:
  // seeded reports whether the option asks for chance, and starts the sequence anew when the option changed.
  bool seeded(const std::string &option);
  // below returns a number in 0..n-1.
  unsigned below(unsigned n);

 private:
  std::string seed_;
  uint64_t state_ = 0;
};
