#include "convert/spool.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <type_traits>

#include "core/check.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/random.h"
#include "data/store.h"
#include "os/file_system.h"
#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::convert {
namespace {

// Throws OutputError if `code` is an error.
void check(int code, std::string_view operation, const std::filesystem::path& path) {
  if (code == 0) return;
  if (code == EFBIG) {
    throw OutputError(str("cannot ", operation, " ", path.string(), ": ", std::strerror(code),
                          ": the finished samples are kept; raise the limit (ulimit -f) and run "
                          "the same command again"));
  }
  fail_to_write(operation, path, code,
                "the finished samples are kept; free some space and run the same command again");
}

void empty(const FileDescriptor& file, const std::filesystem::path& path) {
  if (::ftruncate(file.get(), 0) != 0) check(errno, "truncate", path);
}

int64_t size_of(const FileDescriptor& file) { return ::lseek(file.get(), 0, SEEK_END); }

constexpr int64_t kHeaderBytes = 512;
constexpr int64_t kPiece = 4096;  // records that are in memory at once

// A record: the outcome, and a checksum that detects what was not written completely.
struct Record {
  SampleOutcome outcome;
  uint64_t checksum = 0;
};
static_assert(sizeof(Record) == 56 && std::is_trivially_copyable_v<Record>);

int64_t place_of(int64_t sample) {
  return kHeaderBytes + sample * static_cast<int64_t>(sizeof(Record));
}

uint64_t checksum(const SampleOutcome& outcome, int64_t sample, uint64_t fingerprint) {
  return xxh64(std::as_bytes(std::span(&outcome, 1)),
               keyed(fingerprint, static_cast<uint64_t>(sample)));
}

bool matches(ByteSpan bytes, const SampleOutcome& kept) {
  const auto input = static_cast<size_t>(kept.input_bytes);
  return data::sample_checksum(bytes.first(input), bytes.subspan(input)) == kept.checksum;
}

int64_t bytes_of(const SampleOutcome& outcome) {
  return outcome.input_bytes + outcome.target_bytes;
}

}  // namespace

Spool::Spool(const std::filesystem::path& folder, uint64_t fingerprint, int64_t samples,
             const std::function<int64_t(int64_t)>& version_of)
    : folder_(folder), fingerprint_(fingerprint), samples_(samples) {
  real_file_system().create_folders(folder_);
  for (const char* name : {"lock", "journal", "samples"}) check_own_file(folder_ / name);
  in_use_ = FileLock(folder_ / "lock", folder_.string() + " is in use by another conversion",
                     "wait for it or give another --out");
  journal_ = open_own_file(folder_ / "journal", "open");
  bool fresh = false;
  try {
    fresh = size_of(journal_) == 0;
    bytes_ = open_own_file(folder_ / "samples", "open");
    const std::string header =
        str("dtrain conversion 4, settings ", hex(fingerprint), ", ", samples, " samples");
    if (!resume(header, version_of)) start_again(header);
  } catch (...) {
    if (fresh) discard();
    throw;
  }
}

Spool::~Spool() {
  if (journal_.is_open() && !is_useful_) discard();
}

// Nothing but its own files, and the folder if it is empty then: others may have put theirs there.
void Spool::discard() noexcept {
  std::error_code ignored;
  for (const char* name : {"samples", "journal", "lock"})
    std::filesystem::remove(folder_ / name, ignored);
  std::filesystem::remove(folder_, ignored);
}

void Spool::start_again(const std::string& header) {
  empty(journal_, folder_ / "journal");
  empty(bytes_, folder_ / "samples");
  check(journal_.write_all_at(std::as_bytes(std::span(header)), 0), "write", folder_ / "journal");
}

bool Spool::resume(const std::string& header, const std::function<int64_t(int64_t)>& version_of) {
  std::string text(static_cast<size_t>(std::min<int64_t>(size_of(journal_), kHeaderBytes)), '\0');
  if (text.empty()) return false;
  if (journal_.read_all_at(std::as_writable_bytes(std::span(text)), 0) != 0)
    check(EIO, "read", folder_ / "journal");
  if (!text.starts_with(header) ||
      text.find_first_not_of('\0', header.size()) != std::string::npos) {
    log::info(str(folder_.string(), " is from another folder or other settings: starting again"));
    return false;
  }
  // After a system crash, the journal may list samples whose bytes are missing. A damaged file may
  // have been fixed.
  std::vector<std::byte> bytes;
  for_each([&](int64_t sample, const SampleOutcome& outcome) {
    if (outcome.kind == SampleOutcome::Kind::kOpen) return;
    bool good = !version_of || version_of(sample) == outcome.version;
    if (good && outcome.kind == SampleOutcome::Kind::kKept) {
      bytes.resize(static_cast<size_t>(bytes_of(outcome)));
      good = bytes_.read_all_at(bytes, outcome.offset) == 0 && matches(bytes, outcome);
    }
    if (!good || outcome.kind == SampleOutcome::Kind::kDamaged)
      return write_records(sample, std::vector<SampleOutcome>(1));
    ++resumed_;
    end_ = std::max<int64_t>(end_, outcome.offset + bytes_of(outcome));
  });
  is_useful_ = resumed_ > 0;
  return true;
}

