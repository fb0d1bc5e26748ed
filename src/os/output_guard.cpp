#include "os/output_guard.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "os/file_system.h"
#include "text/strings.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAdvice =
    ". Nothing replaces it, not even --force: give the output another name";

using Identity = std::pair<dev_t, ino_t>;  // the same through every link to a file

std::optional<Identity> identity(const fs::path& path) {
  struct stat status {};
  if (path.empty() || ::stat(path.c_str(), &status) != 0) return std::nullopt;
  return Identity{status.st_dev, status.st_ino};
}

// Without links and dots, whether or not it exists.
fs::path resolved(const fs::path& path) {
  std::error_code code;
  const fs::path full = fs::absolute(link_target(path), code);
  const fs::path canonical = fs::weakly_canonical(full, code);
  return code ? full.lexically_normal() : canonical;
}

// Calls visit(folder) for each folder above a resolved path, the nearest first, until it
// returns true.
template <typename Visit>
bool any_above(const fs::path& path, const Visit& visit) {
  for (fs::path folder = path.parent_path(); !folder.empty(); folder = folder.parent_path()) {
    if (visit(folder)) return true;
    if (folder == folder.parent_path()) break;
  }
  return false;
}

bool there(const fs::path& path) {
  std::error_code code;
  return fs::exists(fs::symlink_status(path, code));
}

// Whether a file of this identity is in the folder, at any depth. Links to folders are followed,
// each folder once.
bool contains(const fs::path& folder, const Identity& file, std::set<Identity>& visited) {
  const std::optional<Identity> own = identity(folder);
  if (!own || !visited.insert(*own).second) return false;
  std::error_code code;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    std::error_code unknown;
    if (at->is_directory(unknown) ? contains(at->path(), file, visited)
                                  : identity(at->path()) == file)
      return true;
  }
  if (code) {
    throw OutputError(
        str("cannot list ", folder.string(), " (", code.message(),
            "), which may hold the file to be replaced: give the output another name"));
  }
  return false;
}

bool is_checkpoint(const fs::path& folder) {
  return there(folder / "MANIFEST.json") && there(folder / "model.safetensors");
}

bool is_run(const fs::path& folder) {
  return there(folder / "config.yaml") &&
         (there(folder / "environment.json") || there(folder / ".lock") ||
          there(folder / "checkpoints"));
}

bool is_maintained(std::string_view name) {
  constexpr std::array<std::string_view, 7> kNames = {
      "config.yaml", "metrics.jsonl", "log.txt",    "environment.json",
      ".lock",       "report.html",   "checkpoints"};
  return std::ranges::find(kNames, name) != kNames.end() || name.starts_with("events.out.tfevents");
}

// The checkpoint, or the folder of the checkpoints of a run, that a path is in; "": none. Both the
// path and what it leads to: the checkpoints of a run may be a link to another disk.
fs::path checkpoints_above(const fs::path& path, const fs::path& real) {
  fs::path found;
  const auto visit = [&](const fs::path& folder) {
    const bool is = is_checkpoint(folder) ||
                    (folder.filename() == "checkpoints" && is_run(folder.parent_path()));
    if (is) found = folder;
    return is;
  };
  std::error_code code;
  if (!any_above(real, visit)) any_above(fs::absolute(path, code).lexically_normal(), visit);
  return found;
}

bool is_of_run(const fs::path& path) {
  return is_maintained(path.filename().string()) && is_run(path.parent_path());
}

void refuse_runs(const fs::path& out, const fs::path& real, bool is_folder) {
  if (const fs::path folder = checkpoints_above(out, real); !folder.empty()) {
    throw OutputError(str(out.string(), " is among the checkpoints of a run (", folder.string(),
                          "), which only training writes", kAdvice, " outside of that folder"));
  }
  if (is_of_run(real)) {
    throw OutputError(str(out.string(), is_folder ? " is a folder" : " is a file", " that the run ",
                          real.parent_path().string(), " maintains", kAdvice));
  }
}

void refuse(const fs::path& out, const fs::path& real, const Inputs& inputs,
            const IsEarlierOutput& is_earlier_output) {
  const std::optional<Identity> own = identity(real);
  std::error_code code;
  const bool is_folder = fs::is_directory(real, code);
  std::vector<fs::path> all = inputs.files;
  all.insert(all.end(), inputs.folders.begin(), inputs.folders.end());
  for (const fs::path& input : all) {
    if (!own) break;
    if (input.empty()) continue;
    if (identity(input) == own) {
      throw OutputError(str(
          out.string(), out == input ? " is" : str(" is the same file as ", input.string(), ","),
          " an input of this command", kAdvice));
    }
    if (is_folder && any_above(resolved(input),
                               [&](const fs::path& folder) { return identity(folder) == own; })) {
      throw OutputError(
          str(out.string(), " holds ", input.string(), ", an input of this command", kAdvice));
    }
  }
  refuse_runs(out, real, is_folder);
  if (!own || !fs::is_regular_file(real, code))
    return;  // writing to a pipe or a device replaces nothing
  for (const fs::path& folder : inputs.folders) {
    std::set<Identity> visited;
    if (!contains(folder, *own, visited) || (is_earlier_output && is_earlier_output(real)))
      continue;
    throw OutputError(str(out.string(), " is a file of ", folder.string(),
                          ", which this command reads", kAdvice));
  }
}

}  // namespace

void protect(const fs::path& out, const Inputs& inputs, const IsEarlierOutput& is_earlier_output) {
  if (out.empty()) return;
  const fs::path real = resolved(out);
  refuse(out, real, inputs, is_earlier_output);
  if (begins_as_hdf5(real)) {
    throw OutputError(
        str(out.string(), " is an HDF5 file, as data sets are, and this output is none", kAdvice));
  }
}

void protect_data_file(const fs::path& out, const Inputs& inputs,
                       const IsEarlierOutput& is_earlier_output) {
  if (!out.empty()) refuse(out, resolved(out), inputs, is_earlier_output);
}

bool begins_as_hdf5(const fs::path& file) {
  constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
  std::error_code code;
  if (!fs::is_regular_file(file, code))
    return false;  // reading from a pipe would wait, and take bytes out of it
  std::array<char, kSignature.size()> begin{};
  return std::ifstream(file, std::ios::binary).read(begin.data(), begin.size()) &&
         std::string_view(begin.data(), begin.size()) == kSignature;
}

void protect_other_runs(const fs::path& folder) {
  const fs::path real = resolved(folder);
  fs::path other = checkpoints_above(folder, real);
  std::error_code code;
  for (const fs::path& path : {real, fs::absolute(folder, code).lexically_normal()}) {
    if (other.empty() && is_of_run(path)) other = path.parent_path();
  }
  if (other.empty()) return;
  throw OutputError(str(folder.string(), " is among the files of another run (", other.string(),
                        "), which this one would change: choose another --run.folder or --name"));
}

}  // namespace dtrain
