#pragma once

// Samples of any field, made from their ids, for the contract suite. The suite finds the fields
// that a task needs by offering all of them (see example_for()), so that a new task needs no change
// of the suite.

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "data/hdf5/layout.h"
#include "data/store.h"
#include "support/made_origin.h"
#include "tasks/task.h"
#include "text/strings.h"

namespace dtrain::tasks {

class ExampleStore : public data::Store, public testing::MadeOrigin {
 public:
  static constexpr int64_t kClasses = 3;

  ExampleStore(const std::string& task, data::Field input, data::Field target, int64_t samples)
      : MadeOrigin("example.h5", "example_") {
    schema_ = {.task = task,
               .input = std::move(input),
               .target = std::move(target),
               .samples = samples,
               .checksum = 1};
    const bool classes =
        schema_.target.element == data::Element::kInt64 && !schema_.target.variable();
    if (classes) attributes["class_names"] = "ant\nbee\ncat";
  }

  const data::Schema& schema() const override { return schema_; }
  const data::Origin& origin() const override { return *this; }
  int64_t input_rows(int64_t id) const override {
    return schema_.input.variable() ? 3 + id * 5 % 7 : 1;
  }
  int64_t target_rows(int64_t id) const override {
    return schema_.target.variable() ? input_rows(id) : 1;
  }

  void read_input(int64_t id, std::span<std::byte> out) const override {
    if (schema_.input.element == data::Element::kUint8) {
      for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(keyed(id, i) >> 56);
      return;
    }
    const auto features = static_cast<size_t>(schema_.input.shape.back());
    std::vector<float> values(out.size() / sizeof(float));
    for (size_t i = 0; i < values.size(); ++i) {
      // The last feature may be a mark (pointer: visited) that is not set yet.
      values[i] =
          i % features + 1 == features ? 0.0f : 2 * static_cast<float>(uniform01(keyed(id, i))) - 1;
    }
    std::memcpy(out.data(), values.data(), out.size());
  }

  void read_target(int64_t id, std::span<std::byte> out) const override {
    if (schema_.target.element == data::Element::kFloat32) {
      std::vector<float> values(out.size() / sizeof(float));
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = 3 * static_cast<float>(uniform01(keyed(id, i, 1))) - 1.5f;
      std::memcpy(out.data(), values.data(), out.size());
      return;
    }
    std::vector<int64_t> values(out.size() / sizeof(int64_t));
    if (schema_.target.variable()) {  // an order
      std::iota(values.begin(), values.end(), 0);
      std::sort(values.begin(), values.end(),
                [&](int64_t a, int64_t b) { return keyed(id, a, 2) < keyed(id, b, 2); });
    } else {
      for (int64_t& value : values) value = id % kClasses;
    }
    std::memcpy(out.data(), values.data(), out.size());
  }

  uint64_t checksum(int64_t id) const override { return data::checksum_as_read(*this, id); }
  void verify(const ReportProgress&) const override {}

 private:
  data::Schema schema_;
};

// The task with a network that learns from such samples in a moment.
inline config::Config example_config(std::string_view task) {
  config::Config config;
  config.task = catalog::task_named(task);
  config.model.image_size = 32;
  config.model.hidden = 16;
  return config;
}

struct Example {
  std::unique_ptr<ExampleStore> store;
  DataFacts facts;
  std::vector<int64_t> ids;
};

// The first set of samples that the task accepts; Error, with the reason of each refusal, if it
// accepts none.
inline Example example_for(const config::Config& config, int64_t samples = 12) {
  using data::Element;
  using data::Field;
  const Field image{Element::kUint8, {36, 32, 3}}, rows{Element::kFloat32, {data::kVariable, 8}};
  const Field numbers{Element::kFloat32, {3}}, label{Element::kInt64, {}},
      order{Element::kInt64, {data::kVariable}};
  std::string refusals;
  for (const auto& [input, target] :
       {std::pair{image, numbers}, {image, label}, {rows, order}, {rows, label}}) {
    Example example;
    example.store = std::make_unique<ExampleStore>(str(config.task), input, target, samples);
    example.ids.resize(static_cast<size_t>(samples));
    std::iota(example.ids.begin(), example.ids.end(), 0);
    example.facts = facts_of(*example.store, example.ids);
    try {
      make_task(config, example.facts)->check(*example.store);
      return example;
    } catch (const Error& refusal) {
      refusals += str("\n  ", refusal.what());
    }
  }
  throw Error(str("task ", config.task, " takes none of the examples:", refusals));
}

}  // namespace dtrain::tasks
