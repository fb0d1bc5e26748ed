#include "formats/mat_file.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "core/error.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace dtrain::formats {
namespace {

const Matrices kSome{{"Pose_Para", {.rows = 1, .columns = 3, .values = {0.5, -0.25, 0.125}}},
                     {"pt2d", {.rows = 2, .columns = 3, .values = {1, 10, 2, 20, 3, 30}}}};

std::string words(std::initializer_list<uint32_t> values) {
  return std::string(reinterpret_cast<const char*>(values.begin()),
                     values.size() * sizeof(uint32_t));
}

// A file with these elements, each the header and the data of a variable.
void write_variables(const std::filesystem::path& file,
                     std::initializer_list<std::string> elements) {
  std::ofstream out(file, std::ios::binary);
  out << std::string(124, ' ') << std::string("\0\1IM", 4);
  for (const std::string& element : elements)
    out << words({14, static_cast<uint32_t>(element.size())}) << element;
}

// The variable `x` of 2 x 2 numbers with the class and the data type of T.
template <typename T>
std::string two_by_two(uint32_t matlab_class, uint32_t data_type, std::vector<T> values) {
  std::string data(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  const auto bytes = static_cast<uint32_t>(data.size());
  data.resize((data.size() + 7) / 8 * 8);
  const std::string tag = words({data_type, bytes});
  return words({6, 8, matlab_class, 0}) + words({5, 8, 2, 2}) + words({1 | 1 << 16, 'x'}) + tag +
         data;
}

TEST(MatFile, RoundTrip) {
  const testing::TempDir folder;
  write_mat(folder / "a.mat", kSome);
  const Matrices back = read_mat(folder / "a.mat", {"Pose_Para", "pt2d", "absent"});
  ASSERT_EQ(back.size(), 2u);
  EXPECT_EQ(back.at("Pose_Para").values, kSome.at("Pose_Para").values);
  EXPECT_EQ(back.at("pt2d").rows, 2u);
  EXPECT_EQ(back.at("pt2d")(1, 2), 30);
  EXPECT_EQ(back.at("pt2d")(0, 1), 2);
}

TEST(MatFile, ReadsEveryNumericClass) {
  const testing::TempDir folder;
  const auto expect = [&](const std::string& element, const std::vector<double>& values) {
    write_variables(folder / "a.mat", {element});
    EXPECT_EQ(read_mat(folder / "a.mat", {"x"}).at("x").values, values)
        << "class " << int{element[8]};
  };
  expect(two_by_two<double>(6, 9, {0.5, -1, 1e9, 3}), {0.5, -1, 1e9, 3});
  expect(two_by_two<float>(7, 7, {0.5f, -1, 1e9f, 3}), {0.5, -1, 1e9, 3});
  expect(two_by_two<int8_t>(8, 1, {-128, -1, 0, 127}), {-128, -1, 0, 127});
  expect(two_by_two<uint8_t>(9, 2, {0, 1, 128, 255}), {0, 1, 128, 255});
  expect(two_by_two<int16_t>(10, 3, {-32768, -1, 0, 32767}), {-32768, -1, 0, 32767});
  expect(two_by_two<uint16_t>(11, 4, {0, 1, 2, 65535}), {0, 1, 2, 65535});
  expect(two_by_two<int32_t>(12, 5, {-2147483647, -1, 0, 7}), {-2147483647, -1, 0, 7});
  expect(two_by_two<uint32_t>(13, 6, {0, 1, 2, 4294967295}), {0, 1, 2, 4294967295});
  expect(two_by_two<int64_t>(14, 12, {-5000000000, -1, 0, 7}), {-5000000000, -1, 0, 7});
  expect(two_by_two<uint64_t>(15, 13, {0, 1, 2, 5000000000}), {0, 1, 2, 5000000000});
  // MATLAB stores small values in fewer bytes
  expect(two_by_two<uint8_t>(14, 2, {0, 1, 128, 255}), {0, 1, 128, 255});
  write_variables(folder / "a.mat", {two_by_two<uint16_t>(4, 4, {'a', 'b', 'c', 'd'})});
  testing::expect_error<DataError>([&] { read_mat(folder / "a.mat", {"x"}); },
                                   {"x is not a full matrix of numbers"});
}

TEST(MatFile, RefusesAVariableThatIsInItTwice) {
  const testing::TempDir folder;
  write_variables(folder / "a.mat", {two_by_two<uint8_t>(9, 2, {1, 2, 3, 4}),
                                     two_by_two<uint8_t>(9, 2, {5, 6, 7, 8})});
  testing::expect_error<DataError>([&] { read_mat(folder / "a.mat", {"x"}); },
                                   {"the variable x is in it twice"});
}

// libmatio gives such a file to the HDF5 library, which prints its own errors.
TEST(MatFile, Version73IsRefusedByName) {
  const testing::TempDir folder;
  for (const char* version : {"\0\2IM", "\2\0MI"}) {
    std::string text = "MATLAB 7.3 MAT-file";
    text.resize(124, ' ');
    text.append(version, 4).append(4096, '\0');
    std::ofstream(folder / "a.mat", std::ios::binary) << text;
    testing::expect_error<DataError>([&] { read_mat(folder / "a.mat", {"Pose_Para"}); },
                                     {"MATLAB 7.3", "-v7"});
  }
}

TEST(MatFile, TruncationIsDetectedAtAnyLength) {
  const testing::TempDir folder;
  write_mat(folder / "whole.mat", kSome);
  const auto size = static_cast<int64_t>(std::filesystem::file_size(folder / "whole.mat"));
  std::filesystem::copy_file(folder / "whole.mat", folder / "part.mat");
  for (int64_t length = size - 7; length >= 0; length -= 11) {
    std::filesystem::resize_file(folder / "part.mat", static_cast<uintmax_t>(length));
    // a file cut after a variable is valid without the later variables; any other cut is damage
    try {
      for (const auto& [name, matrix] : read_mat(folder / "part.mat", {"Pose_Para", "pt2d"})) {
        EXPECT_EQ(matrix.values, kSome.at(name).values) << name << " of a file cut to " << length;
      }
    } catch (const DataError& error) {
      EXPECT_NE(std::string(error.what()).find("damaged .mat"), std::string::npos) << error.what();
    }
  }
}

TEST(MatFile, ChangedBytesNeverGiveOtherNumbers) {
  const testing::TempDir folder;
  write_mat(folder / "whole.mat", kSome);
  std::ifstream in(folder / "whole.mat", std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  int refused = 0;
  for (size_t at = 128; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    std::ofstream(folder / "changed.mat", std::ios::binary) << changed;
    try {
      for (const auto& [name, matrix] : read_mat(folder / "changed.mat", {"Pose_Para", "pt2d"})) {
        EXPECT_EQ(matrix.values, kSome.at(name).values)
            << name << " with byte " << at << " changed";
      }
    } catch (const DataError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, static_cast<int>(whole.size() - 128) * 9 / 10);
}

TEST(MatFile, RefusesOtherContent) {
  const testing::TempDir folder;
  testing::expect_error<DataError>([&] { read_mat(folder / "none.mat", {"x"}); }, {"no such .mat"});
  std::ofstream(folder / "text.mat") << std::string(500, 'x');
  testing::expect_error<DataError>([&] { read_mat(folder / "text.mat", {"x"}); },
                                   {"not a .mat file of version 5"});
  testing::expect_error<OutputError>([&] { write_mat(folder / "no/such/folder.mat", kSome); },
                                     {"cannot write"});
}

TEST(MatFile, AllocatesNoMemoryForImplausibleSizes) {
  const testing::TempDir folder;
  write_mat(folder / "a.mat",
            {{"x", {.rows = 100000, .columns = 110, .values = std::vector<double>(11000000)}}});
  testing::expect_error<DataError>([&] { read_mat(folder / "a.mat", {"x"}); },
                                   {"x is implausibly large"});
  std::ofstream(folder / "b.mat");
  std::filesystem::resize_file(folder / "b.mat", uintmax_t{1} << 40);  // a sparse file
  testing::expect_error<DataError>([&] { read_mat(folder / "b.mat", {"x"}); },
                                   {"1.0 TiB", "at most"});
}

// libmatio would ask for as much memory as the header of a variable names.
TEST(MatFile, RefusesHeadersThatPromiseMoreThanTheFileHolds) {
  const testing::TempDir folder;
  const auto expect_refused = [&](const std::string& element, const char* why) {
    write_variables(folder / "x.mat", {element});
    testing::expect_error<DataError>([&] { read_mat(folder / "x.mat", {"x"}); }, {why});
  };
  const std::string flags = words({6, 8, 7, 0}), name = words({1 | 1 << 16, 'x'}),
                    data = words({7, 4, 0, 0});
  const auto sizes = [&](uint32_t rows, uint32_t columns) { return words({5, 8, rows, columns}); };
  expect_refused(flags + sizes(1, 1) + words({1, 0x6f005009}) + data,
                 "the name of a variable is longer");
  expect_refused(flags + sizes(3000, 3000) + name + data, "implausibly large");
  // A structure
  expect_refused(words({6, 8, 2, 0}) + sizes(4, 4) + name + data, "implausibly large");
  expect_refused(flags + words({5, 4000}) + name + data, "the header of a variable is wrong");
  expect_refused(flags + words({5 | 128 << 16, 1}) + name + data,
                 "the header of a variable is wrong");
  expect_refused(flags + words({5, 100, 1}), "the header of a variable is wrong");
  expect_refused(flags, "the header of a variable is cut");
  expect_refused(words({9, 8, 7, 0}) + sizes(1, 1) + name + data,
                 "the header of a variable is wrong");
}

TEST(MatFile, ManyThreadsCanRead) {
  const testing::TempDir folder;
  write_mat(folder / "a.mat", kSome);
  std::atomic<int> good{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i)
        good += read_mat(folder / "a.mat", {"pt2d"}).at("pt2d")(1, 0) == 10;
    });
  }
  threads.clear();
  EXPECT_EQ(good, 200);
}

}  // namespace
}  // namespace dtrain::formats
