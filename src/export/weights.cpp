#include "export/weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "checkpoint/finite_values.h"
#include "checkpoint/safetensors_header.h"
#include "core/error.h"
#include "core/half_to_float.h"
#include "text/strings.h"

namespace dtrain::exporting {
namespace {

template <typename T, typename Convert>
std::vector<float> converted(const std::vector<std::byte>& bytes, const Convert& convert) {
  std::vector<float> values(bytes.size() / sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = convert(value);
  }
  return values;
}

std::vector<float> to_floats(const std::string& dtype, const std::vector<std::byte>& bytes) {
  if (dtype == "F64")
    return converted<double>(bytes, [](double v) { return static_cast<float>(v); });
  if (dtype == "F16") return converted<uint16_t>(bytes, half_to_float);
  if (dtype == "BF16") {
    return converted<uint16_t>(
        bytes, [](uint16_t v) { return std::bit_cast<float>(static_cast<uint32_t>(v) << 16); });
  }
  return converted<float>(bytes, [](float v) { return v; });
}

}  // namespace

const Weight& Weights::at(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw CheckpointError(str(file_, " has no tensor '", name,
                              "': its weights are not of the network that its metadata names"));
  }
  used_.insert(name);
  return found->second;
}

const Weight& Weights::at(const std::string& name, size_t dimensions) const {
  const Weight& weight = at(name);
  if (weight.shape.size() != dimensions) {
    throw CheckpointError(str(file_, ": tensor '", name, "' has ", weight.shape.size(),
                              " dimensions, but that of the network has ", dimensions));
  }
  return weight;
}

const Weight& Weights::of_shape(const std::string& name, const std::vector<int64_t>& sizes) const {
  const Weight& weight = at(name);
  const auto fits = [](int64_t expected, int64_t size) {
    return expected == 0 || expected == size;
  };
  if (weight.shape.size() < sizes.size() ||
      !std::equal(sizes.begin(), sizes.end(), weight.shape.begin(), fits)) {
    throw CheckpointError(str(file_, ": tensor '", name, "' has the shape ",
                              shape_text(weight.shape), ", but that of the network begins with ",
                              shape_text(sizes)));
  }
  return weight;
}

void Weights::check_all_used(const std::vector<std::string>& spare) const {
  for (const auto& [name, weight] : tensors_) {
    const auto begins = [&, &tensor = name](const std::string& prefix) {
      return tensor.starts_with(prefix);
    };
    if (!used_.contains(name) && std::none_of(spare.begin(), spare.end(), begins)) {
      throw CheckpointError(str(file_, ": the network that its metadata names has no tensor '",
                                name, "': its weights are of another network"));
    }
  }
}

Weights read_weights(const std::filesystem::path& path,
                     std::map<std::string, std::string>* metadata) {
  const std::string file = path.string();
  checkpoint::SafetensorsHeader header = checkpoint::read_header(path);
  if (metadata != nullptr) *metadata = header.metadata;
  const FileDescriptor in = checkpoint::open_safetensors(path);
  std::map<std::string, Weight> tensors;
  for (const checkpoint::TensorEntry& entry : header.tensors) {
    if (entry.dtype.find('F') == std::string::npos) continue;  // num_batches_tracked
    std::vector<std::byte> bytes(entry.end - entry.begin);
    checkpoint::read_exactly(in, header.data_start + entry.begin, bytes, file);
    tensors[entry.name] = {entry.shape, to_floats(entry.dtype, bytes)};
    checkpoint::check_finite(
        at::from_blob(tensors[entry.name].values.data(), entry.shape, at::kFloat), entry.name,
        file);
  }
  return Weights(std::move(tensors), file);
}

Weight transposed(const Weight& weight) {
  const int64_t out = weight.shape.at(0), in = weight.shape.at(1);
  Weight result{{in, out}, std::vector<float>(weight.values.size())};
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t i = 0; i < in; ++i) {
      result.values[static_cast<size_t>(i * out + o)] =
          weight.values[static_cast<size_t>(o * in + i)];
    }
  }
  return result;
}

Folded fold_batch_norm(const Weight& weight, const Weight& bias, const BatchNorm& norm,
                       const std::string& name) {
  const size_t channels = static_cast<size_t>(weight.shape.at(0));
  for (const Weight* of_norm : {&norm.gamma, &norm.beta, &norm.mean, &norm.variance}) {
    if (of_norm->values.size() != channels ||
        (!bias.values.empty() && bias.values.size() != channels)) {
      throw CheckpointError(str(name, ": a convolution of ", channels,
                                " channels is followed by a batch norm of ",
                                of_norm->values.size()));
    }
  }
  Folded folded{weight, {{weight.shape[0]}, std::vector<float>(channels)}};
  const size_t fan_in = weight.values.size() / std::max<size_t>(channels, 1);
  for (size_t c = 0; c < channels; ++c) {
    const double gain = norm.gamma.values[c] /
                        std::sqrt(static_cast<double>(norm.variance.values[c]) + norm.epsilon);
    for (size_t i = c * fan_in; i < (c + 1) * fan_in; ++i) {
      folded.weight.values[i] = static_cast<float>(weight.values[i] * gain);
    }
    const double before = bias.values.empty() ? 0 : bias.values[c];
    folded.bias.values[c] =
        static_cast<float>((before - norm.mean.values[c]) * gain + norm.beta.values[c]);
  }
  return folded;
}

}  // namespace dtrain::exporting
