#pragma once

// The finished samples of a conversion on disk, so that an interrupted conversion can be resumed. The spool is a folder
// with two files: `samples` has the input and target of each sample, in the order in which they were finished;
// `journal` has one line per sample with the place of its bytes, appended after they are written. An incomplete last
// line is ignored.
//
// The spool starts again empty if the settings or the list of samples differ. Samples are converted again if their
// bytes do not match their journal line, if they were damaged, or if their source has changed. The destructor keeps the
// folder only if it has samples that need not be converted again.
//
// Errors: OutputError (full disk, not writable, used by another conversion, a link among its files). Thread-safety: all
// methods except remove() may be called from any thread, for different samples.

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
  uint64_t checksum = 0;  // of the stored bytes: input, then target
  int64_t offset = 0, input_bytes = 0, target_bytes = 0;
  int64_t version = 0;   // version of the source
  std::string reason{};  // of the damage
};

class Spool {
 public:
  // `fingerprint` identifies the settings and the list of samples. `version_of(sample)` changes whenever the sample's
  // source changes (empty: sources never change).
  Spool(const std::filesystem::path& folder, uint64_t fingerprint, int64_t samples,
        const std::function<int64_t(int64_t)>& version_of = {});
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  const Outcome& outcome(int64_t sample) const { return outcomes_[static_cast<size_t>(sample)]; }
  int64_t resumed() const { return resumed_; }  // number of finished samples found at construction

  // Record the outcome of a sample. `version` is that of its source before it was read.
  void keep(int64_t sample, ByteSpan input, ByteSpan target, int64_t version = 0);
  void beyond_range(int64_t sample, int64_t version = 0);
  void damaged(int64_t sample, const std::string& reason);

  std::vector<std::byte> read(int64_t sample) const;  // input, then target, of a kept sample
  void remove();                                      // removes the folder; call nothing after it

 private:
  void record(int64_t sample, Outcome);
  void discard() noexcept;
  void start_again(const std::string& header);
  bool resume(const std::string& header, const std::function<int64_t(int64_t)>& version_of);

  std::filesystem::path folder_;
  std::vector<Outcome> outcomes_;
  int64_t resumed_ = 0;
  FileLock in_use_;
  FileDescriptor journal_, bytes_;
  std::atomic<int64_t> end_{0};  // end of the data in `samples`
  std::mutex lock_;              // guards the journal
};

}  // namespace dtrain::convert
