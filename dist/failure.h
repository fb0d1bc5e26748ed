#pragma once

// What an exception means to the user and to the process: a message and an exit code. main() and agree() turn every
// exception into one, LibTorch's included, so that all failures are reported alike.

#include <exception>
#include <string>

namespace dtrain::dist {

struct Failure {
  int exit_code = 70;
  std::string message;  // empty: another rank has printed it already (AgreedFailure)
};

// Never throws an exception of its own. Out of device memory is reported with the exit code of a DeviceError.
Failure describe(const std::exception_ptr&);

}  // namespace dtrain::dist
