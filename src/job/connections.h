#pragma once

// What ties the ranks of a run together while they work: the communicators of gradients and of
// batch norm's sums, the watchdog that ends the job when all ranks stall, and files whose bytes
// count as progress for it. From the constructor on ranks wait for each other.
//
// Thread-safety: the training thread. Ownership: borrows the process. Objects that borrow a part of
// this, such as a checkpoint store or a trainer, must be destroyed first.

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "config/config.h"
#include "dist/failure.h"
#include "dist/metered_communicator.h"
#include "dist/watchdog.h"
#include "job/process_context.h"
#include "os/file_system.h"

namespace dtrain::job {

class Connections {
 public:
  // Collective. CommError, DeviceError.
  Connections(ProcessContext&, const config::Config&);
  ~Connections();
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  dist::MeteredCommunicator& gradients() const { return *gradients_; }
  // Null unless the ranks share batch norm's statistics.
  dist::MeteredCommunicator* statistics() const { return statistics_.get(); }
  dist::Watchdog& watchdog() { return watchdog_; }
  FileSystem& files() { return *files_; }

 private:
  [[noreturn]] void end_job(const dist::PeerError& stall);
  std::vector<dist::Failure> failed_communicators();  // runs on the watchdog's thread

  ProcessContext& process_;
  std::mutex asked_mutex_;
  // The communicators by name, for the watchdog's thread.
  std::vector<std::pair<const char*, dist::Communicator*>> asked_;
  dist::Watchdog watchdog_;
  std::unique_ptr<FileSystem> files_;
  std::unique_ptr<dist::MeteredCommunicator> gradients_, statistics_;
};

}  // namespace dtrain::job
