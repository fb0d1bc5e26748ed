#include "supervisor/session_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/error.h"
#include "text/strings.h"

namespace dtrain::supervisor {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "dtrain-launch.", kUnlocked = "dtrain-starts.";
// Held while the supervisor lives, on whatever host or in whatever container
constexpr const char* kLock = "lock";
constexpr std::chrono::seconds kMayNotBeMappedYet{2}, kLongestStart{60};

using WallTime = Clock::Wall::time_point;

// When a file that is there was made; where its file system does not tell, when it was last
// changed, which for shared memory is about when a process last wrote to it.
std::optional<WallTime> made_at(const fs::path& file) {
  struct statx status {};
  if (::statx(AT_FDCWD, file.c_str(), AT_SYMLINK_NOFOLLOW, STATX_BTIME | STATX_CTIME, &status) != 0)
    return std::nullopt;
  const statx_timestamp& time =
      (status.stx_mask & STATX_BTIME) != 0 ? status.stx_btime : status.stx_ctime;
  return WallTime(
      std::chrono::seconds(time.tv_sec) +
      std::chrono::duration_cast<WallTime::duration>(std::chrono::nanoseconds(time.tv_nsec)));
}

// When a supervisor of this user made the folder; nullopt if that supervisor still runs.
std::optional<WallTime> left_behind_since(const fs::path& folder, const Clock& clock) {
  struct stat status {};
  const std::string name = folder.filename().string();
  const bool starts = name.starts_with(kUnlocked);
  if ((!starts && !name.starts_with(kPrefix)) || ::lstat(folder.c_str(), &status) != 0)
    return std::nullopt;
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid()) return std::nullopt;
  if (starts) {
    const std::optional<WallTime> made = made_at(folder);
    return made && clock.wall() - *made > kLongestStart ? made : std::nullopt;
  }
  if (!is_free(folder / kLock))
    return std::nullopt;           // where there are no locks, nothing says that it is left
  return made_at(folder / kLock);  // which is not changed later; mpirun changes the folder
}

// Whether `is_it` is true of the folder in /proc of any process.
template <typename IsIt>
bool any_process(const IsIt& is_it) {
  std::error_code ignored;
  for (fs::directory_iterator entry("/proc", ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    if (is_it(entry->path())) return true;
  }
  return false;
}

// The files below `folder` that any process maps, of those that this user may look at.
std::set<std::string> mapped_files(const fs::path& folder) {
  std::set<std::string> mapped;
  any_process([&](const fs::path& process) {
    std::ifstream maps(process / "maps");
    for (std::string line; std::getline(maps, line);) {
      const size_t path = line.find(folder.string() + "/");
      if (path != std::string::npos) mapped.insert(line.substr(path));
    }
    return false;  // all of them
  });
  return mapped;
}

// By a rank, whose environment names it. So does that of mpirun's remote shells, which may outlive
// mpirun for long.
bool is_used(const fs::path& folder) {
  const std::string variable = str("TMPDIR=", folder.string());
  return any_process([&](const fs::path& process) {
    bool is_there = false, is_rank = false;
    std::ifstream variables(process / "environ");
    for (std::string one; std::getline(variables, one, '\0');) {
      is_there = is_there || one == variable;
      is_rank = is_rank || one.starts_with("OMPI_COMM_WORLD_RANK=");
    }
    return is_there && is_rank;
  });
}

}  // namespace

bool remove_unused_segments(const fs::path& folder, WallTime since, const Clock& clock) {
  std::vector<std::pair<fs::path, WallTime>> ours;
  std::error_code ignored;
  for (fs::directory_iterator entry(folder, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with("vader_segment.") && !name.starts_with("dtrain-")) continue;
    struct stat status {};
    if (::lstat(entry->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    const std::optional<WallTime> made = made_at(entry->path());
    if (status.st_uid == ::geteuid() && made && *made >= since)
      ours.emplace_back(entry->path(), *made);
  }
  if (ours.empty()) return true;
  const WallTime now = clock.wall();
  const std::set<std::string> mapped = mapped_files(folder);
  bool all = true;
  for (const auto& [segment, made] : ours) {
    if (mapped.contains(segment.string())) continue;
    if (now - made > kMayNotBeMappedYet) {
      fs::remove(segment, ignored);
    } else {
      all = false;
    }
  }
  return all;
}

namespace {

// Returns since when segments may have been made that could not be removed yet; in the
// future: none.
WallTime remove_left_behind(const fs::path& parent, const fs::path& shared_memory,
                            const Clock& clock) {
  WallTime earliest = WallTime::max();
  std::error_code ignored;
  for (fs::directory_iterator entry(parent, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    const std::optional<WallTime> since = left_behind_since(entry->path(), clock);
    if (!since) continue;
    std::error_code unremoved;
    fs::remove_all(entry->path(), unremoved);
    if (!remove_unused_segments(shared_memory, *since, clock))
      earliest = std::min(earliest, *since);
  }
  return earliest;
}

}  // namespace

SessionFolder::SessionFolder(const Clock& clock, fs::path shared_memory)
    : clock_(clock), shared_memory_(std::move(shared_memory)) {
  std::error_code unknown;
  const fs::path parent = fs::temp_directory_path(unknown);
  const fs::path folder = unknown ? fs::path("/tmp") : parent;
  made_ = clock_.wall();
  made_ = std::min(made_, remove_left_behind(folder, shared_memory_, clock_));
  const auto fail = [&](int code) {
    throw OutputError(str("cannot create a folder for temporary files in ", folder.string(), ": ",
                          std::strerror(code), ": set TMPDIR to another folder"));
  };
  // Another supervisor removes a folder whose lock is free: this one gets its name once the lock
  // is held.
  constexpr std::string_view kRandom = "XXXXXX";
  std::string name = (folder / str(kUnlocked, kRandom)).string();
  if (::mkdtemp(name.data()) == nullptr) fail(errno);
  lock_ = FileLock(fs::path(name) / kLock, str(name, " is in use"), "");
  path_ = folder / str(kPrefix, name.substr(name.size() - kRandom.size()));
  if (::rename(name.c_str(), path_.c_str()) != 0) fail(errno);
  // The clock of files may be a few milliseconds behind the other one.
  made_ = std::min(made_, made_at(path_ / kLock).value_or(made_));
}

void SessionFolder::wait_until_unused(double seconds) const {
  const auto began = clock_.now();
  while (is_used(path_) && seconds_between(began, clock_.now()) < seconds) {
    clock_.sleep_for(std::chrono::milliseconds(50));
  }
}

SessionFolder::~SessionFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  // Those of a job that was killed a moment ago are as young as those of another job that begins.
  const auto end = clock_.now() + kMayNotBeMappedYet + std::chrono::milliseconds(100);
  for (bool last = false; !last;) {
    last = clock_.now() >= end;
    if (remove_unused_segments(shared_memory_, made_, clock_)) break;
    clock_.sleep_for(std::chrono::milliseconds(100));
  }
}

}  // namespace dtrain::supervisor
