#include "dist/process_limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <system_error>

#include "core/error.h"
#include "text/strings.h"

namespace dtrain::dist {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr rlim_t kFewestFiles = 64;
constexpr rlim_t kMostFiles = 4096;
constexpr rlim_t kStackBytes = kMiB;  // Windows' default, on which LibTorch runs too
// Open MPI 4.1 with its usual settings. The first two are measured with limits and tmpfs mounts of
// several sizes: with less, MPI_Init ends with text of PMIx, or mpirun hangs. The third is
// its btl_vader_segment_size.
constexpr uint64_t kFileBytes = 5 * kMiB;
constexpr uint64_t kSessionBytes = 16 * kMiB;
constexpr uint64_t kSharedBytesPerRank = 4 * kMiB;

uint64_t free_bytes(const std::filesystem::path& folder) {
  std::error_code unknown;
  const std::filesystem::space_info space = std::filesystem::space(folder, unknown);
  return unknown ? std::numeric_limits<uint64_t>::max() : space.available;
}

}  // namespace

void raise_open_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = std::min(limit.rlim_max, kMostFiles);
  if (limit.rlim_cur < wanted) {
    limit.rlim_cur = wanted;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  if (limit.rlim_cur >= kFewestFiles) return;
  throw UsageError(str("this process may open ", limit.rlim_cur,
                       " files (ulimit -Hn), and dtrain needs ", kFewestFiles,
                       " or more: start it from a shell with a higher limit"));
}

void require_stack() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kStackBytes) return;
  throw UsageError(
      str("this process may have a stack of ", human_bytes(static_cast<double>(limit.rlim_cur)),
          " (ulimit -s), and dtrain needs ", human_bytes(static_cast<double>(kStackBytes)),
          " or more: start it from a shell with a higher limit"));
}

MpiRoom mpi_room(const std::filesystem::path& folder, int local_ranks) {
  rlimit limit{};
  return {.file_bytes = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY,
          .folder = folder,
          .folder_bytes = free_bytes(folder),
          .shared_bytes = free_bytes("/dev/shm"),
          .local_ranks = local_ranks};
}

std::string missing_for_mpi(const MpiRoom& room) {
  if (room.file_bytes < kFileBytes) {
    return str("this process may write files of ",
               human_bytes(static_cast<double>(room.file_bytes)), " (ulimit -f), and MPI needs ",
               human_bytes(kFileBytes), ": start it from a shell with a higher limit");
  }
  if (room.folder_bytes < kSessionBytes) {
    return str(room.folder.string(), " has ", human_bytes(static_cast<double>(room.folder_bytes)),
               " free, and MPI needs ", human_bytes(kSessionBytes),
               " for its session: free some space, or set TMPDIR to another folder");
  }
  return "";
}

std::string no_shared_memory(const MpiRoom& room) {
  const uint64_t needed = kSharedBytesPerRank * static_cast<uint64_t>(room.local_ranks);
  if (room.local_ranks == 1 || room.shared_bytes >= needed) return "";
  return str("/dev/shm has ", human_bytes(static_cast<double>(room.shared_bytes)), " free, and ",
             room.local_ranks, " ranks need ", human_bytes(static_cast<double>(needed)),
             " for the messages of MPI: these take TCP, which is slower (gradients of CPU ranks of "
             "one host take memory of their own, but with dist.backend mpi). Remove old files "
             "there, or give a container more (docker run --shm-size)");
}

}  // namespace dtrain::dist
