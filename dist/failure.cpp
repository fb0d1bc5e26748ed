#include "dist/failure.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "device/device.h"
#include "dist/launcher.h"
#include "dist/peer_error.h"
#include "dist/world.h"
#include "os/net_address.h"
#include "text/library_text.h"
#include "text/strings.h"

namespace dtrain::dist {
namespace {

// LibTorch's messages have several lines; the later ones are indented as in our own messages. Of a
// failure in the code of a TorchScript file, which has pages of code, there is one sentence.
std::string indented(const std::string& message) {
  log::detail(message);
  if (const std::optional<std::string> sentence = script_failure(message)) return *sentence;
  std::vector<std::string> lines = split(message, '\n');
  lines.front() = torch_message(lines.front());
  return join(lines, "\n  ");
}

Failure out_of_memory(double bytes) {
  return {DeviceError("").exit_code(),
          str("out of host memory", bytes > 0 ? str(" for a tensor of ", human_bytes(bytes)) : "",
              ": use a smaller --batch-size or fewer --workers, or more ranks on more hosts")};
}

constexpr int kCudaErrorMemoryAllocation = 2;

// A GPU that has failed also fails calls of its libraries, whose errors have no type of their own.
bool is_of_cuda(const c10::Error& error) {
  constexpr std::array<std::string_view, 3> kSigns = {"CUDA error", "cuDNN error",
                                                      "CUDA out of memory"};
  const std::string_view text = error.what_without_backtrace();
  return std::ranges::any_of(
      kSigns, [text](std::string_view sign) { return text.find(sign) != text.npos; });
}

constexpr auto kTimeToReport = std::chrono::seconds(10);

[[noreturn]] void report_and_leave() noexcept {
  static std::atomic<bool> reporting = false;
  Failure failure{70, "internal error: std::terminate was called without an exception"};
  if (const std::exception_ptr exception = std::current_exception()) failure = describe(exception);
  if (reporting.exchange(true)) {
    // Another thread prints its message now, and ends the process
    std::this_thread::sleep_for(kTimeToReport);
  } else {
    report(failure);
  }
  abort_job(failure.exit_code);
}

}  // namespace

bool is_out_of_memory(const c10::Error& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  const auto* device = dynamic_cast<const c10::AcceleratorError*>(&error);
  return (device != nullptr && device->get_error_code() == kCudaErrorMemoryAllocation) ||
         says_out_of_memory(error.what_without_backtrace());
}

std::optional<MissingMemory> missing_memory(const std::exception_ptr& exception) {
  const MissingMemory of_host = {.what = "the host's memory is full"};
  try {
    std::rethrow_exception(exception);
  } catch (const std::bad_alloc&) {
    return of_host;
  } catch (const c10::Error& e) {
    if (const std::optional<double> bytes = out_of_host_memory(e.what_without_backtrace())) {
      if (*bytes == 0) return of_host;
      return MissingMemory{str("no host memory for a tensor of ", human_bytes(*bytes)), *bytes};
    }
    if (!is_out_of_memory(e)) return std::nullopt;
    return MissingMemory{first_line(e), bytes_out_of_device_memory(e.what_without_backtrace())};
  } catch (...) {
    return std::nullopt;
  }
}

bool says_failed(const c10::Error& error) {
  return dynamic_cast<const c10::AcceleratorError*>(&error) != nullptr && !is_out_of_memory(error);
}

std::string first_line(const c10::Error& error) {
  return torch_message(error.what_without_backtrace());
}

Failure describe(const Error& error) {
  Failure failure{error.exit_code(), error.what()};
  if (const auto* lost = dynamic_cast<const PeerError*>(&error)) failure.culprit = lost->peer();
  return failure;
}

FailureRecord record_of(const Failure& failure) {
  return {.rank = launcher_rank_hint(),
          .host = host_name(),
          .culprit = failure.culprit,
          .kind = kind_of(failure.exit_code),
          .exit_code = failure.exit_code,
          .text = split(failure.message, '\n').front()};
}

void report(const Failure& failure) {
  if (failure.is_reported) return;
  const std::string printed = log::error(failure.message);
  if (!has_supervisor()) return;
  FailureRecord record = record_of(failure);
  record.text = split(printed, '\n').front();
  log::for_program(line_of(record));
}

void report_when_terminated() { std::set_terminate(report_and_leave); }

Failure describe(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const AgreedFailure& e) {
    return {e.exit_code, e.message, e.rank, /*is_reported=*/true};
  } catch (const Error& e) {
    return describe(e);
  } catch (const c10::Error& e) {
    if (const std::optional<double> bytes = out_of_host_memory(e.what_without_backtrace())) {
      return out_of_memory(*bytes);
    }
    if (says_failed(e) || (is_of_cuda(e) && !device::works(at::kCUDA))) {
      return {DeviceError("").exit_code(), str("the GPU has failed: ", first_line(e))};
    }
    if (is_out_of_memory(e)) {
      return {DeviceError("").exit_code(),
              str("out of device memory: ", indented(e.what_without_backtrace()))};
    }
    return {70, indented(e.what_without_backtrace())};
  } catch (const std::filesystem::filesystem_error& e) {
    return {DataError("").exit_code(),
            str("cannot use ", e.path1().string(), ": ", e.code().message())};
  } catch (const std::system_error& e) {
    if (e.code() != std::errc::resource_unavailable_try_again) return {70, e.what()};
    return {UsageError("").exit_code(),
            "no thread can be started: raise `ulimit -u` (processes and threads of this user), "
            "`ulimit -v` (address space), or pids.max of the container"};
  } catch (const std::bad_alloc&) {
    return out_of_memory(0);
  } catch (const std::exception& e) {
    return {70, e.what()};
  } catch (...) {
    return {70, "unknown exception"};
  }
}

}  // namespace dtrain::dist
