#include "convert/quarantine.h"

#include <fcntl.h>

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <system_error>

#include "os/file_descriptor.h"
#include "os/file_system.h"
#include "text/strings.h"

namespace dtrain::convert {
namespace {

namespace fs = std::filesystem;

std::string json_of(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Writes the list of damaged samples piece by piece, as write_atomically() does with a whole text.
void write_list_of_damaged(const fs::path& file, const fs::path& out, const RawSet& set,
                           const std::vector<Split>& splits, const Spool& spool) {
  constexpr size_t kPiece = size_t{1} << 20;
  const fs::path temporary = temporary_name(file);
  const auto check = [&](const char* operation, int code) {
    if (code != 0) fail_to_write(operation, temporary, code);
  };
  FileDescriptor list;
  check("create", list.open(temporary, O_WRONLY | O_CREAT | O_TRUNC));
  std::string text =
      str("{\n  \"file\": ", json_of(out.filename().string()), ",\n  \"quarantined\": [");
  const auto flush = [&] {
    check("write", list.write_all(std::as_bytes(std::span(text))));
    text.clear();
  };
  const char* separator = "";
  spool.for_each([&](int64_t sample, const SampleOutcome& outcome) {
    if (outcome.kind != SampleOutcome::Kind::kDamaged ||
        splits[static_cast<size_t>(sample)] == Split::kNone)
      return;
    text +=
        str(separator,
            "\n    {\n      \"name\": ", json_of(set.samples().name(static_cast<size_t>(sample))),
            ",\n      \"reason\": ", json_of(spool.reason(outcome)), "\n    }");
    separator = ",";
    if (text.size() >= kPiece) flush();
  });
  text += "\n  ]\n}\n";
  flush();
  check("fsync", list.sync());
  check("close", list.close());
  put_in_place(real_file_system(), temporary, file);
}

}  // namespace

void write_quarantine(const fs::path& out, const RawSet& set, const std::vector<Split>& splits,
                      const Spool& spool, ConvertSummary& summary) {
  const fs::path file = quarantine_file(out);
  if (summary.damaged == 0) {
    std::error_code ignored;
    fs::remove(file, ignored);  // the list of an earlier conversion
    return;
  }
  try {
    write_list_of_damaged(file, out, set, splits, spool);
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary_name(file), ignored);
    throw;
  }
  summary.quarantine_file = file;
}

}  // namespace dtrain::convert
