// The root attributes of a file: how they are stored, what covers them, and files in which they are
// stored otherwise.

#include "data/attributes.h"

#include <gtest/gtest.h>
#include <hdf5.h>

#include <fstream>
#include <functional>

#include "core/error.h"
#include "data/hdf5/data_set.h"
#include "data/hdf5/file_store.h"
#include "data/hdf5/h5_handles.h"
#include "data/hdf5/row_set.h"
#include "os/file_system.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace dtrain::data {
namespace {

using testing::expect_error;

h5::Handle text_type(size_t bytes) {
  h5::Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.get(), bytes);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  if (bytes != H5T_VARIABLE) H5Tset_strpad(type.get(), H5T_STR_NULLPAD);
  return type;
}

class StoredAttributes : public ::testing::Test {
 protected:
  StoredAttributes() : file(folder / "d.h5") {
    Writer::Extras extras = testing::extras_of(6);
    extras.attributes["class_names"] = "walk\nrun\nstand still";
    extras.attributes["target_unit"] = "degree";
    extras.attributes["seed"] = uint64_t{3};
    extras.attributes["samples_quarantined"] = int64_t{-2};
    extras.attributes["share"] = 0.1;
    extras.attributes["empty"] = "";
    testing::write_row_set(file, false, extras);
  }

