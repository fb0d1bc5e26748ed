#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "checkpoint/finite_values.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/snapshots.h"
#include "checkpoint/store.h"
#include "core/error.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace dtrain::checkpoint {
namespace {

NamedTensors one_of_each() {
  const at::Tensor x = at::arange(24, at::kDouble).reshape({2, 3, 2, 2}) - 7;
  NamedTensors tensors;
  for (const at::ScalarType type : {at::kByte, at::kBool, at::kDouble, at::kFloat, at::kHalf,
                                    at::kBFloat16, at::kLong, at::kInt, at::kShort, at::kChar}) {
    tensors.emplace_back(at::toString(type), x.to(type));
  }
  tensors.emplace_back("channels_last",
                       x.to(at::kFloat).contiguous(at::MemoryFormat::ChannelsLast));
  tensors.emplace_back("transposed", x.to(at::kInt).transpose(0, 1));
  tensors.emplace_back("slice", x.to(at::kFloat).slice(1, 1, 2));
  tensors.emplace_back("scalar", at::full({}, 3.25, at::kFloat));
  tensors.emplace_back("empty", at::empty({0, 5}, at::kFloat));
  tensors.emplace_back("nan \"quoted\" \\ \n ü", at::full({2}, std::nan(""), at::kFloat));
  return tensors;
}

TEST(Safetensors, EveryTypeAndLayoutComesBackInOrder) {
  const NamedTensors before = one_of_each();
  const std::vector<std::byte> bytes =
      to_safetensors(before, {{"key", "a \"b\"\n\x01 ü"}, {"empty", ""}});
  const TensorFile after = from_safetensors(bytes, "m");
  EXPECT_EQ(after.metadata.at("key"), "a \"b\"\n\x01 ü");
  ASSERT_EQ(after.tensors.size(), before.size());
  for (size_t i = 0; i < before.size(); ++i) {
    const auto& [name, tensor] = after.tensors[i];
    EXPECT_EQ(name, before[i].first);
    EXPECT_TRUE(tensor.is_contiguous());
    EXPECT_EQ(tensor.sizes(), before[i].second.sizes()) << name;
    EXPECT_EQ(tensor.scalar_type(), before[i].second.scalar_type()) << name;
    EXPECT_TRUE(name.starts_with("nan") ? tensor.isnan().all().item<bool>()
                                        : at::equal(tensor, before[i].second))
        << name;
  }
}

TEST(Safetensors, TensorsLieOnTheirOwnAlignment) {
  const std::vector<std::byte> bytes = to_safetensors(one_of_each());
  const testing::TempDir folder;
  real_file_system().write_durably(folder / "m", bytes);
  const SafetensorsHeader header = read_header(folder / "m");
  for (const TensorEntry& entry : header.tensors) {
    EXPECT_EQ((header.data_start + entry.begin) % static_cast<uint64_t>(dtype_bytes(entry.dtype)),
              0u)
        << entry.name;
  }
}

TEST(FiniteValues, NamesTheFirstValueThatIsNotFinite) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16}) {
    at::Tensor values = at::ones({2, 300}, type);
    EXPECT_EQ(not_finite(values), "");
    values[1][299] = -inf;
    EXPECT_EQ(not_finite(values), "-inf at [1, 299]");
    values[1][3] = inf;
    EXPECT_EQ(not_finite(values), "inf at [1, 3]");
    values[0][7] = std::nan("");
    EXPECT_EQ(not_finite(values), "nan at [0, 7]") << at::toString(type);
    EXPECT_EQ(not_finite(values.t()), "inf at [3, 1]");
  }
  EXPECT_EQ(not_finite(at::full({}, std::nan(""))), "nan");
  EXPECT_EQ(not_finite(at::full({3}, std::numeric_limits<float>::max())), "");
  EXPECT_EQ(not_finite(at::ones({3}, at::kLong)), "");
  EXPECT_EQ(not_finite(at::empty({0, 5})), "");
}

TEST(Safetensors, AFileCanBeEmpty) {
  EXPECT_TRUE(from_safetensors(to_safetensors({}), "m").tensors.empty());
  EXPECT_EQ(from_safetensors(to_safetensors({}, {{"a", "b"}}), "m").metadata.at("a"), "b");
}

TEST(Safetensors, ReadsAFileAsItReadsItsBytes) {
  const testing::TempDir folder;
  const std::vector<std::byte> bytes = to_safetensors(one_of_each(), {{"a", "b"}});
  real_file_system().write_durably(folder / "m", bytes);
  const TensorFile a = from_safetensors(bytes, "m"), b = read_safetensors(folder / "m");
  EXPECT_EQ(a.metadata, b.metadata);
  EXPECT_EQ(to_safetensors(a.tensors, a.metadata), bytes);
  EXPECT_EQ(to_safetensors(b.tensors, b.metadata), bytes);
}

TEST(Safetensors, TruncationAnywhereIsFound) {
  const testing::TempDir folder;
  const std::vector<std::byte> bytes = to_safetensors(one_of_each());
  for (size_t kept = 0; kept < bytes.size(); kept += 7) {
    const std::span<const std::byte> cut = std::span(bytes).first(kept);
    EXPECT_THROW(from_safetensors(cut, "m"), CheckpointError) << kept;
    if (kept % 5 != 0) continue;
    real_file_system().write_durably(folder / "m", cut);
    EXPECT_THROW(read_safetensors(folder / "m"), CheckpointError) << kept;
  }
}

TEST(Safetensors, RefusesToWriteWithTheTensorsName) {
  testing::expect_error<Error>(
      [] {
        to_safetensors({{"c", at::zeros({1}, at::kComplexFloat)}});
      },
      {"\"c\"", "ComplexFloat"});
  testing::expect_error<Error>(
      [] {
        to_safetensors({{"a", at::zeros({1})}, {"a", at::zeros({1})}});
      },
      {"\"a\"", "twice"});
}

TEST(InspectCheckpoint, ListsAFilesTensors) {
  const testing::TempDir folder;
  real_file_system().write_durably(folder / "m.safetensors",
                                   to_safetensors(one_of_each(), {{"network", "resnet18"}}));
  const std::string text = inspect_checkpoint(folder / "m.safetensors", false);
  for (const char* part :
       {"16 tensors", "network = resnet18", "channels_last", "[2, 3, 2, 2]", "BF16", "[0, 5]"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
}

}  // namespace
}  // namespace dtrain::checkpoint
