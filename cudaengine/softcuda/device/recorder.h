// recorder.h - keeping the first launch of every kernel and shape.
#pragma once
#include <functional>

#include "device.h"
#include "record.h"

// recorded runs a launch and, where SOFTCUDA_RECORD names a folder, writes the first of its kernel, geometry and
// integers there, with the memory behind the pointers among its parameters.
Outcome recorded(const Kernel &k, const Geometry &g, const std::vector<uint64_t> &values, const Range &memory,
                 const std::function<Outcome()> &launch);
