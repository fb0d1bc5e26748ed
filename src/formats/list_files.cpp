#include "formats/list_files.h"

#include <glob.h>

#include <algorithm>
#include <set>
#include <system_error>

#include "core/error.h"
#include "os/output_guard.h"
#include "text/strings.h"

namespace dtrain::formats {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> files_below(const std::string& folder,
                                     const std::vector<std::string>& extensions,
                                     ToolFiles& left_out) {
  std::vector<std::string> files;
  std::error_code code;
  fs::recursive_directory_iterator at(folder, fs::directory_options::follow_directory_symlink,
                                      code);
  fs::path present = folder;
  for (; !code && at != fs::recursive_directory_iterator(); at.increment(code)) {
    present = at->path();
    std::error_code no_folder;  // a broken link counts as a file, which cannot be read
    const bool is_folder = at->is_directory(no_folder);
    if (left_out.takes(present) || leads_back(present)) {
      if (is_folder) at.disable_recursion_pending();
    } else if (!is_folder && has_extension(present, extensions)) {
      files.push_back(present.string());
    }
  }
  if (code) throw DataError(str("cannot read the folder ", present.string(), ": ", code.message()));
  if (files.empty())
    throw DataError(str(folder, " has no files that end in ", join(extensions, ", ")));
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> matches(const std::string& pattern) {
  glob_t found{};
  const int code = ::glob(pattern.c_str(), 0, nullptr, &found);
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + (code == 0 ? found.gl_pathc : 0));
  ::globfree(&found);
  if (code == GLOB_NOMATCH) throw DataError("nothing matches " + pattern);
  if (code != 0) throw DataError("cannot look for " + pattern);
  return paths;
}

}  // namespace

std::vector<std::string> list_files(const std::vector<std::string>& inputs,
                                    const std::vector<std::string>& extensions,
                                    ToolFiles& left_out) {
  std::vector<std::string> files;
  std::set<std::string> seen;
  const auto add = [&](const std::string& path) {
    std::error_code code;
    if (!fs::exists(fs::symlink_status(path, code))) {
      throw DataError(
          str("no such file or folder: ", path,
              code && code != std::errc::no_such_file_or_directory ? ": " + code.message() : ""));
    }
    const bool folder = fs::is_directory(path, code);
    for (const std::string& file :
         folder ? files_below(path, extensions, left_out) : std::vector<std::string>{path}) {
      if (seen.insert(fs::path(file).lexically_normal().string()).second) files.push_back(file);
    }
  };
  for (const std::string& input : inputs) {
    std::error_code code;
    if (input.find_first_of("*?[") == std::string::npos ||
        fs::exists(fs::symlink_status(input, code))) {
      add(input);
    } else {
      for (const std::string& path : matches(input)) {
        // Only a pattern that asks for hidden names matches them.
        if (fs::path(path).filename().string().starts_with('.') || !left_out.takes(path)) add(path);
      }
    }
  }
  return files;
}

std::vector<fs::path> folder_entries(const fs::path& folder, ToolFiles& left_out) {
  std::vector<fs::path> entries;
  std::error_code code;
  fs::directory_iterator at(folder, code);
  for (; !code && at != fs::directory_iterator(); at.increment(code)) {
    if (!left_out.takes(at->path())) entries.push_back(at->path());
  }
  if (code) throw DataError(str("cannot read the folder ", folder.string(), ": ", code.message()));
  std::sort(entries.begin(), entries.end());
  return entries;
}

bool has_extension(const fs::path& file, const std::vector<std::string>& extensions) {
  const std::string extension = lower_case(file.extension().string());
  return std::find(extensions.begin(), extensions.end(), extension) != extensions.end();
}

bool leads_back(const fs::path& link) {
  std::error_code code;
  if (!fs::is_symlink(fs::symlink_status(link, code)) || !fs::is_directory(link, code))
    return false;
  const fs::path target = fs::canonical(link, code), above = fs::absolute(link, code).parent_path();
  // Compares each parent folder by identity, because the path itself may contain other links.
  for (fs::path folder = above; !code; folder = folder.parent_path()) {
    if (fs::equivalent(folder, target, code)) return true;
    if (folder == folder.parent_path()) break;
  }
  return false;
}

bool is_hdf5(const fs::path& file) {
  return has_extension(file, {".h5", ".hdf5"}) || begins_as_hdf5(file);
}

}  // namespace dtrain::formats
