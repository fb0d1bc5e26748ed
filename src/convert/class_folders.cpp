#include "convert/class_folders.h"

#include <algorithm>
#include <map>
#include <set>
#include <system_error>

#include "convert/split_folders.h"
#include "convert/stored_sample.h"
#include "core/error.h"
#include "core/log.h"
#include "formats/list_files.h"
#include "text/printable.h"
#include "text/strings.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace dtrain::convert {
namespace {

namespace fs = std::filesystem;

std::string expected(const std::string& what) {
  return str("Expected: one subfolder of ", what,
             " for each class, or such subfolders in train, val and test (any of them, or other "
             "names of splits)");
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
  log::info(printable(str("ignored next to the folders of ", folder.string(), ": ",
                          join_first(content.others, 1))));
}

void add_samples(const fs::path& top, const fs::path& folder, const RawSample& proto,
                 SampleList& samples, formats::ToolFiles& left_out,
                 std::set<std::string>& folders) {
  fs::path present = folder;
  std::error_code code;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::follow_directory_symlink,
                                         code);
  for (; !code && entry != fs::recursive_directory_iterator(); entry.increment(code)) {
    present = entry->path();
    if (left_out.takes(present)) {
      entry.disable_recursion_pending();
      continue;
    }
    if (formats::leads_back(present)) {
      throw DataError(
          str(present.string(), " is a link to one of its own parent folders: remove it"));
    }
    std::error_code no_folder;  // a broken link is a sample, and a damaged one
    if (entry->is_directory(no_folder)) {
      if (entry.depth() == 0) folders.insert(present.filename().string());
      continue;
    }
    RawSample sample = proto;
    sample.name = sample.group = present.lexically_relative(top).generic_string();
    samples.push_back(sample);
  }
  if (code) throw DataError(str("cannot read ", present.string(), ": ", code.message()));
}

// Splits that are below a class folder are not read, because samples of a class may be in
// any folders.
void warn_of_inner_splits(const fs::path& folder,
                          const std::map<std::string, std::set<std::string>>& inside) {
  for (const auto& [name, folders] : inside) {
    std::set<std::string> splits;
    for (const std::string& inner : folders) splits.insert(split_named(inner));
    if (splits.size() < 2 || splits.contains("")) return;
  }
  if (inside.empty()) return;
  const auto& [name, folders] = *inside.begin();
  log::warning(printable(str(
      (folder / name / *folders.begin()).string(), " and the other folders that are named for ",
      "splits are below the classes, and are not read as splits: give DIR/SPLIT/CLASS for that")));
}

// Archives are often unpacked into a folder of their own name: training_set/training_set/cat.
std::string inner_folder(const fs::path& folder, const std::string& name, const SampleFiles& kind) {
  formats::ToolFiles counted_later;
  const Content outside = content(folder / name, kind, counted_later);
  const bool twice = outside.folders.size() == 1 && outside.samples.empty() &&
                     lower_case(outside.folders[0]) == lower_case(name);
  return twice ? (fs::path(name) / outside.folders[0]).string() : name;
}

std::vector<TopFolder> look_into(const fs::path& folder, const Content& top,
                                 const SampleFiles& kind) {
  std::vector<TopFolder> folders;
  for (const std::string& name : top.folders) {
    TopFolder one{.name = name};
    if (!split_within(name).empty()) {
      one.path = inner_folder(folder, name, kind);
      formats::ToolFiles counted_later;
      const Content inside = content(folder / one.path, kind, counted_later);
      one.has_folders = !inside.folders.empty();
      one.has_samples = !inside.samples.empty();
    }
    folders.push_back(std::move(one));
  }
  return folders;
}

