// api.h - what every function begins with that a program calls: of the driver, and of the library of products.
#pragma once
#include <mutex>

#include "device.h"

// One device, one program, one call at a time.
extern std::recursive_mutex soft_mutex;
extern Device &soft_device;

// begin_call says whether a function may do its work: the thread must have the context, no sticky error may be set, and
// SOFTCUDA_FAIL must not ask for another answer.
Result begin_call(const char *function);

// outside complains about device memory that no allocation holds.
bool outside(const char *function, unsigned long long address, size_t bytes);

// known reports whether a stream is one of the device's.
bool known(Stream *s);
