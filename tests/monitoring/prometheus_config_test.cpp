#include "monitoring/prometheus_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <span>

#include "core/error.h"
#include "core/hash.h"
#include "os/file_system.h"
#include "support/temp_dir.h"
#include "text/number_text.h"

namespace dtrain::monitoring {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(PrometheusConfig, RefersOnlyToFilesBesideIt) {
  const dtrain::testing::TempDir folder;
  write_prometheus_config(real_file_system(), folder.path());
  const std::string config = read_text(folder / "prometheus.yml");
  EXPECT_THAT(config, HasSubstr("rule_files:\n  - dtrain_rules.yml\n"));
  EXPECT_THAT(config, HasSubstr("      - files: ['*.json']\n"));
  EXPECT_THAT(config, HasSubstr("honor_labels: true"));
  EXPECT_THAT(config, Not(HasSubstr("..")));
  EXPECT_THAT(config, Not(HasSubstr("/work")));
  EXPECT_THAT(read_text(folder / "dtrain_rules.yml"), HasSubstr("alert: DtrainStalled"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2)
      << "a temporary file was left";
}

TEST(PrometheusConfig, IsKeptOnceItWasChanged) {
  const dtrain::testing::TempDir folder;
  write_prometheus_config(real_file_system(), folder.path());
  for (const char* name : {"prometheus.yml", "dtrain_rules.yml"}) {
    const std::string written = read_text(folder / name);
    for (const std::string& changed :
         {written + "# mine\n", "# mine\n" + written, std::string(), std::string("mine")}) {
      std::ofstream(folder / name) << changed;
      write_prometheus_config(real_file_system(), folder.path());
      EXPECT_EQ(read_text(folder / name), changed);
    }
    std::filesystem::remove(folder / name);
    std::ofstream(folder / "elsewhere") << written;
    std::filesystem::create_symlink(folder / "elsewhere", folder / name);
    write_prometheus_config(real_file_system(), folder.path());
    EXPECT_TRUE(std::filesystem::is_symlink(folder / name));
  }
}

// As another version of dtrain wrote it: the hash of the first line fits.
TEST(PrometheusConfig, OfAnotherVersionIsReplaced) {
  const dtrain::testing::TempDir folder;
  write_prometheus_config(real_file_system(), folder.path());
  const std::string current = read_text(folder / "prometheus.yml"), rest = "older: true\n";
  const std::string line = current.substr(0, current.rfind(' ', current.find('\n')) + 1);
  const auto write = [&](uint64_t hash) {
    std::ofstream(folder / "prometheus.yml") << line << hex(hash) << ")\n" << rest;
  };
  write(1);
  write_prometheus_config(real_file_system(), folder.path());
  EXPECT_THAT(read_text(folder / "prometheus.yml"), HasSubstr(rest))
      << "the hash does not fit: the user's";
  write(xxh64(std::as_bytes(std::span(rest))));
  write_prometheus_config(real_file_system(), folder.path());
  EXPECT_EQ(read_text(folder / "prometheus.yml"), current);
}

TEST(PrometheusConfig, AFolderThatIsMissingIsAnOutputError) {
  const dtrain::testing::TempDir folder;
  EXPECT_THROW(write_prometheus_config(real_file_system(), folder / "none"), OutputError);
}

}  // namespace
}  // namespace dtrain::monitoring
