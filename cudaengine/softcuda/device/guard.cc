#include "guard.h"

#include <csetjmp>
#include <csignal>

#include "fiber.h"

#if defined(SOFT_ASAN) || defined(SOFT_TSAN)

bool guarded(const std::function<void()> &body) {
  body();
  return true;
}

#else

namespace {

constexpr int signals[] = {SIGSEGV, SIGBUS};

thread_local sigjmp_buf escape;
thread_local bool inside;  // this thread runs body
struct sigaction before[2];

// A signal of another thread belongs to whoever handled it before.
void on_signal(int number, siginfo_t *info, void *context) {
  if (inside) siglongjmp(escape, 1);
  const struct sigaction &other = before[number == SIGBUS];
  if (other.sa_flags & SA_SIGINFO) other.sa_sigaction(number, info, context);
  else if (other.sa_handler != SIG_DFL && other.sa_handler != SIG_IGN) other.sa_handler(number);
  else signal(number, SIG_DFL);  // it happens again, and ends the process
}

}  // namespace

bool guarded(const std::function<void()> &body) {
  struct sigaction mine = {};
  mine.sa_sigaction = on_signal;
  mine.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&mine.sa_mask);
  for (int i = 0; i < 2; i++) sigaction(signals[i], &mine, &before[i]);
  const bool whole = sigsetjmp(escape, 1) == 0;
  if (whole) {
    inside = true;
    body();
  }
  inside = false;
  for (int i = 0; i < 2; i++) sigaction(signals[i], &before[i], nullptr);
  return whole;
}

#endif
