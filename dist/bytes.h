#pragma once

// Byte strings and small decisions over a communicator for host tensors: how rank states travel to rank 0, a checkpoint
// to all, and how ranks agree on an error before they meet in a collective that would hang. All collective.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "dist/communicator.h"

namespace dtrain::dist {

// `bytes` of `root`, on every rank.
std::vector<std::byte> broadcast_bytes(Communicator&, std::vector<std::byte> bytes, int root = 0);
std::string broadcast_text(Communicator&, const std::string& text, int root = 0);
// What each rank has, by rank, on every rank.
std::vector<std::vector<std::byte>> all_gather_bytes(Communicator&, const std::vector<std::byte>& bytes);
std::vector<std::string> all_gather_text(Communicator&, const std::string& text);

// The values of all ranks, one after the other.
template <typename T>
std::vector<T> all_gather_values(Communicator& comm, const std::vector<T>& values) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto mine = std::as_bytes(std::span(values));
  std::vector<T> all;
  for (const std::vector<std::byte>& theirs : all_gather_bytes(comm, {mine.begin(), mine.end()})) {
    const size_t before = all.size();
    all.resize(before + theirs.size() / sizeof(T));
    std::copy(theirs.begin(), theirs.end(), std::as_writable_bytes(std::span(all).subspan(before)).begin());
  }
  return all;
}

// Thrown on all ranks by agree(): the message has been printed, only the exit code is left to carry.
struct AgreedFailure {
  int exit_code = 70;
};

// Runs `step` on every rank (it must not be collective); if it throws on any, the lowest such rank prints its message
// and all ranks throw AgreedFailure with its exit code.
void agree(Communicator&, const std::function<void()>& step);
// Runs `step` on rank 0 only (the run folder is its own), with the same ending.
void agree_on_rank0(Communicator&, const std::function<void()>& step);

// Exit code and message of any exception, for agree() and for main: LibTorch's out-of-memory is a DeviceError with
// advice.
struct Failure {
  int exit_code = 70;
  std::string message;
};
Failure describe(const std::exception_ptr&);

}  // namespace dtrain::dist
