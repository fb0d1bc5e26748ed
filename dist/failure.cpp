#include "dist/failure.h"

#include <c10/util/Exception.h>

#include <new>

#include "core/error.h"
#include "core/strings.h"
#include "dist/agree.h"

namespace dtrain::dist {
namespace {

// LibTorch's messages have several lines; the later ones are indented as in our own messages.
std::string indented(const std::string& message) { return join(split(message, '\n'), "\n  "); }

}  // namespace

Failure describe(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const AgreedFailure& e) {
    return {e.exit_code, ""};
  } catch (const Error& e) {
    return {e.exit_code(), e.what()};
  } catch (const c10::OutOfMemoryError& e) {
    return {DeviceError("").exit_code(), str("out of device memory: ", indented(e.what_without_backtrace()))};
  } catch (const c10::Error& e) {
    return {70, indented(e.what_without_backtrace())};
  } catch (const std::bad_alloc&) {
    return {70, "out of host memory: use a smaller --batch-size or fewer --workers"};
  } catch (const std::exception& e) {
    return {70, e.what()};
  } catch (...) {
    return {70, "unknown exception"};
  }
}

}  // namespace dtrain::dist
