#include <gtest/gtest.h>

#include <cmath>

#include "convert/convert.h"
#include "core/error.h"
#include "data/hdf5/file_store.h"
#include "formats/npz.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "text/strings.h"

namespace dtrain::convert {
namespace {

using testing::expect_error;
using Bytes = std::vector<std::byte>;
using Floats = std::vector<float>;
using Numbers = std::vector<int64_t>;
using Arrays = std::map<std::string, Bytes>;

// A .npy file of another type than formats::to_npy() writes: its data as characters.
Bytes npy(const char* type, const std::vector<int64_t>& shape, const std::string& data) {
  const std::string all = formats::npy_header(type, shape) + data;
  const auto bytes = std::as_bytes(std::span(all));
  return {bytes.begin(), bytes.end()};
}

Bytes names(const std::vector<std::string>& texts) {  // |S4
  std::string data;
  for (std::string text : texts) {
    text.resize(4, '\0');
    data += text;
  }
  return npy("|S4", {static_cast<int64_t>(texts.size())}, data);
}

Bytes floats(const std::vector<int64_t>& shape, float first = 0) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  Floats values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i);
  return formats::to_npy(values, shape);
}

Bytes classes(int64_t samples, int64_t kinds) {
  Numbers labels;
  for (int64_t i = 0; i < samples; ++i) labels.push_back(i % kinds);
  return formats::to_npy(labels, {samples});
}

std::string pixels(size_t count) {
  std::string data(count, '\0');
  for (size_t i = 0; i < count; ++i) data[i] = static_cast<char>(i * 7);
  return data;
}

class ArraysTest : public ::testing::Test {
 protected:
  ConvertSummary converted(const Arrays& arrays, const std::string& task = "",
                           const std::vector<std::string>& all_classes = {}) const {
    formats::write_npz(files / "a.npz", arrays);
    ConvertOptions o;
    o.source = files / "a.npz";
    o.out = files / "o.h5";
    o.task = task;
    o.classes = all_classes;
    o.force = true;
    return convert("arrays", o);
  }
  std::unique_ptr<data::Store> opened() const {
    std::unique_ptr<data::Store> store = data::open_file(files / "o.h5");
    store->verify();
    return store;
  }
  void refused(const Arrays& arrays, const std::vector<std::string>& parts,
               const std::string& task = "") const {
    std::vector<std::string> all{"a.npz: "};
    all.insert(all.end(), parts.begin(), parts.end());
    expect_error<DataError>([&] { converted(arrays, task); }, all);
  }
  testing::TempDir files;
};

TEST_F(ArraysTest, RowsAndNumbers) {
  const ConvertSummary summary =
      converted({{"inputs", floats({20, 5})}, {"targets", floats({20, 2}, 100)}});
  EXPECT_EQ(summary.splits,
            (std::map<std::string, int64_t>{{"test", 2}, {"train", 16}, {"val", 2}}));
  const auto store = opened();
  EXPECT_EQ(store->schema().task, "module");
  EXPECT_EQ(store->schema().input, (data::Field{data::Element::kFloat32, {5}}));
  EXPECT_EQ(store->schema().target, (data::Field{data::Element::kFloat32, {2}}));
  EXPECT_EQ(data::read_input_as<float>(*store, 3), (Floats{15, 16, 17, 18, 19}));
  EXPECT_EQ(data::read_target_as<float>(*store, 3), (Floats{106, 107}));
  EXPECT_EQ(store->origin().source(3), "a.npz#3");
  EXPECT_EQ(store->origin().attribute("source"), "arrays");
  EXPECT_EQ(store->origin().attribute("class_names"), "");
}

TEST_F(ArraysTest, OneNumberPerSampleHasNoDimension) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{6}, {6, 1}}) {
    converted({{"inputs", floats(shape)}, {"targets", floats(shape)}});
    EXPECT_EQ(opened()->schema().input, (data::Field{data::Element::kFloat32, {1}}));
    EXPECT_EQ(opened()->schema().target, (data::Field{data::Element::kFloat32, {}}));
  }
  converted({{"inputs", floats({6, 2, 3})},
             {"targets", npy("|b1", {6, 1}, std::string("\1\0\1\0\1\1", 6))}});
  EXPECT_EQ(opened()->schema().input, (data::Field{data::Element::kFloat32, {2, 3}}));
  EXPECT_EQ(opened()->schema().target, (data::Field{data::Element::kInt64, {}}));
  EXPECT_EQ(data::read_target_as<int64_t>(*opened(), 2), Numbers{1});
}

