#include "supervisor/signal_queue.h"

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "core/error.h"
#include "text/strings.h"

namespace dtrain::supervisor {

SignalQueue::SignalQueue() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) {
    struct sigaction now {};
    sigaction(number, nullptr, &now);
    if (number == SIGHUP && now.sa_handler == SIG_IGN) continue;
    sigaddset(&set, number);
  }
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  file_ = FileDescriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!file_.is_open()) throw Error(str("cannot receive signals: ", std::strerror(errno)));
}

std::optional<int> SignalQueue::next() {
  signalfd_siginfo info{};
  if (::read(file_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace dtrain::supervisor
