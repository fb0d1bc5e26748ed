#include "convert/class_folders.h"

#include <algorithm>
#include <array>
#include <set>
#include <system_error>

#include "convert/stored_sample.h"
#include "core/error.h"
#include "core/log.h"
#include "core/printable.h"
#include "core/strings.h"
#include "core/utf8.h"
#include "formats/list_files.h"

namespace dtrain::convert {
namespace {

namespace fs = std::filesystem;
constexpr std::array<const char*, 3> kSplits{"train", "val", "test"};

std::string expected(const std::string& what) {
  return str("Expected: one subfolder of ", what,
             " for each class, or such subfolders in train, val and test (any of them)");
}

struct Content {
  std::vector<std::string> folders, samples, others;  // names, sorted
};

Content content(const fs::path& folder, const SampleFiles& kind, formats::ToolFiles& left_out) {
  Content result;
  for (const fs::path& path : formats::folder_entries(folder, left_out)) {
    std::error_code no_folder;  // for example, a link to itself
    const bool is_folder = fs::is_directory(path, no_folder);
    auto& names = is_folder                                       ? result.folders
                  : formats::has_extension(path, kind.extensions) ? result.samples
                                                                  : result.others;
    names.push_back(path.filename().string());
  }
  return result;
}

void log_ignored(const fs::path& folder, const Content& content) {
  if (content.others.empty()) return;
  log::info(printable(str("ignored next to the folders of ", folder.string(), ": ", content.others.front(),
                          content.others.size() == 1 ? "" : str(" and ", content.others.size() - 1, " more"))));
}

void add_samples(const fs::path& top, const fs::path& folder, const RawSample& proto, std::vector<RawSample>& samples,
                 formats::ToolFiles& left_out) {
  fs::path present = folder;
  std::error_code code;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::follow_directory_symlink, code);
  for (; !code && entry != fs::recursive_directory_iterator(); entry.increment(code)) {
    present = entry->path();
    if (left_out.takes(present)) {
      entry.disable_recursion_pending();
      continue;
    }
    if (formats::leads_back(present)) {
      throw DataError(str(present.string(), " is a link to one of its own parent folders: remove it"));
    }
    std::error_code no_folder;  // a broken link is a sample, and a damaged one
    if (entry->is_directory(no_folder)) continue;
    RawSample sample = proto;
    sample.name = sample.group = present.lexically_relative(top).generic_string();
    samples.push_back(std::move(sample));
  }
  if (code) throw DataError(str("cannot read ", present.string(), ": ", code.message()));
}

// The split folders to search; {""} if the classes are in `folder` itself.
std::vector<std::string> split_folders(const fs::path& folder, const SampleFiles& kind, formats::ToolFiles& left_out) {
  const Content top = content(folder, kind, left_out);
  std::vector<std::string> splits, others;
  for (const std::string& name : top.folders) {
    const bool split = std::find(kSplits.begin(), kSplits.end(), name) != kSplits.end();
    (split ? splits : others).push_back(name);
  }
  if (top.folders.empty()) throw DataError(str("no subfolders in ", folder.string(), ". ", expected(kind.what)));
  if (!top.samples.empty()) {
    throw DataError(str((folder / top.samples[0]).string(), " is next to the class folders, so it has no class (",
                        top.samples.size(), " such files). Move them into a class folder or away"));
  }
  log_ignored(folder, top);
  if (splits.empty()) return {""};
  // A class may be named "train", but then its folder contains files, not class folders.
  const bool of_splits = std::any_of(splits.begin(), splits.end(), [&](const std::string& name) {
    formats::ToolFiles counted_later;
    return !content(folder / name, kind, counted_later).folders.empty();
  });
  if (others.empty()) return splits;
  if (!of_splits) return {""};
  throw DataError(str(folder.string(), " contains ", join(others, ", "), " next to ", join(splits, ", "),
                      ". Are these classes or splits? ", expected(kind.what),
                      ". (The validation folder must be named val)"));
}

}  // namespace

ClassFolders list_class_folders(const fs::path& folder, const SampleFiles& kind) {
  const std::string& what = kind.what;
  if (!fs::is_directory(folder)) throw DataError(str("no such folder: ", folder.string(), ". ", expected(what)));
  ClassFolders result;
  formats::ToolFiles left_out;
  std::set<std::string> classes, trained;
  bool has_train = false;
  std::vector<std::pair<std::string, std::string>> found;  // split, class
  for (const std::string& split : split_folders(folder, kind, left_out)) {
    has_train = has_train || split == "train";
    const fs::path above = folder / split;
    formats::ToolFiles counted;  // those of `folder` itself are counted already
    const Content inside = content(above, kind, split.empty() ? counted : left_out);
    if (!inside.samples.empty()) {
      throw DataError(str((above / inside.samples[0]).string(), " is not in a class folder. ", expected(what)));
    }
    if (!split.empty()) log_ignored(above, inside);
    for (const std::string& name : inside.folders) {
      // A data file stores one class name per line, and the header of a checkpoint is UTF-8.
      if (name.find('\n') != std::string::npos || !is_utf8(name)) {
        throw DataError(str("the class folder ", (above / name).string(),
                            " has a line break, or bytes that are not UTF-8, in its name: rename it"));
      }
      classes.insert(name);
      if (split == "train") trained.insert(name);
      found.emplace_back(split, name);
    }
  }
  if (classes.size() < 2) {
    throw DataError(classes.empty() ? str("no class folders in ", folder.string(), ". ", expected(what))
                                    : str("only one class, ", *classes.begin(), ", in ", folder.string(),
                                          ": classification needs at least two. ", expected(what)));
  }
  result.classes.assign(classes.begin(), classes.end());
  for (const auto& [split, name] : found) {
    if (has_train && !trained.contains(name)) {
      throw DataError(str("the class ", name, " is in ", (folder / split).string(), " but not in ",
                          (folder / "train").string(), ": it could not be learned. Add samples of it, or remove it"));
    }
    const fs::path class_folder = folder / split / name;
    const auto label = std::lower_bound(result.classes.begin(), result.classes.end(), name) - result.classes.begin();
    const size_t before = result.samples.size();
    add_samples(folder, class_folder, {.name = "", .group = "", .label = label, .split = split}, result.samples,
                left_out);
    if (result.samples.size() == before) {
      throw DataError(str("the class folder ", class_folder.string(), " is empty. Add ", what, ", or remove it"));
    }
  }
  std::sort(result.samples.begin(), result.samples.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  formats::log_left_out(left_out);
  return result;
}

Record ClassFolderSet::read(size_t sample) const {
  return {.input = input(file(sample)), .target = class_target(listed_.samples[sample].label)};
}

}  // namespace dtrain::convert
