// NCCL: communicators that do not block. Nothing travels between the ranks.

#include <nccl.h>

#include <cstring>

#include "cuda/settings.h"
#include "cuda/stream.h"

struct ncclComm {
  int answers_in_progress = 0;  // that are still to be given
  int64_t operations = 0;
};

namespace {

// A call that does not block is in progress for a while.
ncclResult_t begin(ncclComm_t comm) {
  comm->answers_in_progress = 2;
  return ncclInProgress;
}

ncclResult_t operate(ncclComm_t comm, cudaStream_t stream, const char* name) {
  ++comm->operations;
  if (fake_gpu::launch(stream, name) != cudaSuccess) return ncclUnhandledCudaError;
  return begin(comm);
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id, 7, sizeof *id);
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

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int, ncclUniqueId, int, ncclConfig_t*) {
  *comm = new ncclComm;
  return begin(*comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  const int64_t fails_at = fake_gpu::settings().nccl_fail;
  if (fails_at > 0 && comm->operations >= fails_at) {
    *result = ncclRemoteError;
  } else if (comm->answers_in_progress > 0) {
    --comm->answers_in_progress;
    *result = ncclInProgress;
  } else {
    *result = ncclSuccess;
  }
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t comm,
                           cudaStream_t stream) {
  return operate(comm, stream, "ncclAllReduce");
}
ncclResult_t ncclReduceScatter(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t,
                               ncclComm_t comm, cudaStream_t stream) {
  return operate(comm, stream, "ncclReduceScatter");
}
ncclResult_t ncclAllGather(const void*, void*, size_t, ncclDataType_t, ncclComm_t comm,
                           cudaStream_t stream) {
  return operate(comm, stream, "ncclAllGather");
}
ncclResult_t ncclBroadcast(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t comm,
                           cudaStream_t stream) {
  return operate(comm, stream, "ncclBroadcast");
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) { return begin(comm); }
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}

}  // extern "C"
