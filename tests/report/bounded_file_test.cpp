#include "report/bounded_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "support/temp_dir.h"

namespace dtrain::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::filesystem::path file_with(const testing::TempDir& folder, const std::string& text) {
  std::ofstream(folder / "f", std::ios::binary) << text;
  return folder / "f";
}

std::vector<std::string> lines_of(const std::filesystem::path& path, int64_t most, int64_t longest,
                                  std::string* problem = nullptr) {
  std::vector<std::string> lines;
  const std::string said = read_lines(
      path, most, longest,
      [&](std::string_view line, bool whole) {
        lines.push_back(std::string(line.substr(0, 5)) + (whole ? "" : "~"));
      },
      [&] { lines.emplace_back("..."); });
  if (problem != nullptr) *problem = said;
  return lines;
}

TEST(BoundedFile, TailsAndSmallFiles) {
  const testing::TempDir folder;
  const auto path = file_with(folder, "0123456789");
  EXPECT_EQ(read_tail(path, 4).text, "6789");
  EXPECT_EQ(read_tail(path, 40).text, "0123456789");
  EXPECT_EQ(read_tail(path, 4).size, 10);
  EXPECT_EQ(read_small(path, 10).text, "0123456789");
  EXPECT_THAT(read_small(path, 9).problem, HasSubstr("has 10 B, which no such file needs"));
  EXPECT_TRUE(read_tail(folder / "none", 4).missing());
  EXPECT_EQ(read_tail(folder.path(), 4).problem, "is not a regular file");
}

TEST(BoundedFile, Lines) {
  const testing::TempDir folder;
  EXPECT_THAT(lines_of(file_with(folder, "a\n\nb\nc"), 100, 100), ElementsAre("a", "", "b", "c~"));
  EXPECT_THAT(lines_of(file_with(folder, "a\nb\n"), 100, 100), ElementsAre("a", "b"));
  std::string problem;
  const auto four = file_with(folder, "aaaa\nbbbb\ncccc\ndddd\n");
  EXPECT_THAT(lines_of(four, 14, 100, &problem), ElementsAre("aaaa", "...", "dddd"));
  EXPECT_EQ(problem, "has 20 B; what is between the first 7 B and the last 7 B is left out");
  EXPECT_THAT(lines_of(four, 20, 100, &problem), ElementsAre("aaaa", "bbbb", "cccc", "dddd"));
  EXPECT_EQ(problem, "");
  EXPECT_THAT(lines_of(folder / "none", 1, 1, &problem), ElementsAre());
  EXPECT_EQ(problem, "is not there");
}

TEST(BoundedFile, LinesThatCrossThePiecesOfTheFile) {
  const testing::TempDir folder;
  const std::string mega(3 << 20, 'm');
  EXPECT_THAT(lines_of(file_with(folder, "a\n" + mega + "\nb\n"), 1 << 30, 8 << 20),
              ElementsAre("a", "mmmmm", "b"));
  EXPECT_THAT(lines_of(file_with(folder, "a\n" + mega + "\nb\n"), 1 << 30, 2 << 20),
              ElementsAre("a", "mmmmm~", "b"))
      << "too long: not kept in memory, and what follows is read";
  EXPECT_THAT(lines_of(file_with(folder, "a\n" + mega), 1 << 30, 2 << 20),
              ElementsAre("a", "mmmmm~"));
}

}  // namespace
}  // namespace dtrain::report
