#include "formats/npz_array.h"

#include <gtest/gtest.h>
#include <zip.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "core/check.h"
#include "core/error.h"
#include "formats/npz.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace dtrain::formats {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRows = 400'000, kColumns = 7;  // of int64: more than what is kept in memory
static_assert(kRows * kColumns * 8 > NpzArray::kMostBytes + (1 << 20));

void write(const fs::path& file) {
  std::vector<int64_t> values(static_cast<size_t>(kRows * kColumns));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i % 1'000'003);
  write_npz(file, {{"x", to_npy(values, {kRows, kColumns})},
                   {"small", to_npy(std::vector<float>{1, 2}, {2})}});
}

int64_t value_at(int64_t element) { return element % 1'000'003; }

void compress(const fs::path& file) {
  zip_t* zip = zip_open(file.c_str(), 0, nullptr);
  DTRAIN_CHECK(zip != nullptr);
  for (zip_uint64_t i = 0; i < 2; ++i) zip_set_file_compression(zip, i, ZIP_CM_DEFLATE, 1);
  DTRAIN_CHECK(zip_close(zip) == 0);
}

void expect_elements(const NpzArray& array, int64_t first, int64_t count) {
  const std::vector<int64_t> values = array.to_int64(first, count);
  ASSERT_EQ(values.size(), static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    ASSERT_EQ(values[static_cast<size_t>(i)], value_at(first + i)) << first;
}

TEST(NpzArray, HasTheElementsOfTheWholeArray) {
  const testing::TempDir folder;
  write(folder / "a.npz");
  const uint64_t checksum = NpzArray::open(folder / "a.npz", "x")->checksum();
  for (const bool compressed : {false, true}) {
    if (compressed) compress(folder / "a.npz");
    const auto array = NpzArray::open(folder / "a.npz", "x");
    EXPECT_EQ(array->checksum(), checksum);
    EXPECT_EQ(array->header().shape, (std::vector<int64_t>{kRows, kColumns}));
    expect_elements(*array, 0, 10);
    expect_elements(*array, kRows * kColumns - 3, 3);
    expect_elements(*array, 5, 100'000);  // back to the beginning, and over several blocks
    expect_elements(*array, 0, 0);
    std::vector<std::jthread> threads;
    for (int64_t t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        for (int64_t row = t; row < kRows; row += 3 * 997)
          expect_elements(*array, row * kColumns, kColumns);
      });
    }
    threads.clear();
    EXPECT_EQ(array->to_float32(9, 2), (std::vector<float>{9, 10}));
    EXPECT_EQ(NpzArray::open(folder / "a.npz", "small")->to_float32(0, 2),
              (std::vector<float>{1, 2}));
  }
  EXPECT_EQ(NpzArray::open(folder / "a.npz", "absent"), nullptr);
}

// Two threads whose samples lie on both sides of a block's end. In a compressed array, each block
// that is read again may mean to decompress all that comes before it.
TEST(NpzArray, KeepsTheBlocksThatWereUsedLast) {
  const testing::TempDir folder;
  write(folder / "a.npz");
  compress(folder / "a.npz");
  const auto array = NpzArray::open(folder / "a.npz", "x");
  for (int64_t row = 0; row < kRows; row += 1000) expect_elements(*array, row * kColumns, kColumns);
  const int64_t passed = array->blocks_read(), in_block = (int64_t{1} << 18) / 8;
  EXPECT_LE(passed, kRows * kColumns / in_block + 1) << "each block once";
  for (int64_t i = 0; i < 500; ++i) {
    expect_elements(*array, 20 * in_block - 1 - i, 1);
    expect_elements(*array, 20 * in_block + i, 1);
  }
  EXPECT_LE(array->blocks_read(), passed + 21) << "those two, and once the way to them";
}

// Two threads that read a large sample each, block by block in turn.
TEST(NpzArray, DecompressesOnceForThreadsThatAreApart) {
  const testing::TempDir folder;
  write(folder / "a.npz");
  compress(folder / "a.npz");
  const auto array = NpzArray::open(folder / "a.npz", "x");
  constexpr int64_t kInBlock = (int64_t{1} << 18) / 8, kBlocks = 20;
  for (int64_t block = 0; block < kBlocks; ++block) {
    expect_elements(*array, block * kInBlock, 5);
    expect_elements(*array, (kBlocks + block) * kInBlock, 5);
  }
  EXPECT_LE(array->blocks_read(), 2 * kBlocks) << "each block once";
}

TEST(NpzArray, FindsDamageBeforeTheFirstElement) {
  const testing::TempDir folder;
  write(folder / "a.npz");
  std::fstream file(folder / "a.npz", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(15'000'000);
  file << "damage";
  file.close();
  testing::expect_error<DataError>([&] { NpzArray::open(folder / "a.npz", "x"); },
                                   {"its array x: damaged: CRC"});
}

TEST(NpzArray, AFileThatChangesIsAnErrorAndNoDamagedSample) {
  const testing::TempDir folder;
  write(folder / "a.npz");
  const auto array = NpzArray::open(folder / "a.npz", "x");
  expect_elements(*array, 0, 10);
  fs::last_write_time(folder / "a.npz", fs::file_time_type::clock::now() + std::chrono::hours(1));
  expect_elements(*array, 0, 10);  // in memory
  try {
    array->to_int64(kRows, 1);
    FAIL() << "the file was changed";
  } catch (const DataError&) {
    FAIL() << "the sample would be left out as damaged";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 65);
    EXPECT_NE(
        std::string(error.what()).find("a.npz cannot be read again: its array x: it was changed"),
        std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace dtrain::formats
