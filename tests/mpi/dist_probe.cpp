// A small main like dtrain's that fails in a given way, for dist_processes_test.py.
//   dist_probe MODE [RANK] [TIMEOUT]

#include <sched.h>
#include <torch/types.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <iostream>
#include <optional>
#include <string>
#include <thread>

#include "core/error.h"
#include "core/log.h"
#include "dist/affinity.h"
#include "dist/launcher.h"
#include "dist/make_communicator.h"
#include "dist/mpi_session.h"
#include "dist/shared_memory_communicator.h"
#include "dist/watchdog.h"
#include "tests/support/no_memfd.h"
#include "text/strings.h"

namespace {

using namespace dtrain;
using namespace dtrain::dist;

void sleep_seconds(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

void say(const std::string& line) { std::cout << line + "\n" << std::flush; }

std::string cores() {
  cpu_set_t set;
  ::sched_getaffinity(0, sizeof set, &set);
  std::vector<std::string> list;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) list.push_back(std::to_string(core));
  }
  return join(list, ",");
}

struct Part {
  std::string mode;
  int culprit = 0;
  double timeout = 2;
};

// Steps of data, forward and all_reduce, for `seconds`; in step 12 the culprit does what the
// mode says.
void train(const Part& part, const World& world, Communicator& comm, Watchdog& watchdog,
           double seconds) {
  const at::Tensor gradient = at::ones({1000}, at::kFloat);
  const auto started = std::chrono::steady_clock::now();
  for (int64_t step = 1;; ++step) {
    watchdog.progress("data", step);
    if (world.rank == part.culprit && step == 12) {
      if (part.mode == "throw") throw DataError("sample 7 of faces.h5 is damaged");
      if (part.mode == "stop") {
        sleep_seconds(part.timeout / 2);  // so that a heartbeat reports step 12 to the others
        ::raise(SIGSTOP);
      }
      if (part.mode == "stuck") sleep_seconds(600);
    }
    watchdog.progress("forward", step);
    sleep_seconds(0.02);
    watchdog.progress("all_reduce", step);
    const at::Tensor over = at::full(
        {1}, std::chrono::steady_clock::now() - started >= std::chrono::duration<double>(seconds));
    comm.all_reduce(gradient, ReduceOp::kMax).wait();
    const at::Tensor ended = over.to(at::kLong);
    comm.all_reduce(ended, ReduceOp::kMax).wait();
    if (ended.item<int64_t>() != 0) return;
  }
}

// The culprit is killed while the others wait for it in shared memory: they still spin (timeout 0,
// with a core for each), or sleep. They say how long they waited after that.
int wait_for_killed(const Part& part, Communicator& host, int (*make_unnamed)()) {
  const auto comm = make_shared_memory_communicator(host, {.make_unnamed = make_unnamed});
  const at::Tensor sum = comm->allocate({1'000'000}, at::kFloat).fill_(1);
  comm->all_reduce(sum, ReduceOp::kSum).wait();
  if (host.rank() == part.culprit) {
    sleep_seconds(part.timeout);
    ::raise(SIGKILL);
  }
  const auto began = std::chrono::steady_clock::now();
  try {
    comm->all_reduce(sum, ReduceOp::kSum).wait();
  } catch (const CommError& error) {
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - began;
    say(str("rank ", host.rank(), " waited ", fixed(waited.count(), 3), " s: ", error.what()));
  }
  ::_exit(76);  // without MPI, which would wait for the dead rank
}

int run(const Part& part, MpiSession& session) {
  const World& world = session.world();
  if (part.mode == "world") {
    say(str("rank ", world.rank, " of ", world.size, ", local ", world.local_rank, " of ",
            world.local_size, " of the host of rank ", world.host, ", ", mpi_library_version()));
    return 0;
  }
  if (part.mode == "affinity") {
    const int count = widen_affinity(world).cores;
    say(str("rank ", world.rank, " may use ", count, ": ", cores()));
    return 0;
  }
  if (part.mode == "code") return world.rank == part.culprit ? 75 : 0;

  const auto comm = make_host_communicator(world);
  if (part.mode == "killed in memfd") return wait_for_killed(part, *comm, make_memfd);
  if (part.mode == "killed in /dev/shm") return wait_for_killed(part, *comm, testing::no_memfd);
  Watchdog watchdog(world, part.timeout, [&](const PeerError& stall) {
    log::error(stall.what());
    session.abort(stall.exit_code());
  });
  // One rank makes no progress for longer than the timeout while others do; then it is late for
  // the end.
  if (part.mode == "late") {
    if (world.rank == part.culprit) {
      sleep_seconds(1.5 * part.timeout);
    } else {
      for (int i = 0; i < 30; ++i) {
        watchdog.progress("data", i);
        sleep_seconds(1.5 * part.timeout / 30);
      }
    }
    watchdog.close();
    say("ended");
    return 0;
  }
  if (part.mode == "missing") {  // one rank never reaches the end
    if (world.rank == part.culprit) {
      watchdog.progress("checkpoint", 40);
      sleep_seconds(600);
    }
    watchdog.close();
    return 0;
  }
  say(str("pid ", ::getpid()));
  train(part, world, *comm, watchdog, 2.5 * part.timeout);
  watchdog.close();
  say("ended");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Part part{argc > 1 ? argv[1] : "world", argc > 2 ? std::atoi(argv[2]) : 0,
                  argc > 3 ? std::atof(argv[3]) : 2};
  if (part.mode == "hint") {
    say(str("hint ", launcher_rank_hint(), ", on its host ", launcher_local_rank_hint()));
    return 0;
  }
  std::optional<MpiSession> session;
  try {
    session.emplace(&argc, &argv);
    log::set_rank(session->world().rank, session->world().size);
    return session->close(run(part, *session));
  } catch (const Error& error) {
    log::error(error.what());
    if (session) session->abort(error.exit_code());
    return error.exit_code();
  }
}
