#pragma once

// The tensors of a model.safetensors as float32, for building graphs.
// Errors: CheckpointError that names the file and the tensor.

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace dtrain::exporting {

struct Weight {
  std::vector<int64_t> shape;
  std::vector<float> values;  // C order
};

class Weights {
 public:
  explicit Weights(std::map<std::string, Weight> tensors, std::string file = "model.safetensors")
      : tensors_(std::move(tensors)), file_(std::move(file)) {}

  const Weight& at(const std::string& name) const;  // also marks it as used
  // The same, and checks its number of dimensions.
  const Weight& at(const std::string& name, size_t dimensions) const;
  // The same, and checks the sizes of its first dimensions; 0: any size.
  const Weight& of_shape(const std::string& name, const std::vector<int64_t>& sizes) const;
  bool has(const std::string& name) const { return tensors_.contains(name); }
  // CheckpointError if a tensor was never used: then the file is of another network. Tensors whose
  // names begin with one of `spare` are not needed for inference.
  void check_all_used(const std::vector<std::string>& spare = {}) const;

 private:
  std::map<std::string, Weight> tensors_;
  std::string file_;
  mutable std::set<std::string> used_;
};

// F64, F32, F16 and BF16 become float32; integers (counters) are skipped.
Weights read_weights(const std::filesystem::path& safetensors,
                     std::map<std::string, std::string>* metadata);

// The weight [out, in] of a linear layer as [in, out], the right factor of a product.
Weight transposed(const Weight&);

// A convolution and the batch norm that follows it (in eval mode) as one convolution, computed
// in double:
//   w' = w · g,  b' = (b - mean) · g + beta,  g = gamma / sqrt(var + epsilon)
struct BatchNorm {
  const Weight &gamma, &beta, &mean, &variance;
  double epsilon = 1e-5;
};
struct Folded {
  Weight weight, bias;
};
// weight [O, ...]; bias empty or [O]. CheckpointError if the channels differ.
Folded fold_batch_norm(const Weight& weight, const Weight& bias, const BatchNorm&,
                       const std::string& name);

}  // namespace dtrain::exporting
