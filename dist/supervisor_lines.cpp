#include "dist/supervisor_lines.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "text/strings.h"
#include "text/utf8.h"

namespace dtrain::dist {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFailureMark = "dtrain-failure ", kRunMark = "dtrain-run ";
constexpr size_t kLongestText = 2000;

// Each record lists its fields once, for the writer and the reader.
template <typename Visitor>
void fields(Visitor& v, FailureRecord& f) {
  v("rank", f.rank);
  v("host", f.host);
  v("culprit", f.culprit);
  v("kind", f.kind);
  v("exit_code", f.exit_code);
  v("text", f.text);
}

template <typename Visitor>
void fields(Visitor& v, HeldRun& f) {
  v("folder", f.folder);
}

struct Writer {
  Json json = Json::object();
  void operator()(const char* name, int value) { json[name] = value; }
  void operator()(const char* name, const std::string& value) {
    json[name] = utf8_beginning(value, kLongestText);
  }
  void operator()(const char* name, const std::optional<int>& value) {
    json[name] = value ? Json(*value) : Json();
  }
  void operator()(const char* name, FailureKind value) { json[name] = name_of(value); }
};

struct Reader {
  const Json& json;
  bool good = true;
  void operator()(const char* name, int& value) {
    const Json& found = at(name);
    good = good && found.is_number_unsigned() && std::in_range<int>(found.get<uint64_t>());
    if (good) value = found.get<int>();
  }
  void operator()(const char* name, std::string& value) {
    good = good && at(name).is_string();
    if (good) value = at(name).get<std::string>();
  }
  void operator()(const char* name, std::optional<int>& value) {
    if (!at(name).is_null()) operator()(name, value.emplace());
  }
  void operator()(const char* name, FailureKind& value) {
    std::string text;
    operator()(name, text);
    const std::optional<FailureKind> known = value_named<FailureKind>(text);
    good = good && known;
    if (good) value = *known;
  }

 private:
  const Json& at(const char* name) {
    static const Json kMissing = Json::array();  // a type that no field has
    const auto found = json.find(name);
    return found == json.end() ? kMissing : *found;
  }
};

// ASCII, whatever the texts are: bytes that are not UTF-8 are replaced.
template <typename Record>
std::string to_json(Record record) {
  Writer writer;
  fields(writer, record);
  return writer.json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

template <typename Record>
std::optional<SupervisorLine> parse(std::string_view line, std::string_view mark) {
  const size_t begin = line.find(mark);
  if (begin == line.npos) return std::nullopt;
  const Json json =
      Json::parse(line.substr(begin + mark.size()), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  Record record;
  Reader reader{json};
  fields(reader, record);
  if (!reader.good) return std::nullopt;
  return SupervisorLine{line.substr(0, begin), std::move(record)};
}

}  // namespace

FailureKind kind_of(int exit_code) {
  using enum FailureKind;
  const std::pair<int, FailureKind> kinds[] = {
      {UsageError("").exit_code(), kUsage},   {DataError("").exit_code(), kData},
      {DeviceError("").exit_code(), kDevice}, {OutputError("").exit_code(), kOutput},
      {CommError("").exit_code(), kComm},     {CheckpointError("").exit_code(), kCheckpoint},
      {ConfigError("").exit_code(), kConfig}, {NumericsError("").exit_code(), kNumerics}};
  for (const auto& [code, kind] : kinds) {
    if (code == exit_code) return kind;
  }
  return kInternal;
}

std::string json_of(const FailureRecord& record) { return to_json(record); }
std::string line_of(const FailureRecord& record) { return str(kFailureMark, to_json(record)); }
std::string line_of(const HeldRun& run) { return str(kRunMark, to_json(run)); }

std::optional<SupervisorLine> parse_supervisor_line(std::string_view line) {
  std::optional<SupervisorLine> found = parse<FailureRecord>(line, kFailureMark);
  return found ? found : parse<HeldRun>(line, kRunMark);
}

}  // namespace dtrain::dist
