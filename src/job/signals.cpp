#include "job/signals.h"

#include <unistd.h>

#include <csignal>
#include <string_view>

#include "core/error.h"
#include "core/progress_line.h"
#include "dist/launcher.h"

namespace dtrain::job {
namespace {

std::atomic<bool> stop_requested{false}, verdict_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free,
              "a signal handler may only touch lock-free atomics");

extern "C" void request_stop(int signal) {
  stop_requested.store(true);
  if (signal == SIGINT) std::signal(SIGINT, SIG_DFL);
}

extern "C" void leave_before_training(int) {
  constexpr std::string_view kText =
      "stopped on request before training began: there is nothing to save\n";
  static_cast<void>(!::write(STDERR_FILENO, kText.data(), kText.size()));
  ::_exit(kExitStoppedOnRequest);
}

extern "C" void request_verdict(int) { verdict_requested.store(true); }

void handle(int signal, void (*handler)(int) = request_stop) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  struct sigaction before {};
  sigaction(signal, nullptr, &before);
  if (signal == SIGHUP && before.sa_handler == SIG_IGN) return;  // nohup
  sigaction(signal, &action, nullptr);
}

}  // namespace

void remember_early_signals() {
  handle(SIGUSR2, request_verdict);
  handle(SIGUSR1);
  if (dist::launcher_size_hint() == 1) handle(SIGTERM, leave_before_training);
}

std::atomic<bool>& install_verdict_signal() {
  handle(SIGUSR2, request_verdict);
  return verdict_requested;
}

bool run_interruptible(const std::function<void(const ReportProgress&)>& work) {
  struct Interrupted {};
  const std::atomic<bool>& stop = install_stop_signals();
  ProgressLine line(ProgressLine::Last::kAlways);
  try {
    work([&](const Progress& progress) {
      line.show(progress);
      if (stop) throw Interrupted();
    });
  } catch (const Interrupted&) {
    return false;
  }
  return true;
}

const std::atomic<bool>& install_stop_signals() {
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT, SIGHUP}) handle(signal);
  return stop_requested;
}

}  // namespace dtrain::job
