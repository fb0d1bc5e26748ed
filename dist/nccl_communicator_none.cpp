// In the place of nccl_communicator.cpp in a build without GPU code (DTRAIN_CUDA=OFF).

#include "core/error.h"
#include "dist/nccl_communicator.h"

namespace dtrain::dist {
namespace {

[[noreturn]] void refuse() {
  throw DeviceError(
      "this dtrain was built without GPU code, so it has no NCCL: build it with -DDTRAIN_CUDA=ON "
      "and a LibTorch for CUDA, or set device.type cpu");
}

}  // namespace

std::string nccl_versions() { return "none"; }
bool nccl_available() { return false; }
std::unique_ptr<MeteredCommunicator> make_nccl_communicator(std::unique_ptr<Communicator>,
                                                            at::Device) {
  refuse();
}

}  // namespace dtrain::dist
