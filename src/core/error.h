#pragma once

// The failures that a user can see. The type determines the exit code of the process, which is the
// same on all ranks (docs/design.md, section 6). A message says what went wrong, with which values,
// where (file:line:col or file#sample) and what to do. It does not name the rank: the code that
// prints it does.

#include <stdexcept>
#include <string>

namespace dtrain {

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, int exit_code = 70)
      : std::runtime_error(message), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

#define DTRAIN_ERROR_TYPE(Name, code)                                   \
  class Name : public Error {                                           \
   public:                                                              \
    explicit Name(const std::string& message) : Error(message, code) {} \
  }

DTRAIN_ERROR_TYPE(UsageError, 64);       // unknown command, wrong number of arguments
DTRAIN_ERROR_TYPE(DataError, 65);        // a data set that is missing, damaged or for another task
DTRAIN_ERROR_TYPE(DeviceError, 69);      // no such GPU, out of GPU memory, or a CUDA failure
DTRAIN_ERROR_TYPE(OutputError, 73);      // the run folder or an output file cannot be written
DTRAIN_ERROR_TYPE(CheckpointError, 74);  // no intact checkpoint, or one of another network
DTRAIN_ERROR_TYPE(CommError, 76);        // MPI or NCCL failed, or a rank died or hangs
DTRAIN_ERROR_TYPE(ConfigError, 78);      // all problems of config files and flags, in one message
DTRAIN_ERROR_TYPE(NumericsError, 79);    // the loss is no longer a finite number

#undef DTRAIN_ERROR_TYPE

// Stopped by a signal, after saving or with nothing to save yet: run it again
inline constexpr int kExitStoppedOnRequest = 75;

}  // namespace dtrain