TEST_F(ArraysTest, LengthsCutTheRows) {
  Arrays arrays{{"inputs", floats({4, 3, 2})},
                {"targets", classes(4, 2)},
                {"lengths", formats::to_npy(Numbers{3, 1, 2, 3}, {4})},
                {"split", formats::to_npy(Numbers{0, 2, 0, 1}, {4})}};
  converted(arrays);
  const auto store = opened();
  EXPECT_EQ(store->schema().input, (data::Field{data::Element::kFloat32, {data::kVariable, 2}}));
  EXPECT_EQ(data::read_input_as<float>(*store, 1), (Floats{6, 7}));
  EXPECT_EQ(data::read_input_as<float>(*store, 2), (Floats{12, 13, 14, 15}));
  EXPECT_EQ(store->origin().split("train"), (Numbers{0, 2}));
  EXPECT_EQ(store->origin().split("val"), Numbers{3});
  EXPECT_EQ(store->origin().split("test"), Numbers{1});
  arrays["lengths"] = formats::to_npy(Numbers{3, 0, 4, 3}, {4});
  const ConvertSummary summary = converted(arrays);
  ASSERT_EQ(summary.quarantined.size(), 2u);
  EXPECT_EQ(summary.quarantined[0].name, "a.npz#1");
  EXPECT_EQ(summary.quarantined[0].reason, "its length is 0; the array has room for 1 to 3 rows");
  EXPECT_EQ(summary.quarantined[1].reason, "its length is 4; the array has room for 1 to 3 rows");
}

TEST_F(ArraysTest, ImagesWithNamedClasses) {
  const std::string data = pixels(8 * 2 * 4 * 3);
  const Arrays arrays{{"inputs", npy("|u1", {8, 2, 4, 3}, data)},
                      {"targets", npy("|u1", {8}, std::string("\0\1\0\1\0\1\0\1", 8))},
                      {"class_names", names({"dog", "cat"})}};
  for (const char* task : {"module", "classify"}) {
    const ConvertSummary summary = converted(arrays, task);
    EXPECT_EQ(summary.classes,
              (std::vector<std::pair<std::string, int64_t>>{{"dog", 4}, {"cat", 4}}));
    const auto store = opened();
    EXPECT_EQ(store->schema().task, task);
    EXPECT_EQ(store->schema().input, (data::Field{data::Element::kUint8, {2, 4, 3}}));
    EXPECT_EQ(data::class_names(store->origin()), (std::vector<std::string>{"dog", "cat"}))
        << "in the order of the file";
    const std::vector<uint8_t> third = data::read_input_as<uint8_t>(*store, 2);
    EXPECT_EQ(std::string(third.begin(), third.end()), data.substr(2 * 24, 24));
  }
}

TEST_F(ArraysTest, ClassesAreNumberedLikeThoseGiven) {
  Arrays arrays{{"inputs", floats({6, 3})},
                {"targets", classes(6, 2)},
                {"class_names", names({"dog", "cat"})}};
  const std::vector<std::string> given{"ant", "cat", "dog"};
  EXPECT_EQ(converted(arrays, "module", given).classes,
            (std::vector<std::pair<std::string, int64_t>>{{"ant", 0}, {"cat", 3}, {"dog", 3}}));
  EXPECT_EQ(data::class_names(opened()->origin()), given);
  EXPECT_EQ(data::read_target_as<int64_t>(*opened(), 0), Numbers{2});
  EXPECT_EQ(data::read_target_as<int64_t>(*opened(), 1), Numbers{1});
  expect_error<DataError>(
      [&] {
        converted(arrays, "module", {"ant", "dog"});
      },
      {"class_names holds cat, which is none of the classes that --classes gives: ant, dog"});
  arrays.erase("class_names");  // the targets are numbers of the classes given
  converted(arrays, "module", given);
  EXPECT_EQ(data::class_names(opened()->origin()), given);
  EXPECT_EQ(data::read_target_as<int64_t>(*opened(), 1), Numbers{1});
  arrays["targets"] = classes(6, 4);
  expect_error<DataError>([&] { converted(arrays, "module", given); },
                          {"targets[3] is 3, but --classes gives 3 names, of the classes 0 to 2"});
  arrays["targets"] = formats::to_npy(Numbers{2, 2, 2, 2, 2, 2}, {6});
  arrays["class_names"] = names({"x", "y", "ant"});
  expect_error<DataError>([&] { converted(arrays, "module", given); }, {"class_names holds x"});
}

