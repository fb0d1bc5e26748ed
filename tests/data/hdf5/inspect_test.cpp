#include "data/hdf5/file_store.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "core/error.h"
#include "data/hdf5/data_set.h"
#include "data/hdf5/layout.h"
#include "support/temp_dir.h"

namespace dtrain::data {
namespace {

TEST(InspectData, ReportsTheContent) {
  const testing::TempDir folder;
  Writer::Extras extras = testing::extras_of(1200);
  extras.splits = {{"test", {1, 2, 3}}, {"train", {7, 8}}};
  testing::write_data_set(folder / "d.h5", 1200, extras);
  const std::string text = inspect_data(probe(folder / "d.h5"), true);
  for (const char* part :
       {"d.h5", "version 1", "headpose", "samples     1 200", "uint8 [5, 4, 3], 60 B each",
        "float32 [3]", "element 1: -599.500 to 0.000, mean -299.750",
        "train 2, test 3, 1 195 in none", "groups      600", "AFW/photo_0.jpg", "crop = 0.6",
        "all 1 200 samples match"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
}

TEST(InspectData, VerifiesOnlyOnRequest) {
  const testing::TempDir folder;
  testing::write_data_set(folder / "d.h5", 5, testing::extras_of(5));
  std::fstream stream(folder / "d.h5", std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(probe(folder / "d.h5").inputs.offset);
  stream.put('\xff');
  stream.close();
  const std::string text = inspect_data(probe(folder / "d.h5"), false);
  EXPECT_EQ(text.find("match"), std::string::npos);
  EXPECT_NE(text.find("none (training"), std::string::npos) << text;
  EXPECT_THROW(inspect_data(probe(folder / "d.h5"), true), DataError);
}

TEST(InspectData, TheMeanIgnoresNan) {
  const testing::TempDir folder;
  const std::unique_ptr<Writer> writer = Writer::create(folder / "d.h5", testing::small_schema(4));
  for (int64_t id = 0; id < 4; ++id) {
    const float x = id < 2 ? 3.0f : NAN;
    writer->write(id, testing::input_of(id), testing::bytes_of(std::vector<float>{x, 1, NAN}));
  }
  writer->finish(testing::extras_of(4));
  const std::string text = inspect_data(probe(folder / "d.h5"), false);
  for (const char* part :
       {"element 0: 3.000 to 3.000, mean 3.000", "element 2: no numbers", "6 values are NaN"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
}

}  // namespace
}  // namespace dtrain::data
