#include "job/class_list.h"

#include <filesystem>
#include <set>
#include <system_error>

#include "checkpoint/safetensors_header.h"
#include "convert/name_list.h"
#include "core/error.h"
#include "data/hdf5/file_store.h"
#include "data/store.h"
#include "formats/list_files.h"
#include "formats/read_file.h"
#include "job/find_checkpoint.h"
#include "text/strings.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace dtrain::job {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> of_weights(const fs::path& file) {
  const auto metadata = checkpoint::read_header(file).metadata;
  const auto found = metadata.find("class_names");
  return found == metadata.end() ? std::vector<std::string>() : split(found->second, '\n');
}

std::vector<std::string> of_text(const fs::path& file) {
  const std::string text = convert::utf8_of_list(formats::read_file(file));
  if (!is_utf8(text) || text.find('\0') != std::string::npos) {
    throw DataError("is neither text with a class name on each line, nor a dtrain data file");
  }
  std::vector<std::string> names;
  for (const std::string& line : split(text, '\n')) {
    const std::string_view name = trimmed(line);
    if (!name.empty()) names.emplace_back(name);
  }
  return names;
}

std::vector<std::string> read_classes(data::ProbeProcess& prober, const fs::path& source) {
  std::error_code unknown;
  if (fs::is_directory(source, unknown)) {
    return of_weights(find_checkpoint({source.string(), ""}).folder / "model.safetensors");
  }
  if (formats::has_extension(source, {".safetensors"})) return of_weights(source);
  if (formats::is_hdf5(source))
    return data::class_names(data::open_file(prober.probe(source))->origin());
  try {
    return of_text(source);
  } catch (const DataError& error) {
    throw DataError(str(source.string(), ": ", error.what()));
  }
}

}  // namespace

std::vector<std::string> classes_of(data::ProbeProcess& prober, const std::string& source) {
  std::vector<std::string> names = read_classes(prober, source);
  if (names.size() < 2) {
    throw DataError(str(source, " names ", names.size(), " classes: --classes needs two or more"));
  }
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (!seen.insert(nfc(name)).second)
      throw DataError(str(source, " names the class ", name, " twice"));
  }
  return names;
}

}  // namespace dtrain::job