TEST_F(ArraysTest, GrayImagesBecomeRgb) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{4, 2, 2}, {4, 2, 2, 1}}) {
    converted({{"inputs", npy("|u1", shape, pixels(16))}, {"targets", classes(4, 2)}}, "classify");
    const auto store = opened();
    EXPECT_EQ(store->schema().input, (data::Field{data::Element::kUint8, {2, 2, 3}}));
    EXPECT_EQ(data::read_input_as<uint8_t>(*store, 1),
              (std::vector<uint8_t>{28, 28, 28, 35, 35, 35, 42, 42, 42, 49, 49, 49}));
    EXPECT_EQ(data::class_names(store->origin()), (std::vector<std::string>{"0", "1"}))
        << "their numbers, without class_names";
  }
}

TEST_F(ArraysTest, GroupsAreNotDivided) {
  Numbers groups;
  for (int64_t i = 0; i < 60; ++i) groups.push_back(1000 - i / 6);
  const ConvertSummary summary = converted({{"inputs", floats({60, 2})},
                                            {"targets", floats({60})},
                                            {"group", formats::to_npy(groups, {60})}});
  EXPECT_EQ(summary.groups, 10);
  const auto store = opened();
  EXPECT_EQ(store->origin().split("test").size(), 6u);
  for (const int64_t id : store->origin().split("test"))
    EXPECT_EQ(store->origin().group(id), store->origin().group(store->origin().split("test")[0]));
}

// Without names too: each number keeps a sample for training.
TEST_F(ArraysTest, SplitsHoldSomeOfEachClass) {
  Numbers targets;
  for (int64_t i = 0; i < 40; ++i) targets.push_back(i % 20);
  converted({{"inputs", floats({40, 2})}, {"targets", formats::to_npy(targets, {40})}});
  const auto store = opened();
  EXPECT_EQ(store->origin().attribute("class_names"), "");
  std::set<int64_t> trained;
  for (const int64_t id : store->origin().split("train"))
    trained.insert(data::read_target_as<int64_t>(*store, id)[0]);
  EXPECT_EQ(trained.size(), 20u);
  // No classes
  converted({{"inputs", floats({3, 2})}, {"targets", formats::to_npy(Numbers{-1, 900, 4}, {3})}});
  EXPECT_EQ(data::read_target_as<int64_t>(*opened(), 1), Numbers{900});
}

TEST_F(ArraysTest, QuarantinesWhatIsNotFinite) {
  Floats inputs(5 * 3, 1), targets(5 * 2, 2);
  inputs[1 * 3 + 2] = NAN;
  targets[3 * 2 + 1] = INFINITY;
  const ConvertSummary summary = converted(
      {{"inputs", formats::to_npy(inputs, {5, 3})}, {"targets", formats::to_npy(targets, {5, 2})}});
  EXPECT_EQ(summary.kept, 3);
  ASSERT_EQ(summary.quarantined.size(), 2u);
  EXPECT_EQ(summary.quarantined[0].reason, "NaN in row 0, feature 2");
  EXPECT_EQ(summary.quarantined[1].reason, "its target 1 is infinite (or beyond float32)");
}

