#pragma once

// The finished samples of a conversion on disk, so that an interrupted conversion can be resumed,
// and so that memory does not grow with them. The spool is a folder with two files: `samples` has
// the input and target of each sample, in the order in which they were finished; `journal` has a
// header and then one record per sample, at a place that follows from its number, with the place of
// its bytes. A record is written after the bytes. Records that were not written, or not completely,
// count as open: each has its own checksum.
//
// The spool starts again empty if the settings or the list of samples differ. Samples are converted
// again if their bytes do not match their record, if they were damaged, or if their source has
// changed. The destructor keeps the folder only if it has samples that need not be converted again.
//
// Errors: OutputError (full disk, not writable, used by another conversion, a link among its
// files). Thread-safety: all methods except remove() may be called from any thread, for
// different samples.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "os/file_descriptor.h"
#include "os/file_lock.h"

namespace dtrain::convert {

using ByteSpan = std::span<const std::byte>;

struct SampleOutcome {
  enum class Kind : int64_t { kOpen, kKept, kBeyondRange, kDamaged };
  Kind kind = Kind::kOpen;
  uint64_t checksum = 0;                                  // stored bytes: input, then target
  int64_t offset = 0, input_bytes = 0, target_bytes = 0;  // damaged: the reason is the input
  int64_t version = 0;                                    // version of the source
};

// A sample that was read, or why it could not be.
struct Finished {
  SampleOutcome::Kind kind = SampleOutcome::Kind::kKept;
  ByteSpan input{}, target{};  // set for a kept sample
  int64_t version = 0;         // version of the source before it was read
  std::string reason{};        // what is wrong with a damaged sample
};

class Spool {
 public:
  // `fingerprint` identifies the settings and the list of samples. `version_of(sample)` changes
  // whenever the sample's source changes (empty: sources never change).
  Spool(const std::filesystem::path& folder, uint64_t fingerprint, int64_t samples,
        const std::function<int64_t(int64_t)>& version_of = {});
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  int64_t samples() const { return samples_; }
  int64_t resumed() const { return resumed_; }  // number of finished samples found at construction
  std::vector<SampleOutcome> outcomes(int64_t first, int64_t count) const;
  // Calls `visit` with each sample and its outcome, in order.
  void for_each(const std::function<void(int64_t, const SampleOutcome&)>& visit) const;

  // Records samples that follow each other
  void keep(int64_t first, std::span<const Finished> samples);

  // The bytes of kept samples, which must follow each other in `samples` of the spool: input, then
  // target, of each.
  std::vector<std::byte> read(std::span<const SampleOutcome>) const;
  std::string reason(const SampleOutcome&) const;  // what is wrong with a damaged sample
  void remove();                                   // removes the folder; call nothing after it

 private:
  void discard() noexcept;
  void start_again(const std::string& header);
  bool resume(const std::string& header, const std::function<int64_t(int64_t)>& version_of);
  void write_records(int64_t first, std::span<const SampleOutcome>) const;

  std::filesystem::path folder_;
  uint64_t fingerprint_;
  int64_t samples_, resumed_ = 0;
  FileLock in_use_;
  FileDescriptor journal_, bytes_;
  std::atomic<int64_t> end_{0};          // end of the data in `samples`
  std::atomic<bool> is_useful_ = false;  // has samples that need not be converted again
};

}  // namespace dtrain::convert
