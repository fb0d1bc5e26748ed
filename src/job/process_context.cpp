#include "job/process_context.h"

#include <ATen/Parallel.h>

#include <limits>

#include "core/log.h"
#include "device/device.h"
#include "dist/affinity.h"
#include "dist/agree.h"
#include "dist/failure.h"
#include "dist/launcher.h"
#include "dist/make_communicator.h"
#include "os/facts.h"
#include "text/strings.h"

namespace dtrain::job {
namespace {

// The cores of this rank, less those that a time limit of its control group does not let it use.
dist::CoreShare share_cores(const dist::World& world) {
  const dist::CoreShare share = dist::widen_affinity(world);
  const double quota = os::read_cpu_quota().value_or(std::numeric_limits<double>::infinity());
  const dist::CoreShare within = dist::within_quota(share, quota, world.local_size);
  const std::string limit =
      str("the control group's time limit is ", quota, quota == 1 ? " core" : " cores", " for ",
          world.local_size, world.local_size == 1 ? " rank" : " ranks");
  if (world.rank != 0) return within;
  if (quota < world.local_size) {
    log::warning(limit + ": they are stopped for a part of every 0.1 s");
  } else if (within.threads() < share.threads()) {
    log::info(
        str("cores per rank: ", within.threads(), " of ", share.threads(), ", because ", limit));
  }
  return within;
}

}  // namespace

int launch(const config::Device& options, const std::function<int(ProcessContext&)>& body) {
  data::ProbeProcess prober;  // forks, which is forbidden after MPI_Init
  dist::MpiSession mpi(nullptr, nullptr);
  const dist::World& world = mpi.world();
  log::set_rank(world.rank, world.size, world.several_hosts() ? world.node : "");
  int exit_code = 0;
  try {
    const dist::CoreShare cores = share_cores(world);  // before any thread starts
    // Sequences produce denormal gradients, which are very slow on CPUs. Threads started later
    // inherit the setting.
    at::globalContext().setFlushDenormal(true);
    const std::unique_ptr<dist::MeteredCommunicator> host = dist::make_host_communicator(world);
    at::Device device = at::kCPU;
    int threads = 1;
    dist::agree(*host, [&] {
      threads = dist::computing_threads(options.threads, dist::library_variable("OMP_NUM_THREADS"),
                                        cores);
      device = device::choose(options, world.local_rank);
    });
    at::set_num_threads(threads);
    if (world.rank == 0 && device.is_cpu() && options.type == config::DeviceType::kAuto) {
      const std::string why = device::unusable_gpu();
      if (!why.empty()) log::warning(why + ". The CPU is used");
    }
    device::use(device);
    ProcessContext process{world, mpi, device, cores.threads(), threads, *host, prober};
    exit_code = body(process);
  } catch (...) {
    end_job_of_several(mpi);
    const dist::Failure failure = dist::describe(std::current_exception());
    dist::report(failure);
    exit_code = failure.exit_code;
  }
  return mpi.close(exit_code);
}

// The other ranks may be waiting for this one in a collective, so they cannot agree on the failure.
void end_job_of_several(dist::MpiSession& mpi) {
  const dist::Failure failure = dist::describe(std::current_exception());
  if (failure.is_reported || mpi.world().size == 1) return;
  dist::report(failure);
  mpi.abort(failure.exit_code);
}

}  // namespace dtrain::job
