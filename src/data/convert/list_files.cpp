#include <glob.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <system_error>

#include "core/error.h"
#include "core/strings.h"
#include "data/convert/files_store.h"
#include "data/convert/read_file.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

std::string extension_of(const fs::path& file) {
  std::string extension = file.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return extension;
}

bool is_hdf5(const fs::path& file) {
  static constexpr std::array<unsigned char, 8> kSignature{0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
  try {
    const auto begin = read_beginning(file, kSignature.size()).bytes;
    return begin.size() == kSignature.size() && std::memcmp(begin.data(), kSignature.data(), kSignature.size()) == 0;
  } catch (const DataError&) {
    return false;  // why it cannot be read is said when it is
  }
}

std::vector<fs::path> in_folder(const fs::path& folder, const std::vector<std::string>& extensions) {
  std::vector<fs::path> files;
  try {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_directory() || entry.path().filename().string().starts_with('.')) continue;
      const std::string extension = extension_of(entry.path());
      if (std::count(extensions.begin(), extensions.end(), extension) > 0) files.push_back(entry.path());
    }
  } catch (const fs::filesystem_error& error) {
    throw DataError(str("cannot read ", folder.string(), ": ", error.code().message()));
  }
  if (files.empty()) throw DataError(str("no files ending in ", join(extensions, ", "), " in ", folder.string()));
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> matching(const std::string& pattern) {
  glob_t found{};
  const int code = ::glob(pattern.c_str(), 0, nullptr, &found);
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + (code == 0 ? found.gl_pathc : 0));
  ::globfree(&found);
  if (paths.empty()) throw DataError("no file matches " + pattern);
  return paths;
}

}  // namespace

std::vector<fs::path> list_files(const std::vector<std::string>& paths, const std::vector<std::string>& extensions) {
  std::vector<fs::path> files;
  const auto add = [&](const std::string& path) {
    if (fs::is_directory(path)) {
      const std::vector<fs::path> inside = in_folder(path, extensions);
      files.insert(files.end(), inside.begin(), inside.end());
    } else if (fs::exists(path)) {
      files.emplace_back(path);
    } else {
      throw DataError(str("no such file or folder: ", path));
    }
  };
  for (const std::string& path : paths) {
    if (!fs::exists(path) && path.find_first_of("*?[") != std::string::npos) {
      for (const std::string& match : matching(path)) add(match);
    } else {
      add(path);
    }
  }
  for (const fs::path& file : files) {
    if (!is_hdf5(file)) continue;
    throw DataError(str(file.string(), " is an HDF5 file, not a raw one ending in ", join(extensions, ", "),
                        ". Give a dtrain data file alone, without other files"));
  }
  return files;
}

}  // namespace dtrain::data
