#include "layers/packed_steps.h"

#include <torch/autograd.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/check.h"

namespace dtrain::layers {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Copies the rows of each step between a packed tensor and a padded one, in which steps are
// `stride` rows apart.
void copy_rows(const at::Tensor& from, int64_t from_stride, const at::Tensor& to, int64_t to_stride,
               at::IntArrayRef counts) {
  const size_t row = static_cast<size_t>(from.size(-1)) * from.element_size();
  const auto* source = static_cast<const char*>(from.const_data_ptr());
  auto* target = static_cast<char*>(to.mutable_data_ptr());
  for (const int64_t count : counts) {
    std::memcpy(target, source, static_cast<size_t>(count) * row);
    source += static_cast<size_t>(from_stride == 0 ? count : from_stride) * row;
    target += static_cast<size_t>(to_stride == 0 ? count : to_stride) * row;
  }
}

at::Tensor packed_from(const at::Tensor& padded, at::IntArrayRef counts) {
  const int64_t rows = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  const at::Tensor packed = at::empty({rows, padded.size(2)}, padded.options());
  copy_rows(padded.contiguous(), padded.size(1), packed, 0, counts);
  return packed;
}

at::Tensor padded_from(const at::Tensor& packed, at::IntArrayRef counts, int64_t steps,
                       int64_t sequences) {
  const at::Tensor padded = at::zeros({steps, sequences, packed.size(1)}, packed.options());
  copy_rows(packed.contiguous(), 0, padded, sequences, counts);
  return padded;
}

class Pack : public torch::autograd::Function<Pack> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& padded,
                            const std::vector<int64_t>& counts) {
    context->saved_data["counts"] = counts;
    context->saved_data["steps"] = padded.size(0);
    context->saved_data["sequences"] = padded.size(1);
    return packed_from(padded, counts);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    auto& saved = context->saved_data;
    return {padded_from(gradients[0], saved["counts"].toIntVector(), saved["steps"].toInt(),
                        saved["sequences"].toInt()),
            {}};
  }
};

class Unpack : public torch::autograd::Function<Unpack> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& packed,
                            const std::vector<int64_t>& counts, int64_t steps, int64_t sequences) {
    context->saved_data["counts"] = counts;
    return padded_from(packed, counts, steps, sequences);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {packed_from(gradients[0], context->saved_data["counts"].toIntVector()), {}, {}, {}};
  }
};

}  // namespace

int64_t PackedSteps::rows() const {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

at::Tensor PackedSteps::indices() const { return at::tensor(order, at::kLong); }

at::Tensor PackedSteps::inverse() const {
  std::vector<int64_t> positions(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    positions[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return at::tensor(positions, at::kLong);
}

PackedSteps pack_by_length(const int64_t* lengths, int64_t count) {
  PackedSteps result;
  result.order.resize(static_cast<size_t>(count));
  std::iota(result.order.begin(), result.order.end(), 0);
  std::stable_sort(result.order.begin(), result.order.end(),
                   [&](int64_t a, int64_t b) { return lengths[a] > lengths[b]; });
  int64_t left = count;
  for (int64_t step = 0; left > 0; ++step) {
    while (left > 0 && lengths[result.order[static_cast<size_t>(left - 1)]] <= step) --left;
    if (left > 0) result.counts.push_back(left);
  }
  return result;
}

PackedSteps equal_lengths(int64_t sequences, int64_t steps) {
  PackedSteps result{std::vector<int64_t>(static_cast<size_t>(sequences)),
                     std::vector<int64_t>(static_cast<size_t>(steps), sequences)};
  std::iota(result.order.begin(), result.order.end(), 0);
  return result;
}

at::Tensor pack(const at::Tensor& padded, const PackedSteps& steps) {
  DTRAIN_CHECK(padded.is_cpu() && padded.dim() == 3 &&
                   padded.size(1) == static_cast<int64_t>(steps.order.size()) &&
                   padded.size(0) >= static_cast<int64_t>(steps.counts.size()),
               "rows ", padded.sizes(), " for ", steps.order.size(), " sequences of at most ",
               steps.counts.size());
  return Pack::apply(padded, steps.counts);
}

at::Tensor unpack(const at::Tensor& packed, const PackedSteps& steps, int64_t count) {
  DTRAIN_CHECK(packed.is_cpu() && packed.dim() == 2 && packed.size(0) == steps.rows() &&
                   count >= static_cast<int64_t>(steps.counts.size()),
               "packed rows ", packed.sizes(), " instead of ", steps.rows(), ", for ", count,
               " steps");
  return Unpack::apply(packed, steps.counts, count, static_cast<int64_t>(steps.order.size()));
}

}  // namespace dtrain::layers
