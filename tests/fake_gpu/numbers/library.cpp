// Takes the place of LibTorch's operators for GPUs when this library is loaded. They must have
// been loaded before.

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>
#include <memory>
#include <string>

#include "numbers/boxed.h"
#include "numbers/operators.h"

namespace fake_gpu {
namespace {

struct Silent : c10::WarningHandler {  // an operator that is replaced is worth a warning
  void process(const c10::Warning&) override {}
};

std::unique_ptr<torch::Library> replace_operators() {
  Silent silent;
  const c10::WarningUtils::WarningHandlerGuard guard(&silent);
  auto library = std::make_unique<torch::Library>(torch::Library::IMPL, "aten",
                                                  c10::DispatchKey::CUDA, __FILE__, __LINE__);
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op.has_value() || !can_be_boxed(*op)) continue;
    const std::string overload = name.overload_name.empty() ? "" : "." + name.overload_name;
    library->impl((name.name + overload).c_str(),
                  torch::CppFunction::makeFromBoxedFunction<&compute_boxed>());
  }
  add_convolutions(*library);
  add_norms(*library);
  add_shared_norms(*library);
  add_lstm(*library);
  add_products(*library);
  add_copies(*library);
  return library;
}

const auto* operators = new auto(replace_operators());  // until the process has ended

}  // namespace
}  // namespace fake_gpu
