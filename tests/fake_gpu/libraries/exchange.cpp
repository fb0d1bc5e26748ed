#include "libraries/exchange.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <type_traits>
#include <vector>

namespace fake_nccl {
namespace {

constexpr size_t kHeadBytes = 4096, kSlotBytes = 1 << 20;
constexpr auto kPatience = std::chrono::seconds(100);

[[noreturn]] void refuse(const char* what) {
  std::fprintf(stderr, "fake NCCL: %s\n", what);
  std::abort();
}

// Types of 16 bits, by their bits.
struct Half {
  _Float16 value;
};
struct BFloat16 {
  uint16_t bits;
};

template <typename T>
T widened(T value) {
  return value;
}
float widened(Half x) { return static_cast<float>(x.value); }
float widened(BFloat16 x) {
  const uint32_t bits = uint32_t{x.bits} << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <typename T, typename Wide>
T narrowed(Wide value) {
  if constexpr (std::is_same_v<T, Half>) {
    return {static_cast<_Float16>(value)};
  } else if constexpr (std::is_same_v<T, BFloat16>) {  // to nearest, ties to even
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    if (value != value) return {0x7fc0};
    return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
  } else {
    return value;
  }
}

template <typename Wide>
Wide folded(Wide a, Wide b, ncclRedOp_t op) {
  switch (op) {
    case ncclSum:
      return a + b;
    case ncclProd:
      return a * b;
    case ncclMax:
      return std::max(a, b);
    case ncclMin:
      return std::min(a, b);
    default:
      refuse("an operation that is not computed");
  }
}

template <typename T>
void fold_as(char* const* slots, int size, void* to, size_t skipped, size_t count, ncclRedOp_t op) {
  for (size_t i = 0; i < count; ++i) {
    const auto of = [&](int rank) {
      T value;
      std::memcpy(&value, slots[rank] + (skipped + i) * sizeof(T), sizeof value);
      return widened(value);
    };
    auto sum = of(0);
    for (int rank = 1; rank < size; ++rank) sum = folded(sum, of(rank), op);
    const T out = narrowed<T>(sum);
    std::memcpy(static_cast<char*>(to) + i * sizeof(T), &out, sizeof out);
  }
}

}  // namespace

struct Exchange::Head {
  std::atomic<uint32_t> arrived, turn, gone, leavers;
};

size_t width(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      refuse("a type that is not computed");
  }
}

Exchange::Exchange(const std::string& name, int rank, int size)
    : name_(name), rank_(rank), size_(size) {
  const size_t bytes = kHeadBytes + kSlotBytes * static_cast<size_t>(size);
  const int file = ::shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0) refuse("no shared memory");
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (memory == MAP_FAILED) refuse("no shared memory");
  head_ = static_cast<Head*>(memory);
}

Exchange::~Exchange() {
  if (head_->leavers.fetch_add(1) + 1 == static_cast<uint32_t>(size_)) ::shm_unlink(name_.c_str());
  ::munmap(head_, kHeadBytes + kSlotBytes * static_cast<size_t>(size_));
}

char* Exchange::slot(int rank) const {
  return reinterpret_cast<char*>(head_) + kHeadBytes + static_cast<size_t>(rank) * kSlotBytes;
}

void Exchange::abort() { head_->gone = 1; }

bool Exchange::meet() {
  const uint32_t turn = head_->turn;
  if (head_->arrived.fetch_add(1) + 1 == static_cast<uint32_t>(size_)) {
    head_->arrived = 0;
    ++head_->turn;
    return true;
  }
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (head_->turn == turn) {
    if (head_->gone != 0) return false;
    // The ranks have no common point any more: whatever they sum from here on would be wrong.
    if (std::chrono::steady_clock::now() > end) refuse("a rank has waited too long for the others");
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

bool Exchange::in_pieces(size_t count, size_t most, const std::function<void(size_t, size_t)>& give,
                         const std::function<void(size_t, size_t)>& take) {
  for (size_t at = 0; at < count; at += most) {
    const size_t n = std::min(most, count - at);
    give(at, n);
    if (!meet()) return false;
    take(at, n);
    if (!meet()) return false;
  }
  return true;
}

void Exchange::fold(void* to, size_t skipped, size_t count, ncclDataType_t type,
                    ncclRedOp_t op) const {
  std::vector<char*> slots;
  for (int rank = 0; rank < size_; ++rank) slots.push_back(slot(rank));
  const auto as = [&]<typename T>(T) { fold_as<T>(slots.data(), size_, to, skipped, count, op); };
  switch (type) {
    case ncclFloat16:
      return as(Half{});
    case ncclBfloat16:
      return as(BFloat16{});
    case ncclFloat32:
      return as(float{});
    case ncclFloat64:
      return as(double{});
    case ncclInt64:
      return as(int64_t{});
    case ncclUint8:
      return as(uint8_t{});
    default:
      refuse("a type that is not summed");
  }
}

bool Exchange::agree(uint64_t number, const char* what) {
  bool same = true;
  const bool met = in_pieces(
      1, 1, [&](size_t, size_t) { std::memcpy(slot(rank_), &number, sizeof number); },
      [&](size_t, size_t) {
        for (int rank = 0; rank < size_; ++rank)
          same = same && std::memcmp(slot(rank), &number, sizeof number) == 0;
      });
  if (!same) refuse(what);
  return met;
}

bool Exchange::all_reduce(const void* from, void* to, size_t count, ncclDataType_t type,
                          ncclRedOp_t op) {
  const size_t bytes = width(type);
  return in_pieces(
      count, kSlotBytes / bytes,
      [&](size_t at, size_t n) {
        std::memcpy(slot(rank_), static_cast<const char*>(from) + at * bytes, n * bytes);
      },
      [&](size_t at, size_t n) { fold(static_cast<char*>(to) + at * bytes, 0, n, type, op); });
}

bool Exchange::reduce_scatter(const void* from, void* to, size_t count, ncclDataType_t type,
                              ncclRedOp_t op) {
  const size_t bytes = width(type), ranks = static_cast<size_t>(size_);
  return in_pieces(
      count, kSlotBytes / bytes / ranks,
      [&](size_t at, size_t n) {
        for (size_t part = 0; part < ranks; ++part)
          std::memcpy(slot(rank_) + part * n * bytes,
                      static_cast<const char*>(from) + (part * count + at) * bytes, n * bytes);
      },
      [&](size_t at, size_t n) {
        fold(static_cast<char*>(to) + at * bytes, static_cast<size_t>(rank_) * n, n, type, op);
      });
}

bool Exchange::all_gather(const void* from, void* to, size_t count, ncclDataType_t type) {
  const size_t bytes = width(type);
  return in_pieces(
      count, kSlotBytes / bytes,
      [&](size_t at, size_t n) {
        std::memcpy(slot(rank_), static_cast<const char*>(from) + at * bytes, n * bytes);
      },
      [&](size_t at, size_t n) {
        for (size_t rank = 0; rank < static_cast<size_t>(size_); ++rank)
          std::memcpy(static_cast<char*>(to) + (rank * count + at) * bytes,
                      slot(static_cast<int>(rank)), n * bytes);
      });
}

bool Exchange::broadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root) {
  const size_t bytes = width(type);
  return in_pieces(
      count, kSlotBytes / bytes,
      [&](size_t at, size_t n) {
        if (rank_ == root)
          std::memcpy(slot(root), static_cast<const char*>(from) + at * bytes, n * bytes);
      },
      [&](size_t at, size_t n) {
        std::memcpy(static_cast<char*>(to) + at * bytes, slot(root), n * bytes);
      });
}

}  // namespace fake_nccl
