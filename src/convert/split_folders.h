#pragma once

// Which folders of a data set are splits and which are classes, by their names and by what they
// hold. Pure functions.

#include <optional>
#include <string>
#include <vector>

namespace dtrain::convert {

// "train", "val" or "test" for a folder that is named for a split, otherwise "". In any case:
// train, training; val, valid, validation, dev, eval; test, testing; and these with a word for what
// they hold or with a number, such as train_images, test-set and val2017.
std::string split_named(const std::string& folder);

// The split that is one of the words of a name like seg_train, otherwise "". Such a folder may be a
// class (bullet_train).
std::string split_within(const std::string& folder);

// A folder in the folder of a data set.
struct TopFolder {
  std::string name;
  std::string path = name;  // below that folder, of what holds the classes
  // May be unset if the name has no word for a split
  bool has_folders = false, has_samples = false;
};

// How the folders are read.
struct FolderRoles {
  struct Split {
    std::string folder, split;
  };
  std::vector<Split> splits;           // folders of class folders, and the splits that they are
  std::vector<std::string> classes;    // folders; those of the set itself, if there are no splits
  std::vector<std::string> unlabeled;  // splits without class folders, whose samples have no labels
  std::vector<std::string> left_out;   // folders beside splits
};

// `splits`: whether folders named for splits are splits; nullopt: where only one reading makes
// sense. Throws DataError with both readings otherwise. `where`: the set's folder, for messages.
FolderRoles roles_of_folders(const std::string& where, const std::vector<TopFolder>&,
                             std::optional<bool> splits);

}  // namespace dtrain::convert
