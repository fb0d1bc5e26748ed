// Every way in which a file can fail to be a valid dtrain file, and the message that names the
// problem. Each test damages one thing in a valid file, with the HDF5 library if the damaged file
// is still HDF5.

#include <gtest/gtest.h>
#include <hdf5.h>

#include <fstream>
#include <functional>

#include "core/error.h"
#include "data/hdf5/data_set.h"
#include "data/hdf5/file_store.h"
#include "data/hdf5/h5_handles.h"
#include "data/hdf5/row_set.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace dtrain::data {
namespace {

using testing::expect_error;

class Refusal : public ::testing::Test {
 protected:
  Refusal() : file(folder / "d.h5") {
    Writer::Extras extras = testing::extras_of(6);
    extras.splits["train"] = {0, 1};
    testing::write_data_set(file, 6, extras);
  }

  void damage(const std::function<void(hid_t)>& change) {
    h5::Handle handle(H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
    ASSERT_TRUE(handle);
    change(handle.get());
    ASSERT_TRUE(handle.close());
  }

  void replace(
      const char* name, hid_t type, std::vector<hsize_t> shape, const void* values = nullptr,
      const std::function<void(hid_t)>& creation_options = [](hid_t) {}) {
    damage([&](hid_t handle) {
      if (H5Lexists(handle, name, H5P_DEFAULT) > 0) H5Ldelete(handle, name, H5P_DEFAULT);
      const h5::Handle space(
          H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), H5Sclose);
      const h5::Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
      H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY);
      creation_options(creation.get());
      const h5::Handle dataset(
          H5Dcreate2(handle, name, type, space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
          H5Dclose);
      ASSERT_TRUE(dataset) << name;
      if (values != nullptr) {
        ASSERT_GE(H5Dwrite(dataset.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), 0);
      }
    });
  }

  void set_number(const char* name, int64_t value) {
    damage([&](hid_t handle) {
      const h5::Handle attribute(H5Aopen(handle, name, H5P_DEFAULT), H5Aclose);
      ASSERT_GE(H5Awrite(attribute.get(), H5T_NATIVE_INT64, &value), 0);
    });
  }

  void expect_refusal(std::initializer_list<std::string> parts) {
    expect_error<DataError>([&] { open_file(file); }, parts);
    expect_error<DataError>([&] { open_file(file); }, {"d.h5"});
  }