  void change(const std::function<void(hid_t)>& action) const {
    h5::Handle handle(H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
    ASSERT_TRUE(handle);
    action(handle.get());
    ASSERT_TRUE(handle.close());
  }

  void put(const std::string& name, hid_t type, const void* value, hsize_t count = 0) const {
    change([&](hid_t handle) {
      if (H5Aexists(handle, name.c_str()) > 0) H5Adelete(handle, name.c_str());
      const h5::Handle space(
          count == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &count, nullptr), H5Sclose);
      const h5::Handle attribute(
          H5Acreate2(handle, name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
      ASSERT_GE(H5Awrite(attribute.get(), type, value), 0) << name;
    });
  }
  void put_text(const std::string& name, const std::string& text) const {
    put(name, text_type(text.size()).get(), text.data());
  }
  void put_variable_text(const std::string& name, const std::string& text) const {
    const char* value = text.c_str();
    put(name, text_type(H5T_VARIABLE).get(), &value);
  }
  void forget_checksum() const {
    change([](hid_t handle) { H5Adelete(handle, kAttributesChecksum); });
  }

  void expect_refusal(const std::string& part) const {
    expect_error<DataError>([&] { open_file(file); }, {"d.h5", part});
  }
  std::string verified() const { return inspect_data(probe(file), true); }

  const testing::TempDir folder;
  const std::filesystem::path file;
};

// As an independent implementation computes it: tests/data/hdf5/h5py_opens_it.py does for a file.
TEST(AttributesChecksum, ChainsNamesTypesAndValuesInTheOrderOfTheNames) {
  const Attributes all{
      {"b", "text"}, {"a", int64_t{-1}}, {kAttributesChecksum, uint64_t{5}}, {"c", 0.5}};
  EXPECT_EQ(attributes_checksum({}), 0u);
  const uint64_t whole = attributes_checksum(all);
  for (const auto& [name, value] : {std::pair<const char*, Attribute>{"b", "texu"},
                                    {"b", ""},
                                    {"a", uint64_t(-1)},
                                    {"a", int64_t{1}},
                                    {"a", -1.0},
                                    {"c", 0.25},
                                    {"d", ""}}) {
    Attributes other = all;
    other[name] = value;
    EXPECT_NE(attributes_checksum(other), whole) << name;
  }
  EXPECT_NE(attributes_checksum({{"ab", "c"}}), attributes_checksum({{"a", "bc"}}))
      << "where a name ends counts";
}

TEST_F(StoredAttributes, KeepTheirTypes) {
  const Attributes found = probe(file).attributes;
  EXPECT_EQ(found.at("seed"), Attribute(uint64_t{3}));
  EXPECT_EQ(found.at("samples_quarantined"), Attribute(int64_t{-2}));
  EXPECT_EQ(found.at("share"), Attribute(0.1));
  EXPECT_EQ(found.at("empty"), Attribute(""));
  EXPECT_EQ(found.at("task"), Attribute("sequence"));
  EXPECT_EQ(found.at(kAttributesChecksum), Attribute(attributes_checksum(found)));
  EXPECT_EQ(open_file(file)->origin().attribute("share"), "0.1");
}

TEST_F(StoredAttributes, TextHasAFixedLength) {
  change([](hid_t handle) {
    for (const char* name : {"format", "task", "class_names", "empty"}) {
      const h5::Handle attribute(H5Aopen(handle, name, H5P_DEFAULT), H5Aclose);
      const h5::Handle type(H5Aget_type(attribute.get()), H5Tclose);
      EXPECT_EQ(H5Tis_variable_str(type.get()), 0) << name;
      EXPECT_EQ(H5Tget_cset(type.get()), H5T_CSET_UTF8) << name;
    }
  });
}

TEST_F(StoredAttributes, MayBeLongAndMany) {
  std::string names = "class 0";
  for (int i = 1; i < 30000; ++i) names += "\nclass " + std::to_string(i);
  Writer::Extras extras = testing::extras_of(6);
  extras.attributes["class_names"] = names;
  for (int i = 0; i < 200; ++i) extras.attributes["note " + std::to_string(i)] = int64_t{i};
  testing::write_row_set(file, false, extras);
  EXPECT_EQ(class_names(open_file(file)->origin()).size(), 30000u);
  EXPECT_EQ(open_file(file)->origin().attribute("note 199"), "199");
  EXPECT_NO_THROW(open_file(file)->verify());
}

TEST_F(StoredAttributes, AnyChangeIsFound) {
  put_text("class_names", "stand still\nrun\nwalk");
  expect_refusal("`attributes_checksum`");
  put_text("class_names", "walk\nrun\nstand still");
  EXPECT_NO_THROW(open_file(file));
  put_text("target_unit", "radian");
  expect_refusal("`attributes_checksum`");
  put_text("target_unit", "degree");
  const int64_t number = 7;
  put("note", H5T_NATIVE_INT64, &number);
  expect_refusal("`attributes_checksum`");
  change([](hid_t handle) { H5Adelete(handle, "note"); });
  change([](hid_t handle) { H5Adelete(handle, "seed"); });
  expect_refusal("`attributes_checksum`");
}

TEST_F(StoredAttributes, OfAnOlderFileOpenAndAreReportedAsNotCovered) {
  EXPECT_NE(verified().find("the attributes match theirs"), std::string::npos);
  forget_checksum();
  for (const char* name : {"format", "task", "class_names", "target_unit"}) {
    put_variable_text(name, open_file(file)->origin().attribute(name));
  }
  EXPECT_EQ(class_names(open_file(file)->origin()),
            (std::vector<std::string>{"walk", "run", "stand still"}));
  const std::string report = verified();
  EXPECT_NE(report.find("not covered by a checksum: the attributes"), std::string::npos) << report;
  EXPECT_EQ(report.find("match theirs"), std::string::npos);
}

TEST_F(StoredAttributes, PaddingIsNoPartOfATextButAZeroByteInsideIsRefused) {
  forget_checksum();
  put_text("target_unit", std::string("degree\0\0\0", 9));
  EXPECT_EQ(open_file(file)->origin().attribute("target_unit"), "degree");
  put_text("class_names", std::string("walk\0run\nstand", 14));
  expect_refusal("`class_names` has a zero byte");
  put_text("class_names", "walk\nrun\xff");
  expect_refusal("`class_names` is not UTF-8");
  put_text("class_names", "walk\nrun\nwalk");
  expect_refusal("the class walk twice");
}

TEST_F(StoredAttributes, NumbersThatAreTextAreRefused) {
  forget_checksum();
  put_text("num_samples", "6");
  expect_refusal("`num_samples` is the text \"6\", must be an integer");
}

TEST_F(StoredAttributes, KnownNamesOfListsAreRefused) {
  const int64_t list[2] = {1, 2};
  put("target_unit", H5T_NATIVE_INT64, list, 2);
  expect_refusal("`target_unit` is neither text nor a single number");
  forget_checksum();
  expect_refusal("`target_unit` is neither text nor a single number");
  change([](hid_t handle) { H5Adelete(handle, "target_unit"); });
  EXPECT_NO_THROW(open_file(file));
  put(kAttributesChecksum, H5T_NATIVE_INT64, list, 2);
  expect_refusal("`attributes_checksum` is neither text nor a single number");
}

// In the first metadata format, which has no checksums, each attribute is found by decoding those
// before it.
TEST_F(StoredAttributes, OneThatCannotBeDecodedIsNotTakenForAbsent) {
  constexpr const char* kDamaged = "target_unit";
  {
    const h5::Handle handle(H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
                            H5Fclose);
    for (const char* name : {"format", kDamaged}) {
      const h5::Handle space(H5Screate(H5S_SCALAR), H5Sclose), type = text_type(6);
      const h5::Handle attribute(
          H5Acreate2(handle.get(), name, type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT),
          H5Aclose);
      ASSERT_GE(H5Awrite(attribute.get(), type.get(), "dtrain"), 0);
    }
  }
  std::string bytes = read_text(file);
  const size_t name = bytes.find(kDamaged);
  ASSERT_NE(name, std::string::npos);
  ASSERT_EQ(bytes[name - 8], 1) << "the version of the message that holds the attribute";
  bytes[name - 8] = 0x77;
  std::ofstream(file, std::ios::binary) << bytes;
  expect_refusal("the root attribute `version` cannot be looked up");
}

TEST_F(StoredAttributes, ListsAreIgnoredOnlyWhereNothingCoversThem) {
  const int64_t list[2] = {1, 2};
  put("list", H5T_NATIVE_INT64, list, 2);
  expect_refusal("`list` is neither text nor a single number");
  forget_checksum();
  EXPECT_NE(verified().find("list (neither text nor a single number: ignored)"), std::string::npos);
}

}  // namespace
}  // namespace dtrain::data
