#pragma once

// Opens data files with the HDF5 library in another process. A damaged or malicious file can crash
// the library, or make it loop or allocate memory without end; then only that process ends, and the
// caller gets a DataError.
//
// The constructor forks a helper, which stays as this process was: without MPI, CUDA and threads.
// For each file the helper forks a worker with limits of time and memory, which reads the file's
// structure and sends it back as plain bytes. The caller then reads samples at the offsets in it,
// without the library. The helper ends with this process, however this process ends.
//
// Thread-safety: one thread at a time.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>

#include "data/hdf5/layout.h"
#include "os/file_descriptor.h"

namespace dtrain::data {

// Limits for one file. A valid file needs a few milliseconds, and a few MiB besides what its
// longest attribute takes.
struct ProbeLimits {
  std::chrono::seconds processor{20};
  std::chrono::seconds wall{120};  // a network file system may be slow
  int64_t bytes = int64_t{1} << 30;
};

class ProbeProcess {
 public:
  using Probe = std::function<Layout(const std::filesystem::path&)>;

  // Forks. Requires: this process has one thread, and neither MPI nor CUDA has been started.
  // `probe` is what a worker runs on a file: whatever it does, this process goes on. If the fork
  // fails, the first probe() throws, not this.
  explicit ProbeProcess(ProbeLimits limits = {}, Probe probe = data::probe);
  ~ProbeProcess();  // ends the helper and waits for it
  ProbeProcess(const ProbeProcess&) = delete;
  ProbeProcess& operator=(const ProbeProcess&) = delete;

  // data::probe(file) in a worker. DataError as it throws, and for a file that crashed the worker
  // or reached one of its limits; the next call has a new worker. Error if there is no helper, or
  // if it cannot start a worker.
  Layout probe(const std::filesystem::path& file);

  int helper() const { return helper_; }  // its process id; -1: it could not be started

 private:
  ProbeLimits limits_;
  int helper_ = -1;
  int fork_error_ = 0;  // errno
  FileDescriptor socket_;
};

}  // namespace dtrain::data
