// guard.h - a kernel that touches memory which does not exist ends its launch, not the process.
#pragma once
#include <functional>

// guarded runs body and returns true, or false as soon as body made a segmentation fault or a bus error. What body had
// under way is abandoned. Under a sanitizer it only runs body: the sanitizer reports more.
bool guarded(const std::function<void()> &body);