  const testing::TempDir folder;
  const std::filesystem::path file;
};

TEST_F(Refusal, Missing) {
  std::filesystem::remove(file);
  expect_refusal({"No such file", "dtrain convert"});
}

TEST_F(Refusal, Folder) {
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  expect_refusal({"not a regular file"});
}

TEST_F(Refusal, Empty) {
  std::ofstream(file, std::ios::trunc);
  expect_refusal({"empty"});
}

TEST_F(Refusal, NotHdf5) {
  std::ofstream(file, std::ios::trunc) << "yaw,pitch,roll\n";
  expect_refusal({"not an HDF5 file", "dtrain convert"});
}

TEST_F(Refusal, FormatOfANewerHdf5) {
  const h5::Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_libver_bounds(access.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
  h5::Handle newer(H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), H5Fclose);
  ASSERT_TRUE(newer.close());
  expect_refusal({"newer HDF5", "libver=\"earliest\""});
}

TEST_F(Refusal, PagedFile) {
  const h5::Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  H5Pset_file_space_strategy(creation.get(), H5F_FSPACE_STRATEGY_PAGE, false, 1);
  h5::Handle paged(H5Fcreate(file.c_str(), H5F_ACC_TRUNC, creation.get(), H5P_DEFAULT), H5Fclose);
  ASSERT_TRUE(paged.close());
  expect_refusal({"paged", "write it again without fs_strategy"});
}

TEST_F(Refusal, InputsAndTargetsOfAnotherType) {
  replace("/targets", H5T_IEEE_F64LE, {6, 3});
  expect_refusal({"/targets is float64, must be float32 or int64", "or write that type"});
  replace("/inputs", H5T_IEEE_F64LE, {6, 3});
  expect_refusal({"/inputs is float64, must be uint8 or float32", "or write that type"});
}

TEST_F(Refusal, UnknownSplit) {
  const int64_t ids[] = {4};
  replace("/splits/valid", H5T_STD_I64LE, {1}, ids);
  expect_refusal(
      {"/splits/valid is not a split: train, val and test are known; did you mean 'val'?"});
}

TEST_F(Refusal, TruncatedAnywhere) {
  const uintmax_t size = std::filesystem::file_size(file);
  for (uintmax_t kept = 0; kept < size; kept += size / 97) {
    testing::write_data_set(file, 6, testing::extras_of(6));
    std::filesystem::resize_file(file, kept);
    EXPECT_THROW(open_file(file), DataError) << "cut to " << kept << " of " << size;
  }
  testing::write_data_set(file, 6, testing::extras_of(6));
  const uintmax_t whole = std::filesystem::file_size(file);
  std::filesystem::resize_file(file, whole - 1);
  expect_refusal(
      {dtrain::str("is truncated: it has ", whole - 1, " bytes of ", whole, ". Copy it again")});
}

TEST_F(Refusal, ForeignHdf5) {
  damage([](hid_t handle) { H5Adelete(handle, "format"); });
  expect_refusal({"another program", "format", "dtrain convert"});
}

TEST_F(Refusal, OtherVersion) {
  set_number("version", 2);
  expect_refusal({"version 2", "version 1"});
}

TEST_F(Refusal, MissingAttribute) {
  damage([](hid_t handle) { H5Adelete(handle, "checksum"); });
  expect_refusal({"lacks", "checksum"});
}

TEST_F(Refusal, ZeroSamples) {
  set_number("num_samples", 0);
  expect_refusal({"holds 0 samples"});
}

TEST_F(Refusal, CountsThatDisagree) {
  set_number("num_samples", 5);
  expect_refusal({"/inputs", "6 entries", "num_samples"});
}

TEST_F(Refusal, MissingDataset) {
  damage([](hid_t handle) { H5Ldelete(handle, "/targets", H5P_DEFAULT); });
  expect_refusal({"/targets", "missing"});
}

TEST_F(Refusal, WrongType) {
  replace("/inputs", H5T_IEEE_F32LE, {6, 5, 4, 3});
  expect_refusal({"/inputs", "float32", "uint8"});
}

TEST_F(Refusal, WrongByteOrder) {
  replace("/targets", H5T_IEEE_F32BE, {6, 3});
  expect_refusal({"/targets", "big endian", "float32"});
}

TEST_F(Refusal, WrongRank) {
  replace("/targets", H5T_IEEE_F32LE, {6, 3, 1});
  expect_refusal({"/targets", "float32 [3, 1]", "[N, T]"});
}

TEST_F(Refusal, NotThreeChannels) {
  replace("/inputs", H5T_STD_U8LE, {6, 5, 4, 4});
  expect_refusal({"/inputs", "uint8 [5, 4, 4]", "[N, H, W, 3]"});
}

TEST_F(Refusal, EmptySamples) {
  replace("/inputs", H5T_STD_U8LE, {6, 0, 4, 3});
  expect_refusal({"/inputs", "empty samples"});
}

TEST_F(Refusal, WrongCountOfChecksums) {
  replace("/checksums", H5T_STD_U64LE, {7});
  expect_refusal({"/checksums", "7 entries"});
}

TEST_F(Refusal, Chunked) {
  replace("/inputs", H5T_STD_U8LE, {6, 5, 4, 3}, nullptr, [](hid_t creation) {
    const hsize_t chunk[4] = {1, 5, 4, 3};
    H5Pset_chunk(creation, 4, chunk);
  });
  expect_refusal({"/inputs", "contiguous"});
}

TEST_F(Refusal, Virtual) {
  replace("/inputs", H5T_STD_U8LE, {6, 5, 4, 3}, nullptr, [](hid_t creation) {
    const hsize_t shape[4] = {6, 5, 4, 3};
    const h5::Handle space(H5Screate_simple(4, shape, nullptr), H5Sclose);
    H5Pset_alloc_time(creation, H5D_ALLOC_TIME_INCR);
    H5Pset_virtual(creation, space.get(), "/etc/passwd", "/x", space.get());
  });
  expect_refusal({"/inputs", "virtual"});
}

TEST_F(Refusal, ExternalStorage) {
  replace("/inputs", H5T_STD_U8LE, {6, 5, 4, 3}, nullptr,
          [](hid_t creation) { H5Pset_external(creation, "/etc/passwd", 0, 360); });
  expect_refusal({"/inputs", "external"});
}

TEST_F(Refusal, ExternalLink) {
  damage([](hid_t handle) {
    H5Ldelete(handle, "/inputs", H5P_DEFAULT);
    H5Lcreate_external("other.h5", "/inputs", handle, "/inputs", H5P_DEFAULT, H5P_DEFAULT);
  });
  expect_refusal({"/inputs", "link"});
}

TEST_F(Refusal, LinkedGroup) {
  damage([](hid_t handle) {
    H5Ldelete(handle, "/splits", H5P_DEFAULT);
    H5Lcreate_external("other.h5", "/splits", handle, "/splits", H5P_DEFAULT, H5P_DEFAULT);
  });
  expect_refusal({"/splits", "link"});
}

TEST_F(Refusal, NeverWritten) {
  replace("/inputs", H5T_STD_U8LE, {6, 5, 4, 3}, nullptr,
          [](hid_t creation) { H5Pset_alloc_time(creation, H5D_ALLOC_TIME_LATE); });
  expect_refusal({"/inputs", "never written"});
}

TEST_F(Refusal, DatasetThatIsLargerThanTheFile) {
  replace("/inputs", H5T_STD_U8LE, {6, 1 << 20, 1 << 20, 3}, nullptr,
          [](hid_t creation) { H5Pset_alloc_time(creation, H5D_ALLOC_TIME_LATE); });
  expect_refusal({"/inputs"});
}

TEST_F(Refusal, SplitBeyondTheSamples) {
  const int64_t ids[2] = {0, 6};
  replace("/splits/train", H5T_STD_I64LE, {2}, ids);
  expect_refusal({"/splits/train", "sample 6", "only 6"});
}

TEST_F(Refusal, SplitsThatOverlap) {
  const int64_t ids[2] = {5, 1};
  replace("/splits/val", H5T_STD_I64LE, {2}, ids);
  expect_refusal({"sample 1", "already in another split"});
}

class RowsRefusal : public Refusal {
 protected:
  RowsRefusal() {
    testing::write_row_set(file, true, testing::extras_of(6));
  }  // rows: 4, 1, 7, 3, 7, 2

