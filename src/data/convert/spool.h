#pragma once

// What a conversion has done so far, on disk, so that a killed one goes on where it was: a folder with `slots` (the
// bytes of sample i at i × slot size) and `journal` (one line per sample, appended after its bytes; a torn last line is
// ignored). A folder of other settings or another sample list is started afresh; samples whose bytes do not match their
// journal line, and damaged ones, are done again. Errors: OutputError (full disk, not writable, used by another
// conversion); the folder stays. Thread-safety: all methods but remove() may be called from any thread, for different
// samples.

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace dtrain::data {

using Target = std::array<float, 3>;

struct Outcome {
  enum class Kind : char { kOpen = 'o', kKept = 'k', kBeyondRange = 'r', kDamaged = 'd' };
  Kind kind = Kind::kOpen;
  uint64_t checksum = 0;  // of the kept bytes
  Target target{};
  std::string reason;  // of damage
};

class Spool {
 public:
  // `fingerprint` stands for everything that decides the content.
  Spool(const std::filesystem::path& folder, uint64_t fingerprint, int64_t samples, int64_t slot_bytes);
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  const Outcome& outcome(int64_t sample) const { return outcomes_[static_cast<size_t>(sample)]; }
  int64_t resumed() const { return resumed_; }  // samples found done at construction

  void keep(int64_t sample, std::span<const std::byte> bytes, const Target&);
  void beyond_range(int64_t sample, const Target&);
  void damaged(int64_t sample, const std::string& reason);

  void read(int64_t sample, std::span<std::byte> bytes) const;  // of a kept sample
  void remove();                                                // the folder; nothing may be called after it

 private:
  void record(int64_t sample, Outcome);
  void start_afresh(const std::string& header);
  bool resume(const std::string& header);

  std::filesystem::path folder_;
  int64_t slot_bytes_;
  std::vector<Outcome> outcomes_;
  int64_t resumed_ = 0;
  int journal_ = -1, slots_ = -1;
  std::mutex lock_;  // of the journal
};

}  // namespace dtrain::data
