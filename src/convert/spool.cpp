#include "convert/spool.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include "core/check.h"
#include "core/error.h"
#include "core/file_system.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/number_text.h"
#include "core/strings.h"
#include "data/store.h"

namespace dtrain::convert {
namespace {

// Throws OutputError if `code` is an error.
void check(int code, std::string_view operation, const std::filesystem::path& path) {
  if (code == 0) return;
  if (code == EFBIG) {
    throw OutputError(
        str("cannot ", operation, " ", path.string(), ": ", std::strerror(code),
            ": the finished samples are kept; raise the limit (ulimit -f) and run the same command again"));
  }
  fail_to_write(operation, path, code, "the finished samples are kept; free some space and run the same command again");
}

// Changes the size of the file to `bytes`, and moves the position for write() to its end.
void truncate(const FileDescriptor& file, off_t bytes, const std::filesystem::path& path) {
  const bool done = ::ftruncate(file.get(), bytes) == 0 && ::lseek(file.get(), bytes, SEEK_SET) == bytes;
  if (!done) check(errno, "truncate", path);
}

// Reads a kept sample; false if its bytes are missing or changed. Its sizes can be trusted, because the checksum of its
// journal line was right.
bool read_kept(const FileDescriptor& file, const Outcome& kept, std::vector<std::byte>& bytes) {
  bytes.resize(static_cast<size_t>(kept.input_bytes + kept.target_bytes));
  if (file.read_all_at(bytes, kept.offset) != 0) return false;
  const auto target = bytes.begin() + kept.input_bytes;
  return data::sample_checksum({bytes.begin(), target}, {target, bytes.end()}) == kept.checksum;
}

uint64_t checksum(std::string_view text) { return xxh64(std::as_bytes(std::span(text))); }

// One journal line: its own checksum, which detects incomplete and damaged lines, and then the outcome of the sample.
std::string to_line(int64_t sample, const Outcome& outcome) {
  char text[160];
  std::snprintf(text, sizeof text, "%" PRId64 " %c %016" PRIx64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " ",
                sample, static_cast<char>(outcome.kind), outcome.checksum, outcome.offset, outcome.input_bytes,
                outcome.target_bytes, outcome.version);
  std::string body = text;
  for (const char c : outcome.reason) body += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  return hex(checksum(body)) + " " + body + "\n";
}

bool from_line(const std::string& line, int64_t& sample, Outcome& outcome) {
  constexpr size_t kSum = 17;
  if (line.size() < kSum || parse_hex(line.substr(0, kSum - 1)) != checksum(line.substr(kSum))) return false;
  char kind = 0;
  int reason = 0;
  const std::string body = line.substr(kSum);
  if (std::sscanf(body.c_str(), "%" SCNd64 " %c %" SCNx64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %n",
                  &sample, &kind, &outcome.checksum, &outcome.offset, &outcome.input_bytes, &outcome.target_bytes,
                  &outcome.version, &reason) != 7) {
    return false;
  }
  outcome.kind = static_cast<Outcome::Kind>(kind);
  outcome.reason = body.substr(static_cast<size_t>(reason));
  return true;
}

}  // namespace

Spool::Spool(const std::filesystem::path& folder, uint64_t fingerprint, int64_t samples,
             const std::function<int64_t(int64_t)>& version_of)
    : folder_(folder), outcomes_(static_cast<size_t>(samples)) {
  real_file_system().create_folders(folder_);
  for (const char* name : {"lock", "journal", "samples"}) check_own_file(folder_ / name);
  in_use_ = FileLock(folder_ / "lock", folder_.string() + " is in use by another conversion",
                     "wait for it or give another --out");
  journal_ = open_own_file(folder_ / "journal", "open");
  bool fresh = false;
  try {
    fresh = ::lseek(journal_.get(), 0, SEEK_END) == 0;
    bytes_ = open_own_file(folder_ / "samples", "open");
    const std::string header = str("dtrain conversion 3, settings ", hex(fingerprint), ", ", samples, " samples");
    if (!resume(header, version_of)) start_again(header);
  } catch (...) {
    if (fresh) discard();
    throw;
  }
}

Spool::~Spool() {
  if (!journal_.is_open()) return;
  const bool useful = std::any_of(outcomes_.begin(), outcomes_.end(), [](const Outcome& outcome) {
    return outcome.kind == Outcome::Kind::kKept || outcome.kind == Outcome::Kind::kBeyondRange;
  });
  if (!useful) discard();
}

// Nothing but its own files, and the folder if it is empty then: others may have put theirs there.
void Spool::discard() noexcept {
  std::error_code ignored;
  for (const char* name : {"samples", "journal", "lock"}) std::filesystem::remove(folder_ / name, ignored);
  std::filesystem::remove(folder_, ignored);
}

void Spool::start_again(const std::string& header) {
  truncate(journal_, 0, folder_ / "journal");
  truncate(bytes_, 0, folder_ / "samples");
  const std::string line = header + "\n";
  check(journal_.write_all(std::as_bytes(std::span(line))), "write", folder_ / "journal");
}

bool Spool::resume(const std::string& header, const std::function<int64_t(int64_t)>& version_of) {
  std::string text(static_cast<size_t>(::lseek(journal_.get(), 0, SEEK_END)), '\0');
  if (text.empty()) return false;
  if (journal_.read_all_at(std::as_writable_bytes(std::span(text)), 0) != 0) check(EIO, "read", folder_ / "journal");
  if (!text.starts_with(header + "\n")) {
    log::info(str(folder_.string(), " is from another folder or other settings: starting again"));
    return false;
  }
  size_t good = header.size() + 1;  // the journal is valid up to here
  while (true) {
    const size_t end = text.find('\n', good);
    int64_t sample = -1;
    Outcome outcome;
    if (end == std::string::npos || !from_line(text.substr(good, end - good), sample, outcome)) break;
    if (sample < 0 || sample >= static_cast<int64_t>(outcomes_.size())) break;
    outcomes_[static_cast<size_t>(sample)] = outcome;
    good = end + 1;
  }
  truncate(journal_, static_cast<off_t>(good), folder_ / "journal");

  // After a system crash, the journal may list samples whose bytes are missing. A damaged file may have been fixed.
  std::vector<std::byte> bytes;
  for (size_t sample = 0; sample < outcomes_.size(); ++sample) {
    Outcome& outcome = outcomes_[sample];
    if (outcome.kind == Outcome::Kind::kOpen) continue;
    const bool same = !version_of || version_of(static_cast<int64_t>(sample)) == outcome.version;
    if (same && (outcome.kind == Outcome::Kind::kKept ? read_kept(bytes_, outcome, bytes)
                                                      : outcome.kind == Outcome::Kind::kBeyondRange)) {
      ++resumed_;
      end_ = std::max<int64_t>(end_, outcome.offset + outcome.input_bytes + outcome.target_bytes);
    } else {
      outcome = Outcome{};
    }
  }
  return true;
}

void Spool::record(int64_t sample, Outcome outcome) {
  const std::string line = to_line(sample, outcome);
  const std::lock_guard guard(lock_);
  check(journal_.write_all(std::as_bytes(std::span(line))), "write", folder_ / "journal");
  outcomes_[static_cast<size_t>(sample)] = std::move(outcome);
}

void Spool::keep(int64_t sample, ByteSpan input, ByteSpan target, int64_t version) {
  Outcome outcome{.kind = Outcome::Kind::kKept,
                  .checksum = data::sample_checksum(input, target),
                  .offset = end_.fetch_add(static_cast<int64_t>(input.size() + target.size())),
                  .input_bytes = static_cast<int64_t>(input.size()),
                  .target_bytes = static_cast<int64_t>(target.size()),
                  .version = version};
  check(bytes_.write_all_at(input, outcome.offset), "write", folder_ / "samples");
  check(bytes_.write_all_at(target, outcome.offset + outcome.input_bytes), "write", folder_ / "samples");
  record(sample, std::move(outcome));
}

void Spool::beyond_range(int64_t sample, int64_t version) {
  record(sample, {.kind = Outcome::Kind::kBeyondRange, .version = version});
}

void Spool::damaged(int64_t sample, const std::string& reason) {
  record(sample, {.kind = Outcome::Kind::kDamaged, .reason = reason});
}

std::vector<std::byte> Spool::read(int64_t sample) const {
  std::vector<std::byte> bytes;
  if (!read_kept(bytes_, outcome(sample), bytes)) {
    throw OutputError(str("cannot read sample ", sample, " back from ", (folder_ / "samples").string(),
                          ": it was changed while in use. Remove the folder and convert again"));
  }
  return bytes;
}

void Spool::remove() {
  bytes_.close();
  discard();
  journal_.close();
}

}  // namespace dtrain::convert
