#pragma once

// Collectives on values instead of tensors: bytes, text, and trivially copyable structs travel over
// a communicator for host tensors. Rank states reach rank 0 this way, and a checkpoint reaches all
// ranks. Sizes may differ between ranks. Every function is collective.

#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "dist/communicator.h"

namespace dtrain::dist {

using Bytes = std::vector<std::byte>;

// The object of rank 0, on every rank; what the other ranks pass is ignored.
Bytes broadcast_object(Communicator&, Bytes bytes);
std::string broadcast_object(Communicator&, const std::string& text);

// The objects of all ranks, by rank, on every rank.
std::vector<Bytes> all_gather_object(Communicator&, const Bytes& bytes);
std::vector<std::string> all_gather_object(Communicator&, const std::string& text);

// Text that rank `from` makes reaches rank 0 in pieces, so that no rank has to hold all of it. On
// rank `from`, `produce` calls the function that it receives with one piece after the other, none
// of them empty; on rank 0, `receive` takes them in this order. (On their way all ranks see them.)
using TakePiece = std::function<void(std::string_view)>;
void stream_to_rank0(Communicator&, int from, const std::function<void(const TakePiece&)>& produce,
                     const TakePiece& receive);

// What is sent as the bytes that it consists of. (A literal is a pointer to text, and is sent
// as text.)
template <typename T>
concept PlainValue = std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>;

// The value of rank 0, on every rank; what the other ranks pass is ignored.
template <PlainValue T>
T broadcast_object(Communicator& comm, T value) {
  comm.broadcast(at::from_blob(&value, {static_cast<int64_t>(sizeof(T))}, at::kByte), 0).wait();
  return value;
}

// The list of rank 0, on every rank; what the other ranks pass is ignored.
template <PlainValue T>
std::vector<T> broadcast_values(Communicator& comm, const std::vector<T>& values) {
  const auto mine = std::as_bytes(std::span(values));
  const Bytes theirs = broadcast_object(comm, Bytes(mine.begin(), mine.end()));
  std::vector<T> of_rank0(theirs.size() / sizeof(T));
  if (!of_rank0.empty()) std::memcpy(of_rank0.data(), theirs.data(), theirs.size());
  return of_rank0;
}

// The lists of all ranks as one list, in rank order.
template <PlainValue T>
std::vector<T> all_gather_values(Communicator& comm, const std::vector<T>& values) {
  const auto mine = std::as_bytes(std::span(values));
  std::vector<T> all;
  for (const Bytes& theirs : all_gather_object(comm, Bytes(mine.begin(), mine.end()))) {
    const size_t before = all.size(), count = theirs.size() / sizeof(T);
    all.resize(before + count);
    if (count > 0) std::memcpy(all.data() + before, theirs.data(), count * sizeof(T));
  }
  return all;
}

// One value of each rank, by rank. All have one size, so that one collective is enough.
template <PlainValue T>
std::vector<T> all_gather_object(Communicator& comm, T value) {
  const auto size = static_cast<int64_t>(sizeof(T));
  const at::Tensor gathered = at::empty({comm.size() * size}, at::kByte);
  comm.all_gather(gathered, at::from_blob(&value, {size}, at::kByte)).wait();
  std::vector<T> all(static_cast<size_t>(comm.size()));
  std::memcpy(all.data(), gathered.const_data_ptr(), all.size() * sizeof(T));
  return all;
}

// The largest value of any rank: of durations, that of the slowest one.
double largest_of_ranks(Communicator&, double mine);

}  // namespace dtrain::dist
