#pragma once

// A TorchScript file as a torch::nn::Module. Its parameters and buffers are the tensors of the
// script under their names, so that reducer, optimizer, checkpoint and freezing work as with any
// network. Such a file is code and runs with the permissions of the user.
//
// It runs in the interpreter without the profiling optimizer, which would recompile the code after
// some steps: a resumed run would then differ in the last bits from an uninterrupted one.
// Thread-safety: one thread.

#include <torch/nn/module.h>

#include <filesystem>
#include <memory>
#include <vector>

namespace torch::jit {
struct Module;
}

namespace dtrain::tasks {

class ScriptNetwork : public torch::nn::Module {
 public:
  // Loads onto the CPU, wherever the file was saved. DataError: no such file, or not TorchScript.
  explicit ScriptNetwork(const std::filesystem::path& file);
  ~ScriptNetwork() override;

  // DataError when it does not return one tensor; c10::Error when an operator fails.
  at::Tensor forward(const std::vector<at::Tensor>& inputs);
  struct Arguments {
    int64_t required = 0, most = 0;
    bool accept(int64_t given) const { return required <= given && given <= most; }
  };
  // Counts the arguments of forward() without self; those with a default are not required
  Arguments arguments() const;
  const torch::jit::Module& script() const { return *script_; }

  using torch::nn::Module::to;
  void train(bool on = true) override;
  // Moving a module separates the weights of an LSTM or GRU in memory, and cuDNN would then gather
  // them for each call. So these put them into one piece again.
  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Device device, bool non_blocking = false) override;

 private:
  std::unique_ptr<torch::jit::Module> script_;
};

}  // namespace dtrain::tasks
