#include "train/random_generators.h"

namespace dtrain::train {

checkpoint::NamedTensors random_generators(at::Device device) {
  const auto state_of = [](at::Device of) {
    return at::globalContext().defaultGenerator(of).get_state();
  };
  checkpoint::NamedTensors states = {{"rng.cpu", state_of(at::kCPU)}};
  if (device.is_cuda()) states.emplace_back("rng.cuda", state_of(device));
  return states;
}

void set_random_generators(const checkpoint::NamedTensors& states, at::Device device) {
  for (const auto& [name, state] : states) {
    if (name != "rng.cpu" && (name != "rng.cuda" || !device.is_cuda())) continue;
    const at::Device of = name == "rng.cpu" ? at::Device(at::kCPU) : device;
    at::Generator generator = at::globalContext().defaultGenerator(of);
    generator.set_state(state);
  }
}

}  // namespace dtrain::train
