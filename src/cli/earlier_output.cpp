#include "cli/earlier_output.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <string>
#include <string_view>

#include "core/error.h"
#include "formats/list_files.h"

namespace dtrain::cli {
namespace {

bool is_rows_header(std::string_view line) {
  return line.starts_with("input,") && line.ends_with(",error");
}

// The first bytes of rows as JSON lines, of a report of eval, and of a list of quarantined samples.
constexpr std::array<std::string_view, 3> kBeginnings = {
    "{\"input\": \"", "{\n  \"checkpoint\": \"", "{\n  \"file\": \""};

bool is_data_file(data::ProbeProcess& prober, const std::filesystem::path& file) {
  try {
    prober.probe(file);
    return true;
  } catch (const DataError&) {
    return false;
  }
}

}  // namespace

bool is_earlier_output(data::ProbeProcess& prober, const std::filesystem::path& file) {
  if (formats::is_hdf5(file)) return is_data_file(prober, file);
  std::string text(4096, '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  return is_rows_header(std::string_view(text).substr(0, text.find('\n'))) ||
         std::any_of(kBeginnings.begin(), kBeginnings.end(),
                     [&](std::string_view beginning) { return text.starts_with(beginning); });
}

}  // namespace dtrain::cli