std::vector<SampleOutcome> Spool::outcomes(int64_t first, int64_t count) const {
  std::vector<Record> records(static_cast<size_t>(count));
  const int64_t there = size_of(journal_) - place_of(first);
  const auto bytes = std::as_writable_bytes(std::span(records));
  const auto readable =
      static_cast<size_t>(std::clamp<int64_t>(there, 0, static_cast<int64_t>(bytes.size())));
  if (const int code = journal_.read_all_at(bytes.first(readable), place_of(first))) {
    check(code > 0 ? code : EIO, "read", folder_ / "journal");
  }
  std::vector<SampleOutcome> outcomes;
  outcomes.reserve(records.size());
  for (const Record& record : records) {
    const bool whole = record.checksum == checksum(record.outcome, first++, fingerprint_);
    outcomes.push_back(whole ? record.outcome : SampleOutcome{});
  }
  return outcomes;
}

void Spool::for_each(const std::function<void(int64_t, const SampleOutcome&)>& visit) const {
  for (int64_t sample = 0; sample < samples_;) {
    for (const SampleOutcome& outcome : outcomes(sample, std::min(kPiece, samples_ - sample)))
      visit(sample++, outcome);
  }
}

void Spool::write_records(int64_t first, std::span<const SampleOutcome> outcomes) const {
  std::vector<Record> records;
  int64_t sample = first;
  for (const SampleOutcome& outcome : outcomes)
    records.push_back({outcome, checksum(outcome, sample++, fingerprint_)});
  check(journal_.write_all_at(std::as_bytes(std::span(records)), place_of(first)), "write",
        folder_ / "journal");
}

void Spool::keep(int64_t first, std::span<const Finished> samples) {
  std::vector<SampleOutcome> outcomes;
  std::vector<std::byte> bytes;
  size_t size = 0;
  for (const Finished& sample : samples)
    size += sample.input.size() + sample.target.size() + sample.reason.size();
  bytes.reserve(size);
  const auto add = [&](ByteSpan part) {
    bytes.insert(bytes.end(), part.begin(), part.end());
    return static_cast<int64_t>(part.size());
  };
  for (const Finished& sample : samples) {
    SampleOutcome outcome{.kind = sample.kind,
                          .offset = static_cast<int64_t>(bytes.size()),
                          .version = sample.version};
    if (sample.kind == SampleOutcome::Kind::kKept) {
      outcome.checksum = data::sample_checksum(sample.input, sample.target);
      outcome.input_bytes = add(sample.input);
      outcome.target_bytes = add(sample.target);
    } else if (sample.kind == SampleOutcome::Kind::kDamaged) {
      outcome.input_bytes = add(std::as_bytes(std::span(sample.reason)));
    }
    outcomes.push_back(outcome);
  }
  const int64_t begin = end_.fetch_add(static_cast<int64_t>(bytes.size()));
  for (SampleOutcome& outcome : outcomes) {
    outcome.offset += begin;
    if (outcome.kind != SampleOutcome::Kind::kDamaged) is_useful_ = true;
  }
  check(bytes_.write_all_at(bytes, begin), "write", folder_ / "samples");
  write_records(first, outcomes);
}

std::vector<std::byte> Spool::read(std::span<const SampleOutcome> kept) const {
  const int64_t begin = kept.front().offset;
  std::vector<std::byte> bytes(
      static_cast<size_t>(kept.back().offset + bytes_of(kept.back()) - begin));
  bool good = bytes_.read_all_at(bytes, begin) == 0;
  for (const SampleOutcome& outcome : kept) {
    good = good && matches(std::span(bytes).subspan(static_cast<size_t>(outcome.offset - begin),
                                                    static_cast<size_t>(bytes_of(outcome))),
                           outcome);
  }
  if (!good) {
    throw OutputError(str("cannot read samples back from ", (folder_ / "samples").string(),
                          ": it was changed while in use. Remove the folder and convert again"));
  }
  return bytes;
}

std::string Spool::reason(const SampleOutcome& damaged) const {
  std::string text(static_cast<size_t>(damaged.input_bytes), '\0');
  if (bytes_.read_all_at(std::as_writable_bytes(std::span(text)), damaged.offset) != 0) {
    check(EIO, "read", folder_ / "samples");
  }
  return text;
}

void Spool::remove() {
  bytes_.close();
  discard();
  journal_.close();
}

}  // namespace dtrain::convert
