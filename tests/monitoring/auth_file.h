#pragma once

// The file of metrics.auth_file, as tests write it.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/temp_dir.h"

namespace dtrain::monitoring::testing {

inline std::filesystem::path auth_file(const dtrain::testing::TempDir& folder,
                                       const std::string& content, mode_t mode = 0600) {
  const std::filesystem::path file = folder / "auth";
  std::ofstream(file, std::ios::binary) << content;
  EXPECT_EQ(::chmod(file.c_str(), mode), 0);
  return file;
}

}  // namespace dtrain::monitoring::testing