TEST_F(ArraysTest, RefusesOtherInputs) {
  const Bytes six = floats({6});
  refused({{"x", six}, {"y", six}},
          {"no array inputs; its arrays are x, y", "Expected: inputs uint8 [N, H, W, 3]"});
  refused({{"inputs", six}}, {"no array targets"});
  refused({{"inputs", floats({2, 3, 4, 4})}, {"targets", floats({2})}},
          {"inputs is float32 [2, 3, 4, 4]", "astype('uint8')", "x.transpose(0, 2, 3, 1)"});
  refused({{"inputs", npy("|u1", {2, 3, 4, 4}, pixels(96))}, {"targets", floats({2})}},
          {"uint8 [2, 3, 4, 4]"});
  refused({{"inputs", floats({1, 1, 1, 1, 1})}, {"targets", floats({1})}},
          {"float32 [1, 1, 1, 1, 1]"});
  refused({{"inputs", floats({0, 5})}, {"targets", floats({0})}}, {"holds no values"});
  refused({{"inputs", floats({5, 0})}, {"targets", floats({5})}}, {"holds no values"});
  refused({{"inputs", floats({2, 3})}, {"targets", floats({2})}, {"lengths", classes(2, 2)}},
          {"lengths are of rows [N, T, F]"});
  refused({{"inputs", npy("|u1", {2, 2, 2}, pixels(8))},
           {"targets", floats({2})},
           {"lengths", classes(2, 2)}},
          {"inputs.astype('float32')"});
  refused({{"inputs", floats({2, 3})}, {"targets", floats({2})}},
          {"task classify needs images", "--task module"}, "classify");
  refused({{"inputs", npy("<c8", {2}, std::string(16, '\0'))}, {"targets", floats({2})}},
          {"complex"});
}

TEST_F(ArraysTest, RefusesOtherTargets) {
  const Bytes inputs = floats({6, 2}), images = npy("|u1", {6, 2, 2, 3}, pixels(72));
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{5}, {6, 2, 2}, {6, 0}}) {
    refused({{"inputs", inputs}, {"targets", floats(shape)}},
            {"targets is float32", "expected [6] or [6, K]"});
  }
  refused({{"inputs", images}, {"targets", floats({6})}}, {"targets.astype('int64')"}, "classify");
  refused({{"inputs", images}, {"targets", floats({6})}, {"class_names", names({"a", "b"})}},
          {"classes are integers [N]"});
  refused({{"inputs", images}, {"targets", formats::to_npy(Numbers{0, 1, -1, 0, 1, 0}, {6})}},
          {"targets[2] is -1; classes are counted from 0"}, "classify");
  refused({{"inputs", images}, {"targets", formats::to_npy(Numbers{0, 1, 0, 700, 1, 0}, {6})}},
          {"targets[3] is 700, but there are 6 samples"}, "classify");
  refused({{"inputs", images}, {"targets", classes(6, 3)}, {"class_names", names({"a", "b"})}},
          {"targets[2] is 2, but class_names has 2 names, of the classes 0 to 1"});
  refused({{"inputs", images}, {"targets", classes(6, 1)}}, {"two names or more"}, "classify");
  refused({{"inputs", images},
           {"targets", classes(6, 2)},
           {"split", formats::to_npy(Numbers(6, 3), {6})}},
          {"split contains 3"});
  refused({{"inputs", images}, {"targets", classes(6, 2)}, {"group", classes(5, 2)}},
          {"group", "expected [6]"});
}

TEST_F(ArraysTest, RefusesNamesThatCannotBeStored) {
  const auto refuses = [&](const Bytes& class_names, const std::string& part) {
    refused({{"inputs", floats({6, 2})}, {"targets", classes(6, 2)}, {"class_names", class_names}},
            {part});
  };
  refuses(names({"a", "a"}), "'a' twice");
  refuses(names({"a", ""}), "an empty name");
  refuses(names({"a", "b\nc"}), "a line break or a NUL in 'b\\nc'");
  refuses(names({"a", std::string("b\0c", 3)}), "a line break or a NUL");
  refuses(names({"a", "\xff"}), "class_names: element 1 is not UTF-8");
  refuses(classes(2, 2), "class_names: no strings (dtype '<i8'); an array of strings is expected");
  refuses(npy("|O", {2}, std::string(16, '\0')), "Python objects");
}

TEST_F(ArraysTest, TheTaskIsModuleOrClassifyAndOfArraysOnly) {
  const Arrays arrays{{"inputs", floats({6, 2})}, {"targets", floats({6})}};
  expect_error<UsageError>([&] { converted(arrays, "headpose"); },
                           {"--task headpose", "module", "classify"});
  ConvertOptions o;
  o.source = files / "a.npz";
  o.out = files / "p.h5";
  o.task = "module";
  expect_error<UsageError>([&] { convert("pointer", o); }, {"--task applies only to arrays"});
  o.source = files / "none.npz";
  expect_error<DataError>([&] { convert("arrays", o); }, {"no such file", "none.npz"});
}

}  // namespace
}  // namespace dtrain::convert
