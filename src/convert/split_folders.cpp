#include "convert/split_folders.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "text/strings.h"

namespace dtrain::convert {
namespace {

constexpr std::pair<std::string_view, std::string_view> kWords[] = {
    {"train", "train"}, {"training", "train"}, {"val", "val"},
    {"valid", "val"},   {"validation", "val"}, {"dev", "val"},
    {"eval", "val"},    {"test", "test"},      {"testing", "test"}};
// What a split holds, beside its word in a name: train_images, testset, data-val.
constexpr std::array<std::string_view, 16> kContents{
    "image",     "images", "img",     "imgs",    "picture", "pictures", "photos", "sequence",
    "sequences", "files",  "samples", "dataset", "data",    "set",      "split",  "folder"};
constexpr size_t kNamesShown = 6;

std::string_view split_of_word(std::string_view word) {
  for (const auto& [known, split] : kWords) {
    if (known == word) return split;
  }
  return "";
}

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

std::string_view without_number(std::string_view word) {
  while (!word.empty() && is_digit(word.front())) word.remove_prefix(1);
  while (!word.empty() && is_digit(word.back())) word.remove_suffix(1);
  return word;
}

// "train" and "images" of train2017_images.
std::vector<std::string> words_of(const std::string& name) {
  std::string letters = lower_case(name);
  for (char& c : letters) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && (c & 0x80) == 0) c = ' ';
  }
  std::vector<std::string> all;
  for (const std::string& word : words(letters)) {
    if (const std::string_view plain = without_number(word); !plain.empty())
      all.emplace_back(plain);
  }
  return all;
}

std::string names_in(const std::vector<std::string>& names) {
  return join_first(names, kNamesShown);
}

std::vector<std::string> names_of(const std::vector<TopFolder>& folders) {
  std::vector<std::string> names;
  for (const TopFolder& folder : folders) names.push_back(folder.name);
  return names;
}

// Folders that may be splits, and all others. A name like seg_train counts only among folders that
// together are named for two splits or more.
struct Parted {
  std::vector<std::pair<TopFolder, std::string>> named;  // with the split
  std::vector<TopFolder> others;
  // Whether all of `named` are named for a split and nothing else, as test1 may not be
  bool certain = true;
};

Parted part(const std::vector<TopFolder>& folders) {
  std::set<std::string> splits;
  for (const TopFolder& folder : folders) {
    if (folder.has_folders) splits.insert(split_within(folder.name));
  }
  splits.erase("");
  Parted parted;
  for (const TopFolder& folder : folders) {
    std::string split = split_named(folder.name);
    if (split.empty() && folder.has_folders && splits.size() >= 2) {
      split = split_within(folder.name);
      parted.certain = parted.certain && split.empty();
    }
    if (split.empty())
      parted.others.push_back(folder);
    else
      parted.named.emplace_back(folder, split);
  }
  const auto has_folders = [](const auto& one) { return one.first.has_folders; };
  const auto is_numbered = [](const auto& one) {
    return std::ranges::any_of(one.first.name, is_digit);
  };
  if (std::ranges::none_of(parted.named, has_folders) &&
      std::ranges::any_of(parted.named, is_numbered)) {
    parted.certain = false;
  }
  return parted;
}

// The roles if folders that are named for splits are splits.
FolderRoles as_splits(const Parted& parted) {
  FolderRoles roles;
  const bool divided = std::any_of(parted.named.begin(), parted.named.end(),
                                   [](const auto& one) { return one.first.has_folders; });
  for (const auto& [folder, split] : parted.named) {
    const bool unlabeled = folder.has_samples && !folder.has_folders;
    if (divided && unlabeled && split == "test")
      roles.unlabeled.push_back(folder.path);
    else if (divided || parted.others.empty())
      roles.splits.push_back({folder.path, split});
    else if (split == "train")
      roles.classes.push_back(folder.name);  // beside buses and cars, a train is a vehicle
    else
      roles.unlabeled.push_back(folder.path);
  }
  std::vector<std::string>& rest = roles.splits.empty() ? roles.classes : roles.left_out;
  for (const TopFolder& folder : parted.others) rest.push_back(folder.name);
  std::sort(roles.classes.begin(), roles.classes.end());
  return roles;
}

std::string text_of(const FolderRoles& roles) {
  std::vector<std::string> parts;
  for (const auto& [folder, split] : roles.splits)
    parts.push_back(str(folder, " is the split ", split));
  if (roles.splits.empty()) parts.push_back("the classes are " + names_in(roles.classes));
  if (!roles.unlabeled.empty())
    parts.push_back(str("left out, without labels: ", names_in(roles.unlabeled)));
  if (!roles.left_out.empty()) parts.push_back("left out: " + names_in(roles.left_out));
  return join(parts, "; ");
}

}  // namespace

std::string split_named(const std::string& folder) {
  const std::string name = join(words_of(folder), "");
  for (const auto& [word, split] : kWords) {
    if (name == word) return std::string(split);
    for (const std::string_view content : kContents) {
      if (name == str(word, content) || name == str(content, word)) return std::string(split);
    }
  }
  return "";
}

std::string split_within(const std::string& folder) {
  std::string split = split_named(folder);
  for (const std::string& word : words_of(folder)) {
    if (split.empty()) split = split_of_word(word);
  }
  return split;
}

FolderRoles roles_of_folders(const std::string& where, const std::vector<TopFolder>& folders,
                             std::optional<bool> splits) {
  const FolderRoles as_classes{
      .splits = {}, .classes = names_of(folders), .unlabeled = {}, .left_out = {}};
  if (!splits.value_or(true)) return as_classes;
  const Parted parted = part(folders);
  if (parted.named.empty()) {
    if (!splits) return as_classes;
    throw DataError(
        str("--splits-from-folders yes, but no folder in ", where,
            " is named for a split (train, val, test): ", names_in(as_classes.classes)));
  }
  FolderRoles roles = as_splits(parted);
  const bool one_reading =
      roles.splits.empty() ? roles.unlabeled.empty() : parted.certain && roles.left_out.empty();
  if (splits || one_reading) return roles;
  std::vector<std::string> named;
  for (const auto& [folder, split] : parted.named) named.push_back(folder.name);
  throw DataError(str(
      where, " contains ",
      parted.others.empty() ? "" : names_in(names_of(parted.others)) + " next to ", names_in(named),
      ". Are these classes or splits?\n  --splits-from-folders yes: ", text_of(roles),
      "\n  --splits-from-folders no: ", text_of(as_classes)));
}

}  // namespace dtrain::convert