// What the names of folders do not say by themselves.
void tell(const fs::path& folder, const FolderRoles& roles, const SampleFiles& kind) {
  std::vector<std::string> splits;
  bool plain = true;
  for (const auto& [name, split] : roles.splits) {
    splits.push_back(str(name, " is the split ", split));
    plain = plain && name == split;
  }
  if (!plain) log::info(printable("splits from folders: " + join(splits, ", ")));
  if (!roles.left_out.empty())
    log::info(printable("left out beside the splits: " + join(roles.left_out, ", ")));
  for (const std::string& name : roles.unlabeled) {
    formats::ToolFiles counted;
    const size_t samples = content(folder / name, kind, counted).samples.size();
    log::info(printable(str("left out: ", human_count(static_cast<int64_t>(samples)),
                            samples == 1 ? " file in " : " files in ", (folder / name).string(),
                            ", which has no class folders, so they have no labels. ",
                            "`dtrain predict RUN ", (folder / name).string(),
                            "` predicts their classes")));
  }
}

// The roles of the folders in `folder`.
FolderRoles roles_in(const fs::path& folder, const SampleFiles& kind, std::optional<bool> splits,
                     formats::ToolFiles& left_out) {
  const Content top = content(folder, kind, left_out);
  if (top.folders.empty())
    throw DataError(str("no subfolders in ", folder.string(), ". ", expected(kind.what)));
  if (!top.samples.empty()) {
    throw DataError(str((folder / top.samples[0]).string(),
                        " is next to the class folders, so it has no class (", top.samples.size(),
                        " such files). Move them into a class folder or away"));
  }
  log_ignored(folder, top);
  FolderRoles roles = roles_of_folders(folder.string(), look_into(folder, top, kind), splits);
  tell(folder, roles, kind);
  return roles;
}

std::string table_beside(const fs::path& folder) {
  formats::ToolFiles counted;
  for (const fs::path& path : formats::folder_entries(folder, counted)) {
    if (!formats::has_extension(path, {".csv", ".tsv", ".xls", ".xlsx", ".parquet"})) continue;
    return str(" (Labels in a table, such as ", path.filename().string(),
               ", are not read: move each file into the folder of its class)");
  }
  return "";
}

struct ClassFolder {
  std::string above, name, split;  // its path is above/name
  std::string class_name = name;   // spelled as in the first folder of the class, or as given
};

// The class folders in splits.
std::vector<ClassFolder> in_splits(const fs::path& folder, const FolderRoles& roles,
                                   const SampleFiles& kind, formats::ToolFiles& left_out) {
  std::vector<ClassFolder> found;
  for (const auto& [name, split] : roles.splits) {
    const fs::path above = folder / name;
    const Content inside = content(above, kind, left_out);
    if (!inside.samples.empty()) {
      const bool divided = std::ranges::any_of(roles.splits, [&](const FolderRoles::Split& one) {
        return !content(folder / one.folder, kind, left_out).folders.empty();
      });
      throw DataError(
          str((above / inside.samples[0]).string(), " is not in a class folder. ",
              expected(kind.what), table_beside(folder),
              divided ? str(". If ", name, " is itself a class: --splits-from-folders no") : ""));
    }
    log_ignored(above, inside);
    for (const std::string& one : inside.folders)
      found.push_back({.above = name, .name = one, .split = split});
  }
  return found;
}

// Folders whose names are the same in Unicode's NFC are one class: macOS writes names in
// another form.
void join_spellings(const fs::path& folder, std::vector<ClassFolder>& found) {
  std::map<std::string, const ClassFolder*> first;
  size_t others = 0;
  const ClassFolder* example = nullptr;
  for (ClassFolder& one : found) {
    const auto [at, fresh] = first.emplace(nfc(one.name), &one);
    one.class_name = at->second->name;
    if (one.name == one.class_name) continue;
    ++others;
    if (example == nullptr) example = &one;
  }
  if (example == nullptr) return;
  log::info(printable(
      str(others,
          " folders have the name of a class in another Unicode form, and are taken as it: the ",
          "first is ", (folder / example->above / example->name).string(), ", ",
          code_points(example->name), " for ", code_points(example->class_name))));
}

// Every class that was found must be among those that are given.
void name_as_given(const fs::path& folder, const std::vector<std::string>& given,
                   std::vector<ClassFolder>& found) {
  for (ClassFolder& one : found) {
    const size_t number = find_name(one.name, given);
    if (number < given.size()) {
      one.class_name = given[number];
      continue;
    }
    const std::string alike = look_alike_among(one.name, given), near = nearest(one.name, given);
    throw DataError(str("the class folder ", (folder / one.above / one.name).string(),
                        " is none of the classes that --classes gives: ", join(given, ", "), alike,
                        alike.empty() && !near.empty() ? ". Did you mean " + near + "?" : ".",
                        " Rename it, or remove it"));
  }
}

