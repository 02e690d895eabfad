// guard.h - a kernel that uses memory as it may not ends its launch, not the process.
#pragma once
#include <functional>

enum class Access {
  good,
  illegal,     // there is no memory at the address
  misaligned,  // the address is no multiple of the type's size (in builds that look, see build.sh)
};

// guarded runs body, up to the first bad access of this thread; what body then had under way is abandoned. Under a
// sanitizer it only runs body: the sanitizer reports more.
Access guarded(const std::function<void()> &body);
