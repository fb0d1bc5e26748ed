#include "cli/input_files.h"

#include <glob.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <set>

#include "core/error.h"
#include "core/strings.h"

namespace dtrain::cli {
namespace {

namespace fs = std::filesystem;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::vector<std::string> files_below(const std::string& folder, const std::vector<std::string>& extensions) {
  std::vector<std::string> files;
  std::error_code code;
  fs::recursive_directory_iterator at(folder, code);
  for (; !code && at != fs::recursive_directory_iterator(); at.increment(code)) {
    const fs::path& path = at->path();
    std::error_code ignored;  // a link that leads nowhere is no file
    if (path.filename().string().starts_with('.')) {
      if (at->is_directory(ignored)) at.disable_recursion_pending();
    } else if (at->is_regular_file(ignored) &&
               std::find(extensions.begin(), extensions.end(), lower(path.extension().string())) != extensions.end()) {
      files.push_back(path.string());
    }
  }
  if (code) throw DataError(str("cannot read the folder ", folder, ": ", code.message()));
  if (files.empty()) throw DataError(str(folder, " has no files that end in ", join(extensions, ", ")));
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> matches(const std::string& pattern) {
  glob_t found{};
  const int code = ::glob(pattern.c_str(), 0, nullptr, &found);
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (code == GLOB_NOMATCH) throw DataError(str("nothing matches ", pattern));
  if (code != 0) throw DataError(str("cannot look for ", pattern));
  return paths;
}

}  // namespace

std::vector<std::string> expand_inputs(const std::vector<std::string>& inputs,
                                       const std::vector<std::string>& extensions) {
  std::vector<std::string> files;
  std::set<std::string> seen;
  const auto add = [&](const std::string& path) {
    std::error_code code;
    const bool folder = fs::is_directory(path, code);
    for (const std::string& file : folder ? files_below(path, extensions) : std::vector<std::string>{path}) {
      if (seen.insert(fs::path(file).lexically_normal().string()).second) files.push_back(file);
    }
  };
  for (const std::string& input : inputs) {
    std::error_code code;
    if (input.find_first_of("*?[") == std::string::npos || fs::exists(fs::symlink_status(input, code))) {
      add(input);
    } else {
      for (const std::string& path : matches(input)) add(path);
    }
  }
  return files;
}

bool is_hdf5(const fs::path& file) {
  constexpr std::array<char, 8> kSignature = {'\x89', 'H', 'D', 'F', '\r', '\n', '\x1a', '\n'};
  std::array<char, 8> bytes{};
  std::error_code code;
  if (fs::is_regular_file(file, code)) {
    std::ifstream in(file, std::ios::binary);
    if (in.read(bytes.data(), bytes.size())) return bytes == kSignature;
  }
  const std::string extension = lower(file.extension().string());
  return extension == ".h5" || extension == ".hdf5";
}

}  // namespace dtrain::cli
