#include "job/connections.h"

#include "dist/make_communicator.h"
#include "text/strings.h"

namespace dtrain::job {

Connections::Connections(ProcessContext& process, const config::Config& config)
    : process_(process),
      watchdog_(process.world, config.dist.timeout,
                [this](const dist::PeerError& stall) { end_job(stall); }),
      // The disk may take longer than dist.timeout: bytes that reach it count as progress.
      files_(make_moving_files([this] { watchdog_.alive(); },
                               "free some space, or move the run folder to another disk and name "
                               "that with --run.folder")) {
  watchdog_.progress("all_reduce", 0);
  // Batch norm's sums travel during forward and backward, beside the buckets: over a communicator
  // of their own.
  const bool shares_statistics = config.train.sync_batch_norm && process.world.size > 1;
  if (shares_statistics) dist::order_nccl_communicators();
  if (config.train.cuda_graph) dist::keep_nccl_graphs_plain();
  const auto connect = [&] {
    return dist::make_gradient_communicator(process.host, config.dist, process.world,
                                            process.device);
  };
  gradients_ = connect();
  if (shares_statistics) statistics_ = connect();
  {
    const std::lock_guard lock(asked_mutex_);
    asked_ = {{"gradients", gradients_.get()}, {"statistics", statistics_.get()}};
  }
  watchdog_.ask([this] {
    if (!failed_communicators().empty())
      throw dist::PeerError("it waits in a communicator that has failed");
  });
}

// The watchdog outlives the communicators, and must not ask one that is being destroyed: ending it
// may take long.
Connections::~Connections() {
  const std::lock_guard lock(asked_mutex_);
  asked_.clear();
}

void Connections::end_job(const dist::PeerError& stall) {
  dist::report(dist::describe(stall));  // first: it is known, and the answers are not
  for (const dist::Failure& failure : failed_communicators()) dist::report(failure);
  // Ends the process: NCCL's own abort may wait for the training thread.
  process_.mpi.abort(stall.exit_code());
}

// A stall of the whole job may be no more than the consequence of a dead link, which one of them
// alone may know of.
std::vector<dist::Failure> Connections::failed_communicators() {
  const std::lock_guard lock(asked_mutex_);
  std::vector<dist::Failure> failures;
  for (const auto& [name, communicator] : asked_) {
    try {
      if (communicator != nullptr) communicator->check();
    } catch (...) {
      dist::Failure& failure = failures.emplace_back(dist::describe(std::current_exception()));
      failure.message = str("the communicator of the ", name, " says: ", failure.message);
    }
  }
  return failures;
}

}  // namespace dtrain::job
