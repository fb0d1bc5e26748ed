#include "dist/object_collectives.h"

#include <algorithm>

#include "core/check.h"

namespace dtrain::dist {
namespace {

at::Tensor as_tensor(Bytes& bytes) {
  return at::from_blob(bytes.data(), {static_cast<int64_t>(bytes.size())}, at::kByte);
}

at::Tensor size_tensor(const Bytes& bytes) {
  return at::tensor({static_cast<int64_t>(bytes.size())}, at::kLong);
}

Bytes bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Bytes broadcast_object(Communicator& comm, Bytes bytes) {
  const at::Tensor size = size_tensor(bytes);
  comm.broadcast(size, 0).wait();
  bytes.resize(static_cast<size_t>(size.item<int64_t>()));
  if (!bytes.empty()) comm.broadcast(as_tensor(bytes), 0).wait();
  return bytes;
}

std::string broadcast_object(Communicator& comm, const std::string& text) {
  return text_of(broadcast_object(comm, bytes_of(text)));
}

// Padded to the longest, because all_gather takes tensors of one size.
std::vector<Bytes> all_gather_object(Communicator& comm, const Bytes& bytes) {
  const at::Tensor sizes = at::empty({comm.size()}, at::kLong);
  comm.all_gather(sizes, size_tensor(bytes)).wait();
  std::vector<Bytes> all(static_cast<size_t>(comm.size()));
  const int64_t longest = sizes.max().item<int64_t>();
  if (longest == 0) return all;
  Bytes padded = bytes;
  padded.resize(static_cast<size_t>(longest));
  const at::Tensor gathered = at::empty({comm.size() * longest}, at::kByte);
  comm.all_gather(gathered, as_tensor(padded)).wait();
  const auto* next = reinterpret_cast<const std::byte*>(gathered.const_data_ptr<uint8_t>());
  for (int rank = 0; rank < comm.size(); ++rank, next += longest) {
    all[static_cast<size_t>(rank)].assign(next, next + sizes[rank].item<int64_t>());
  }
  return all;
}

std::vector<std::string> all_gather_object(Communicator& comm, const std::string& text) {
  std::vector<std::string> all;
  for (const Bytes& theirs : all_gather_object(comm, bytes_of(text)))
    all.push_back(text_of(theirs));
  return all;
}

void stream_to_rank0(Communicator& comm, int from,
                     const std::function<void(const TakePiece&)>& produce,
                     const TakePiece& receive) {
  if (from == 0) {
    if (comm.rank() == 0) produce(receive);
    return;
  }
  const at::Tensor size = at::zeros({1}, at::kLong);
  if (comm.rank() == from) {
    produce([&](std::string_view piece) {
      DTRAIN_CHECK(!piece.empty());
      size.fill_(static_cast<int64_t>(piece.size()));
      comm.broadcast(size, from).wait();
      const at::Tensor text = at::from_blob(const_cast<char*>(piece.data()),
                                            {static_cast<int64_t>(piece.size())}, at::kByte);
      comm.broadcast(text, from).wait();
    });
    comm.broadcast(size.zero_(), from).wait();
    return;
  }
  std::string piece;
  while (true) {
    comm.broadcast(size, from).wait();
    piece.resize(static_cast<size_t>(size.item<int64_t>()));
    if (piece.empty()) return;
    comm.broadcast(at::from_blob(piece.data(), {static_cast<int64_t>(piece.size())}, at::kByte),
                   from)
        .wait();
    if (comm.rank() == 0) receive(piece);
  }
}

double largest_of_ranks(Communicator& comm, double mine) {
  const std::vector<double> all = all_gather_object(comm, mine);
  return *std::max_element(all.begin(), all.end());
}

}  // namespace dtrain::dist
