// NCCL: communicators that do not block. Where numbers are not computed, nothing travels between
// the ranks.

#include <nccl.h>

#include <sys/random.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>

#include "cuda/settings.h"
#include "cuda/stream.h"
#include "libraries/exchange.h"

struct ncclComm {
  int answers_in_progress = 0;  // that are still to be given
  // Those that have begun; shared with graphs.
  std::shared_ptr<std::atomic<int64_t>> operations = std::make_shared<std::atomic<int64_t>>(0);
  std::shared_ptr<fake_nccl::Exchange> exchange = {};  // where numbers are computed
  uint64_t captured = 0;                               // operations
};

namespace {

// A call that does not block is in progress for a while.
ncclResult_t begin(ncclComm_t comm) {
  comm->answers_in_progress = 2;
  return ncclInProgress;
}

using fake_nccl::Exchange;

// The operations of all communicators of this process, one after the other as the host issues them,
// or launches a graph that has them (NCCL_LAUNCH_ORDER_IMPLICIT). Without it, two ranks may each
// begin with another communicator's, and wait for each other, as a GPU does that has no room for a
// second one.
class HostOrder {
 public:
  fake_gpu::Point give(const std::shared_ptr<fake_gpu::Queue>& queue,
                       const std::function<void()>& work) {
    if (!is_asked_for() || !fake_gpu::work_waits()) return fake_gpu::give(queue, work);
    const std::lock_guard lock(mutex_);
    fake_gpu::wait_later(queue, last_);
    return last_ = fake_gpu::give(queue, work);
  }

 private:
  static bool is_asked_for() {
    const char* value = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    return value != nullptr && std::atoi(value) != 0;
  }

  std::mutex mutex_;
  fake_gpu::Point last_ = {};
};

HostOrder& host_order() {
  static auto* one = new HostOrder;  // used until the process has ended
  return *one;
}

// Which graph an operation is captured in is the same on all ranks, by NCCL's documentation: the
// number of the operation among those that were captured, 0: it is not in a graph.
uint64_t number_in_graphs(ncclComm_t comm, cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(stream, &status);
  return status == cudaStreamCaptureStatusNone ? 0 : ++comm->captured;
}

// A rank that has left is found by ncclCommGetAsyncError().
ncclResult_t operate(ncclComm_t comm, cudaStream_t stream, const char* name,
                     const std::function<bool(Exchange&)>& move) {
  std::function<void()> work;
  if (comm->exchange != nullptr) {
    work = [exchange = comm->exchange, move, number = number_in_graphs(comm, stream)] {
      if (exchange->agree(number, "an operation is in a graph of some ranks alone"))
        move(*exchange);
    };
  }
  const auto step = [operations = comm->operations, work](const auto& queue) {
    ++*operations;
    return host_order().give(queue, work);
  };
  if (fake_gpu::launch_step(stream, name, step) != cudaSuccess) return ncclUnhandledCudaError;
  return begin(comm);
}

// A name of shared memory that no other communicator has.
void draw(ncclUniqueId* id) {
  uint64_t bits = 0;
  if (::getrandom(&bits, sizeof bits, 0) != sizeof bits) std::abort();
  std::snprintf(id->internal, sizeof id->internal, "/fake_nccl-%016llx",
                static_cast<unsigned long long>(bits));
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  const int given = fake_gpu::settings().nccl_version;
  *version = given != 0 ? given : NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id, 7, sizeof *id);
  if (!fake_gpu::settings().numbers.empty()) draw(id);
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t*) {
  *comm = new ncclComm;
  if (!fake_gpu::settings().numbers.empty())
    (*comm)->exchange = std::make_shared<Exchange>(id.internal, rank, size);
  return begin(*comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  const int64_t fails_at = fake_gpu::settings().nccl_fail;
  if (fails_at > 0 && *comm->operations >= fails_at) {
    *result = ncclRemoteError;
  } else if (comm->answers_in_progress > 0) {
    --comm->answers_in_progress;
    *result = ncclInProgress;
  } else {
    *result = ncclSuccess;
  }
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return operate(comm, stream, "ncclAllReduce",
                 [=](Exchange& ranks) { return ranks.all_reduce(from, to, count, type, op); });
}
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return operate(comm, stream, "ncclReduceScatter",
                 [=](Exchange& ranks) { return ranks.reduce_scatter(from, to, count, type, op); });
}
ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return operate(comm, stream, "ncclAllGather",
                 [=](Exchange& ranks) { return ranks.all_gather(from, to, count, type); });
}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return operate(comm, stream, "ncclBroadcast",
                 [=](Exchange& ranks) { return ranks.broadcast(from, to, count, type, root); });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) { return begin(comm); }
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm->exchange != nullptr) comm->exchange->abort();
  delete comm;
  return ncclSuccess;
}

}  // extern "C"