  void replace_offsets(const char* name, std::vector<int64_t> offsets) {
    replace(name, H5T_STD_I64LE, {offsets.size()}, offsets.data());
  }
};

TEST_F(RowsRefusal, AcceptsTheUndamagedFile) { EXPECT_NO_THROW(open_file(file)); }

TEST_F(RowsRefusal, OffsetsThatDoNotStartAtZero) {
  replace_offsets("/inputs/offsets", {1, 4, 5, 12, 15, 22, 24});
  expect_refusal({"/inputs/offsets", "begins with 1", "dtrain convert"});
}

TEST_F(RowsRefusal, OffsetsThatDecrease) {
  replace_offsets("/targets/offsets", {0, 4, 12, 5, 15, 22, 24});
  expect_refusal({"/targets/offsets", "goes down from 12 to 5 at sample 2"});
}

TEST_F(RowsRefusal, OffsetsBeyondTheRows) {
  replace_offsets("/inputs/offsets", {0, 4, 5, 12, 15, 22, 25});
  expect_refusal({"/inputs/offsets", "ends with 25", "24 rows"});
}

TEST_F(RowsRefusal, RowsOfNoSample) {
  replace_offsets("/inputs/offsets", {0, 4, 5, 12, 15, 22, 23});
  expect_refusal({"/inputs/offsets", "ends with 23", "24 rows"});
}

TEST_F(RowsRefusal, WrongCountOfOffsets) {
  replace_offsets("/inputs/offsets", {0, 4, 5, 12, 15, 24});
  expect_refusal({"/inputs/offsets", "6 entries", "7 are expected"});
}

TEST_F(RowsRefusal, OffsetsOfAnotherType) {
  const int32_t offsets[7] = {0, 4, 5, 12, 15, 22, 24};
  replace("/inputs/offsets", H5T_STD_I32LE, {7}, offsets);
  expect_refusal({"/inputs/offsets", "int32", "int64"});
}

TEST_F(RowsRefusal, OffsetsOfTwoDimensions) {
  replace("/inputs/offsets", H5T_STD_I64LE, {7, 1});
  expect_refusal({"/inputs/offsets", "2 dimensions"});
}

TEST_F(RowsRefusal, ValuesOfAnotherType) {
  replace("/inputs/values", H5T_IEEE_F64LE, {24, 3});
  expect_refusal({"/inputs/values", "float64", "float32"});
  replace("/inputs/values", H5T_STD_U8LE, {24, 3});
  expect_refusal({"/inputs", "uint8 [rows, 3]"});
}

TEST_F(RowsRefusal, ValuesOfAnotherShape) {
  replace("/inputs/values", H5T_IEEE_F32LE, {24});
  expect_refusal({"/inputs", "float32 [rows]"});
  replace("/inputs/values", H5T_IEEE_F32LE, {24, 0});
  expect_refusal({"/inputs", "empty samples"});
}

TEST_F(RowsRefusal, RowsOfMoreBytesThanAFileCanHave) {
  replace("/inputs/values", H5T_IEEE_F32LE, {0, hsize_t{1} << 62}, nullptr);
  expect_refusal({"/inputs/values", "claims the shape", "more bytes than a file"});
}

TEST_F(RowsRefusal, TargetsThatAreNeitherClassesNorOrders) {
  replace("/targets/values", H5T_IEEE_F32LE, {24});
  expect_refusal({"/targets", "float32 [rows]", "int64 [rows]"});
  replace("/targets", H5T_STD_U8LE, {6});
  expect_refusal({"/targets", "uint8 []"});
}

TEST_F(RowsRefusal, MissingParts) {
  damage([](hid_t handle) { H5Ldelete(handle, "/inputs/offsets", H5P_DEFAULT); });
  expect_refusal({"/inputs/offsets", "missing"});
  damage([](hid_t handle) { H5Ldelete(handle, "/inputs/values", H5P_DEFAULT); });
  expect_refusal({"/inputs/values", "missing"});
}

TEST_F(RowsRefusal, TruncatedAnywhere) {
  const uintmax_t size = std::filesystem::file_size(file);
  for (uintmax_t kept = 0; kept < size; kept += size / 97) {
    testing::write_row_set(file, true, testing::extras_of(6));
    std::filesystem::resize_file(file, kept);
    EXPECT_THROW(open_file(file), DataError) << "cut to " << kept << " of " << size;
  }
}

}  // namespace
}  // namespace dtrain::data