// The names of all classes, sorted. Those of other splits must be in the training split, if there
// is one.
std::vector<std::string> check_classes(const fs::path& folder,
                                       const std::vector<ClassFolder>& found,
                                       const FolderRoles& roles, const SampleFiles& kind) {
  std::set<std::string> classes, trained;
  for (const auto& [above, name, split, class_name] : found) {
    // A data file stores one class name per line, and the header of a checkpoint is UTF-8.
    if (name.find('\n') != std::string::npos || !is_utf8(name)) {
      throw DataError(
          str("the class folder ", (folder / above / name).string(),
              " has a line break, or bytes that are not UTF-8, in its name: rename it"));
    }
    classes.insert(class_name);
    if (split == "train") trained.insert(class_name);
  }
  if (classes.empty())
    throw DataError(str("no class folders in ", folder.string(), ". ", expected(kind.what)));
  if (classes.size() < 2) {
    const fs::path only = folder / found[0].above / found[0].name;
    formats::ToolFiles counted;
    const bool outer = !content(only, kind, counted).folders.empty();
    throw DataError(str(
        "only one class, ", *classes.begin(), ", in ", folder.string(),
        ": classification needs at least two (to evaluate a network: --classes RUN). ",
        expected(kind.what), outer ? str(". Is ", only.string(), " the folder to convert?") : ""));
  }
  const auto train = std::ranges::find_if(
      roles.splits, [](const FolderRoles::Split& one) { return one.split == "train"; });
  for (const auto& [above, name, split, class_name] : found) {
    if (train == roles.splits.end() || trained.contains(class_name)) continue;
    const std::vector<std::string> known(trained.begin(), trained.end());
    throw DataError(str("the class ", name, " is in ", (folder / above).string(), " but not in ",
                        (folder / train->folder).string(), look_alike_among(name, known),
                        ": it could not be learned. Add samples of it, or remove it; for a set "
                        "that only evaluates ",
                        "a network, give --classes RUN"));
  }
  return {classes.begin(), classes.end()};
}

}  // namespace

ClassFolders list_class_folders(const fs::path& folder, const SampleFiles& kind,
                                const FolderOptions& options) {
  if (!fs::is_directory(folder))
    throw DataError(str("no such folder: ", folder.string(), ". ", expected(kind.what)));
  formats::ToolFiles left_out;
  const FolderRoles roles = roles_in(folder, kind, options.splits, left_out);
  std::vector<ClassFolder> found = in_splits(folder, roles, kind, left_out);
  for (const std::string& name : roles.classes)
    found.push_back({.above = "", .name = name, .split = ""});
  ClassFolders result{.classes = options.classes, .samples = {}};
  if (options.classes.empty()) {
    join_spellings(folder, found);
    result.classes = check_classes(folder, found, roles, kind);
  } else {
    name_as_given(folder, options.classes, found);
  }
  if (found.empty())
    throw DataError(str("no class folders in ", folder.string(), ". ", expected(kind.what)));
  std::map<std::string, std::set<std::string>> inside;  // folders in class folders, by class
  for (const auto& [above, name, split, class_name] : found) {
    const fs::path class_folder = folder / above / name;
    const auto label = std::ranges::find(result.classes, class_name) - result.classes.begin();
    const size_t before = result.samples.size();
    add_samples(folder, class_folder, {.name = "", .group = "", .label = label, .split = split},
                result.samples, left_out, inside[name]);
    if (result.samples.size() == before) {
      throw DataError(str("the class folder ", class_folder.string(), " is empty. Add ", kind.what,
                          ", or remove it"));
    }
  }
  result.samples.sort_by_name();
  if (roles.splits.empty()) warn_of_inner_splits(folder, inside);
  formats::log_left_out(left_out);
  return result;
}

Record ClassFolderSet::read(size_t sample) const {
  return {.input = input(file(sample)), .target = class_target(listed_.samples.label(sample))};
}

}  // namespace dtrain::convert
