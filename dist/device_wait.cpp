#include "dist/device_wait.h"

#include "dist/backoff.h"
#include "dist/side_stream.h"

namespace dtrain::dist {

void wait_until(const std::function<bool()>& passed,
                std::initializer_list<Communicator*> communicators) {
  for (Backoff backoff; !passed(); backoff.wait()) {
    for (Communicator* communicator : communicators) {
      if (communicator != nullptr) communicator->check();
    }
  }
}

void wait_for_device(at::Device device, std::initializer_list<Communicator*> communicators) {
  if (device.is_cpu()) return;
  const Mark now(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  wait_until([&] { return now.passed(); }, communicators);
}

}  // namespace dtrain::dist
