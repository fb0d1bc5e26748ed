#pragma once

// What a conversion has done so far, on disk, so that a killed one goes on where it was: a folder with `samples` (input
// and target of one sample after the other, of any sizes, in the order in which they were done) and `journal` (one line
// per sample, with the place of its bytes, appended after them; a torn last line is ignored). A folder of other
// settings or another sample list is started afresh; samples whose bytes do not match their journal line, damaged ones
// and those whose source has changed are done again. Errors: OutputError (full disk, not writable, used by another
// conversion). The folder outlives this object if it holds anything that need not be done again. Thread-safety: all
// methods but remove() may be called from any thread, for different samples.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/file_descriptor.h"
#include "core/file_lock.h"

namespace dtrain::convert {

using ByteSpan = std::span<const std::byte>;

struct Outcome {
  enum class Kind : char { kOpen = 'o', kKept = 'k', kBeyondRange = 'r', kDamaged = 'd' };
  Kind kind = Kind::kOpen;
  uint64_t checksum = 0;  // of the kept bytes: input, then target
  int64_t offset = 0, input_bytes = 0, target_bytes = 0;
  int64_t version = 0;   // of the source that it was read from
  std::string reason{};  // of damage
};

class Spool {
 public:
  // `fingerprint` stands for everything that decides the content, but the sources' own: `version_of(sample)` tells one
  // content of a sample's source from the next (empty: they never change).
  Spool(const std::filesystem::path& folder, uint64_t fingerprint, int64_t samples,
        const std::function<int64_t(int64_t)>& version_of = {});
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  const Outcome& outcome(int64_t sample) const { return outcomes_[static_cast<size_t>(sample)]; }
  int64_t resumed() const { return resumed_; }  // samples found done at construction

  // `version`: of before it was read.
  void keep(int64_t sample, ByteSpan input, ByteSpan target, int64_t version = 0);
  void beyond_range(int64_t sample, int64_t version = 0);
  void damaged(int64_t sample, const std::string& reason);

  std::vector<std::byte> read(int64_t sample) const;  // of a kept sample: input, then target
  void remove();                                      // the folder; nothing may be called after it

 private:
  void record(int64_t sample, Outcome);
  void discard() noexcept;
  void start_afresh(const std::string& header);
  bool resume(const std::string& header, const std::function<int64_t(int64_t)>& version_of);

  std::filesystem::path folder_;
  std::vector<Outcome> outcomes_;
  int64_t resumed_ = 0;
  FileLock in_use_;
  FileDescriptor journal_, bytes_;
  std::atomic<int64_t> end_{0};  // of the samples' bytes
  std::mutex lock_;              // of the journal
};

}  // namespace dtrain::convert
