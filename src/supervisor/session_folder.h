#pragma once

// A folder for the temporary files of one job: Open MPI keeps its sockets and session folders
// there, and leaves them behind where it is killed. It is removed with all that is in it, and so is
// shared memory that no process uses any longer.

#include <filesystem>

#include "core/clock.h"
#include "os/file_lock.h"

namespace dtrain::supervisor {

class SessionFolder {
 public:
  // Makes the folder in TMPDIR or /tmp. OutputError. Also removes those that killed supervisors of
  // this user left there. Borrows the clock; `shared_memory` is where segments are.
  explicit SessionFolder(const Clock& = real_clock(),
                         std::filesystem::path shared_memory = "/dev/shm");
  ~SessionFolder();
  SessionFolder(const SessionFolder&) = delete;
  SessionFolder& operator=(const SessionFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Until no rank uses it for temporary files (TMPDIR), for at most `seconds`.
  void wait_until_unused(double seconds) const;

 private:
  const Clock& clock_;
  const std::filesystem::path shared_memory_;
  std::filesystem::path path_;
  FileLock lock_;
  // Earlier where a killed supervisor left segments that are too young
  Clock::Wall::time_point made_;
};

// Removes the segments of shared memory in `folder` (/dev/shm) that Open MPI or dtrain made for
// this user after `since`, and that no process maps. What is younger than two seconds stays: its
// process may be about to map it. Returns whether none of these stayed.
bool remove_unused_segments(const std::filesystem::path& folder, Clock::Wall::time_point since,
                            const Clock&);

}  // namespace dtrain::supervisor
