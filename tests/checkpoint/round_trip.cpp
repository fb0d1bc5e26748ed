// round_trip IN OUT, for python_reads_it.py: reads the safetensors file IN, prints the names of its
// tensors and writes them to OUT. Writes other tensors, one with channels_last and one transposed,
// to OUT.own.

#include "checkpoint/safetensors.h"
#include "os/file_system.h"

int main(int, char** arguments) {
  using namespace dtrain;
  const checkpoint::TensorFile file = checkpoint::read_safetensors(arguments[1]);
  for (const auto& [name, tensor] : file.tensors) std::printf("%s\n", name.c_str());
  real_file_system().write_durably(arguments[2],
                                   checkpoint::to_safetensors(file.tensors, file.metadata));

  const at::Tensor x = at::arange(48, at::kFloat).reshape({2, 4, 3, 2});
  const checkpoint::NamedTensors own = {
      {"channels_last", x.contiguous(at::MemoryFormat::ChannelsLast)},
      {"byte", at::ones({3}, at::kByte)},
      {"transposed", x.transpose(0, 3)},
      {"scalar", at::full({}, 7, at::kLong)},
      {"empty", at::empty({0, 3}, at::kHalf)}};
  real_file_system().write_durably(std::string(arguments[2]) + ".own",
                                   checkpoint::to_safetensors(own, {{"network", "headpose_cnn"}}));
}
