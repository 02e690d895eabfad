// grid.h - running a kernel: one block after the other, the threads of a block as fibers.
#pragma once
#include <string>
#include <vector>

#include "guard.h"
#include "soft.h"

// Kernel is a registered kernel. Values are never freed.
struct Kernel {
  std::string name;
  void (*run)(void **);
  std::vector<unsigned> sizes;  // of its parameters, in bytes
};

// find_kernel returns a registered kernel, or null.
Kernel *find_kernel(const std::string &name);

// Geometry is the shape of a launch.
struct Geometry {
  dim3_t grid, block;
  unsigned shared;  // dynamic shared memory in bytes
};

// Outcome is how a launch ended.
struct Outcome {
  std::string fault;  // "" when it ended well
  Access access;
};

// run_grid runs a kernel; params point to its parameters.
Outcome run_grid(const Kernel &k, const Geometry &g, void **params);
