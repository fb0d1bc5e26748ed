#pragma once

// What an exception means to the user, to the process and to a supervisor: a message, an exit code,
// and whose failure it is. main() and agree() turn every exception into one, LibTorch's included,
// so that all failures are reported alike.

#include <c10/util/Exception.h>

#include <exception>
#include <optional>
#include <string>

#include "core/error.h"
#include "dist/launcher.h"
#include "dist/supervisor_lines.h"

namespace dtrain::dist {

// Thrown on all ranks by agree() (agree.h). The message has been printed.
struct AgreedFailure {
  int exit_code = 70;
  int rank = 0;              // that failed, the lowest
  std::string message = "";  // on that rank
};

struct Failure {
  int exit_code = 70;
  std::string message;                                // "" where another rank has it
  std::optional<int> culprit = launcher_rank_hint();  // see FailureRecord
  // This rank or another one has reported it already (AgreedFailure)
  bool is_reported = false;
};

// Never throws an exception of its own. Out of memory, of a GPU or of the host, and a GPU that
// failed, have the exit code of a DeviceError.
Failure describe(const std::exception_ptr&);
Failure describe(const Error&);

// For the supervisor, and for the record of the run.
FailureRecord record_of(const Failure&);

// Prints the message, unless that is done, and the line for a supervisor, if there is one.
void report(const Failure&);

// Whether memory of the device is what was missing. LibTorch's allocator has a type of its own for
// it; where the last bytes are asked for by the CUDA runtime, cuBLAS or cuDNN, only the code or the
// text of the error says so.
bool is_out_of_memory(const c10::Error&);

// What could not be allocated.
struct MissingMemory {
  std::string what;  // "no host memory for a tensor of 2.0 GiB"
  double bytes = 0;  // 0: not known
};

// nullopt: the exception is about something else than memory, of the host or of a device.
std::optional<MissingMemory> missing_memory(const std::exception_ptr&);

// Whether the type of the error says that the GPU has failed: nothing works on it any more in this
// process. Errors of cuBLAS and cuDNN, and those that passed through TorchScript, do not say it:
// device::works() does.
bool says_failed(const c10::Error&);

// The one line of LibTorch's message that says what happened, without advice that is meant
// for programmers.
std::string first_line(const c10::Error&);

// From now on std::terminate prints an exception that no handler catches (thrown while another one
// passes, or by a thread) as describe() does, and ends the process, and with it the job, with its
// exit code. Once the GPU has failed, LibTorch's destructors throw.
void report_when_terminated();

}  // namespace dtrain::dist
