#include "dist/bytes.h"

#include <cstring>

#include "core/error.h"
#include "core/log.h"
#include "core/strings.h"

namespace dtrain::dist {
namespace {

at::Tensor as_tensor(std::vector<std::byte>& bytes) {
  return at::from_blob(bytes.data(), {static_cast<int64_t>(bytes.size())}, at::kByte);
}

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}
std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// LibTorch's messages have several lines: they go on as ours do.
std::string indented(const std::string& message) { return join(split(message, '\n'), "\n  "); }

}  // namespace

std::vector<std::byte> broadcast_bytes(Communicator& comm, std::vector<std::byte> bytes, int root) {
  at::Tensor size = at::tensor({static_cast<int64_t>(bytes.size())}, at::kLong);
  comm.broadcast(size, root).wait();
  bytes.resize(static_cast<size_t>(size.item<int64_t>()));
  if (!bytes.empty()) comm.broadcast(as_tensor(bytes), root).wait();
  return bytes;
}

std::string broadcast_text(Communicator& comm, const std::string& text, int root) {
  return text_of(broadcast_bytes(comm, bytes_of(text), root));
}

std::vector<std::vector<std::byte>> all_gather_bytes(Communicator& comm, const std::vector<std::byte>& bytes) {
  const at::Tensor mine = at::tensor({static_cast<int64_t>(bytes.size())}, at::kLong);
  at::Tensor sizes = at::empty({comm.size()}, at::kLong);
  comm.all_gather(sizes, mine).wait();
  const int64_t width = sizes.max().item<int64_t>();
  std::vector<std::vector<std::byte>> all(static_cast<size_t>(comm.size()));
  if (width == 0) return all;
  std::vector<std::byte> padded = bytes;
  padded.resize(static_cast<size_t>(width));
  at::Tensor gathered = at::empty({comm.size() * width}, at::kByte);
  comm.all_gather(gathered, as_tensor(padded)).wait();
  const auto* data = reinterpret_cast<const std::byte*>(gathered.const_data_ptr<uint8_t>());
  for (int rank = 0; rank < comm.size(); ++rank) {
    const auto* begin = data + rank * width;
    all[static_cast<size_t>(rank)].assign(begin, begin + sizes[rank].item<int64_t>());
  }
  return all;
}

std::vector<std::string> all_gather_text(Communicator& comm, const std::string& text) {
  std::vector<std::string> all;
  for (const std::vector<std::byte>& theirs : all_gather_bytes(comm, bytes_of(text))) all.push_back(text_of(theirs));
  return all;
}

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

void agree(Communicator& comm, const std::function<void()>& step) {
  Failure failure{0, ""};
  try {
    step();
  } catch (...) {
    failure = describe(std::current_exception());
  }
  at::Tensor mine = at::tensor({static_cast<int64_t>(failure.exit_code)}, at::kLong);
  at::Tensor codes = at::empty({comm.size()}, at::kLong);
  comm.all_gather(codes, mine).wait();
  for (int rank = 0; rank < comm.size(); ++rank) {
    const auto code = codes[rank].item<int64_t>();
    if (code == 0) continue;
    if (rank == comm.rank() && !failure.message.empty()) log::error(failure.message);
    throw AgreedFailure{static_cast<int>(code)};
  }
}

void agree_on_rank0(Communicator& comm, const std::function<void()>& step) {
  agree(comm, [&] {
    if (comm.rank() == 0) step();
  });
}

}  // namespace dtrain::dist
