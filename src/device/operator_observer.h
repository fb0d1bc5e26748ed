#pragma once

// Sees each operator that LibTorch runs on the calling thread, and on autograd's threads for it
// (at::RecordFunction), for traces and for who holds which memory. Without an observer LibTorch's
// operators test one flag. An operator is known by its name, and by the module whose parameters it
// uses; in the backward pass, by that of the operator that it leads back to.
//
// Thread-safety: made and destroyed on the training thread, one at a time in the process (LibTorch
// takes plain functions); current() may be called from any thread. Ownership: borrows the recorder
// and the model.

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trace/recorder.h"

namespace dtrain::device {

class OperatorObserver {
 public:
  // What allocates: the operators of one name and one module, of one pass.
  struct Owner {
    std::string name;  // "aten::conv2d", "ConvolutionBackward0"
    // "layer1.0.conv1"; "after layer1.0.conv1": it has no parameters; "": unknown
    std::string module;
    bool backward = false;
  };
  struct Options {
    bool events = false;  // adds each operator to a track of its thread
    bool owners = false;  // keeps owners()
  };

  OperatorObserver(trace::Recorder&, const torch::nn::Module& model, Options);
  ~OperatorObserver();
  OperatorObserver(const OperatorObserver&) = delete;
  OperatorObserver& operator=(const OperatorObserver&) = delete;

  // The operator that the calling thread runs for the network or for backward, not one that is
  // called by another one: an index of owners(); -1 outside of operators.
  int32_t current() const;
  std::vector<Owner> owners() const;  // so far

 private:
  class State;
  std::shared_ptr<State> state_;
  uint64_t callback_;
};

}  // namespace dtrain::device
