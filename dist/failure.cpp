#include "dist/failure.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <new>
#include <optional>
#include <vector>

#include "core/error.h"
#include "core/library_text.h"
#include "core/log.h"
#include "core/strings.h"
#include "dist/agree.h"
#include "dist/world.h"

namespace dtrain::dist {
namespace {

// LibTorch's messages have several lines; the later ones are indented as in our own messages.
std::string indented(const std::string& message) {
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

[[noreturn]] void report_and_leave() noexcept {
  static std::atomic<bool> reporting = false;
  Failure failure{70, "internal error: std::terminate was called without an exception"};
  if (const std::exception_ptr exception = std::current_exception()) failure = describe(exception);
  if (!reporting.exchange(true) && !failure.message.empty()) log::error(failure.message);
  abort_job(failure.exit_code);
}

}  // namespace

bool says_out_of_memory(std::string_view text) {
  constexpr std::array<std::string_view, 3> kSigns = {"out of memory", "_ALLOC_FAILED",
                                                      "CUBLAS_STATUS_NOT_INITIALIZED"};
  return std::any_of(kSigns.begin(), kSigns.end(),
                     [text](std::string_view sign) { return text.find(sign) != text.npos; });
}

bool is_out_of_memory(const c10::Error& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  const auto* device = dynamic_cast<const c10::AcceleratorError*>(&error);
  return (device != nullptr && device->get_error_code() == kCudaErrorMemoryAllocation) ||
         says_out_of_memory(error.what_without_backtrace());
}

std::string first_line(const c10::Error& error) { return split(error.what_without_backtrace(), '\n').front(); }

void report_when_terminated() { std::set_terminate(report_and_leave); }

Failure describe(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const AgreedFailure& e) {
    return {e.exit_code, ""};
  } catch (const Error& e) {
    return {e.exit_code(), e.what()};
  } catch (const c10::Error& e) {
    if (const std::optional<double> bytes = out_of_host_memory(e.what_without_backtrace())) {
      return out_of_memory(*bytes);
    }
    if (is_out_of_memory(e)) {
      return {DeviceError("").exit_code(), str("out of device memory: ", indented(e.what_without_backtrace()))};
    }
    if (dynamic_cast<const c10::AcceleratorError*>(&e) != nullptr) {
      return {DeviceError("").exit_code(), str("the GPU has failed: ", first_line(e))};
    }
    return {70, indented(e.what_without_backtrace())};
  } catch (const std::bad_alloc&) {
    return out_of_memory(0);
  } catch (const std::exception& e) {
    return {70, e.what()};
  } catch (...) {
    return {70, "unknown exception"};
  }
}

}  // namespace dtrain::dist
