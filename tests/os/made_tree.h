#pragma once

// A root folder with the files of a machine that a test describes.

#include <filesystem>
#include <fstream>
#include <string>

#include "support/temp_dir.h"

namespace dtrain::testing {

class MadeTree {
 public:
  const std::filesystem::path& root() const { return folder_.path(); }

  MadeTree& file(const std::string& path, const std::string& text) {
    const std::filesystem::path place =
        folder_.path() / std::filesystem::path(path).relative_path();
    std::filesystem::create_directories(place.parent_path());
    std::ofstream(place, std::ios::binary) << text;
    return *this;
  }
  MadeTree& folder(const std::string& path) {
    std::filesystem::create_directories(folder_.path() /
                                        std::filesystem::path(path).relative_path());
    return *this;
  }
  // `to` is relative to the folder of `path`.
  MadeTree& link(const std::string& path, const std::string& to) {
    const std::filesystem::path place =
        folder_.path() / std::filesystem::path(path).relative_path();
    std::filesystem::create_directories(place.parent_path());
    std::filesystem::create_symlink(to, place);
    return *this;
  }

 private:
  TempDir folder_;
};

}  // namespace dtrain::testing
