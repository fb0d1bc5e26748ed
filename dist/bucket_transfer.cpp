#include "dist/bucket_transfer.h"

namespace dtrain::dist {
namespace {

bool narrows(at::ScalarType dtype, std::optional<at::ScalarType> wire, int ranks) {
  return wire && ranks > 1 && c10::elementSize(*wire) < c10::elementSize(dtype);
}

}  // namespace

BucketTransfer::BucketTransfer(Communicator& communicator, int64_t elements,
                               const at::TensorOptions& options, std::optional<at::ScalarType> wire)
    : communicator_(&communicator) {
  if (narrows(options.dtype().toScalarType(), wire, communicator.size())) {
    buffer_ = at::zeros({elements}, options);
    narrow_ = communicator.allocate({elements}, options.dtype(*wire));
  } else {
    buffer_ = communicator.allocate({elements}, options).zero_();
  }
}

void BucketTransfer::send() {
  if (narrow_.defined()) {
    const at::NoGradGuard no_grad;
    narrow_.copy_(buffer_);
  }
  work_ = communicator_->all_reduce(narrow_.defined() ? narrow_ : buffer_, ReduceOp::kSum);
  sent_ = true;
}

void BucketTransfer::receive() {
  if (!sent_) return;
  work_.wait();
  sent_ = false;
  if (!narrow_.defined()) return;
  const at::NoGradGuard no_grad;
  buffer_.copy_(narrow_);
}

int64_t BucketTransfer::wire_bytes() const {
  return static_cast<int64_t>(narrow_.defined() ? narrow_.nbytes() : buffer_.nbytes());
}

int64_t BucketTransfer::memory_bytes() const {
  return static_cast<int64_t>(buffer_.nbytes() + (narrow_.defined() ? narrow_.nbytes() : 0));
}

std::optional<at::ScalarType> wire_dtype(config::Wire wire) {
  switch (wire) {
    case config::Wire::kFp32:
      return std::nullopt;
    case config::Wire::kBf16:
      return at::kBFloat16;
    case config::Wire::kFp16:
      return at::kHalf;
  }
  return std::nullopt;
}

int64_t wire_item_bytes(at::ScalarType dtype, std::optional<at::ScalarType> wire, int ranks) {
  return static_cast<int64_t>(c10::elementSize(narrows(dtype, wire, ranks) ? *wire : dtype));
}

}  // namespace dtrain::dist
