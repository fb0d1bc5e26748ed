#pragma once

// The origin of a store without a file: each sample is a group of its own, in no split.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "data/origin.h"
#include "text/strings.h"

namespace dtrain::testing {

class MadeOrigin : public data::Origin {
 public:
  // The source of sample 3 is "before3after".
  MadeOrigin(std::filesystem::path path, std::string before, std::string after = "")
      : path_(std::move(path)), before_(std::move(before)), after_(std::move(after)) {}

  std::map<std::string, std::string> attributes;

  const std::filesystem::path& path() const override { return path_; }
  std::string source(int64_t id) const override { return str(before_, id, after_); }
  int64_t group(int64_t id) const override { return id; }
  std::vector<int64_t> split(const std::string&) const override { return {}; }
  std::string attribute(const std::string& name) const override {
    const auto found = attributes.find(name);
    return found == attributes.end() ? "" : found->second;
  }

 private:
  const std::filesystem::path path_;
  const std::string before_, after_;
};

}  // namespace dtrain::testing
