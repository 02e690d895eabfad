#include "guard.h"

#include <csetjmp>
#include <csignal>

#include "fiber.h"

#if defined(SOFT_ASAN) || defined(SOFT_TSAN)

Access guarded(const std::function<void()> &body) {
  body();
  return Access::good;
}

#else

namespace {

constexpr int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP};  // the last two are what a failed check of alignment traps with
constexpr int count = sizeof signals / sizeof signals[0];

thread_local sigjmp_buf escape;
thread_local bool inside;  // this thread runs body
struct sigaction before[count];

// A signal of another thread belongs to whoever handled it before.
void on_signal(int number, siginfo_t *info, void *context) {
  if (inside) siglongjmp(escape, number);
  int i = 0;
  while (signals[i] != number) i++;
  const struct sigaction &other = before[i];
  if (other.sa_flags & SA_SIGINFO) other.sa_sigaction(number, info, context);
  else if (other.sa_handler != SIG_DFL && other.sa_handler != SIG_IGN) other.sa_handler(number);
  else signal(number, SIG_DFL);  // it happens again, and ends the process
}

}  // namespace

Access guarded(const std::function<void()> &body) {
  struct sigaction mine = {};
  mine.sa_sigaction = on_signal;
  mine.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&mine.sa_mask);
  for (int i = 0; i < count; i++) sigaction(signals[i], &mine, &before[i]);
  const int number = sigsetjmp(escape, 1);
  if (!number) {
    inside = true;
    body();
  }
  inside = false;
  for (int i = 0; i < count; i++) sigaction(signals[i], &before[i], nullptr);
  if (!number) return Access::good;
  return number == SIGSEGV || number == SIGBUS ? Access::illegal : Access::misaligned;
}

#endif
