#include "dist/shared_arena.h"

#include <ATen/ops/from_blob.h>

#include "core/check.h"

namespace dtrain::dist {

namespace {

// Low bits of a place: parts of up to 1 TiB, and 16 million allocations
constexpr int kOffsetBits = 40;

}  // namespace

at::Tensor SharedArena::allocate(Communicator& comm, at::IntArrayRef sizes,
                                 const at::TensorOptions& options) {
  DTRAIN_CHECK(options.device().is_cpu(), "shared memory holds CPU tensors, not those of ",
               options.device().str());
  const int64_t bytes =
      c10::multiply_integers(sizes) * static_cast<int64_t>(options.dtype().itemsize());
  DTRAIN_CHECK(bytes < int64_t{1} << kOffsetBits, bytes, " bytes");
  auto segment = std::make_shared<SharedSegment>(comm, bytes, options_);
  std::byte* mine = segment->part(comm.rank());
  {
    const std::lock_guard lock(registry_->mutex);
    registry_->by_address.emplace(mine, Entry{std::move(segment), ++allocations_, bytes});
  }
  const auto free = [registry = registry_, mine](void*) {
    std::shared_ptr<SharedSegment> last;  // unmapped without the lock
    const std::lock_guard lock(registry->mutex);
    const auto entry = registry->by_address.find(mine);
    last = std::move(entry->second.segment);
    registry->by_address.erase(entry);
  };
  return at::from_blob(mine, sizes, free, options);
}

SharedParts SharedArena::find(const void* data, int64_t bytes) const {
  const auto* begin = static_cast<const std::byte*>(data);
  const std::lock_guard lock(registry_->mutex);
  auto entry = registry_->by_address.upper_bound(begin);
  if (entry == registry_->by_address.begin()) return {};
  --entry;
  const int64_t offset = begin - entry->first;
  if (offset + bytes > entry->second.bytes) return {};
  const SharedSegment& segment = *entry->second.segment;
  return {.place = entry->second.number << kOffsetBits | static_cast<uint64_t>(offset),
          .first = segment.part(0) + offset,
          .stride = segment.stride()};
}

}  // namespace dtrain::dist
