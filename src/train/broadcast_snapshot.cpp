#include "train/broadcast_snapshot.h"

#include "dist/object_collectives.h"

namespace dtrain::train {

std::optional<checkpoint::Snapshot> broadcast_snapshot(
    dist::Communicator& host, const std::optional<checkpoint::Snapshot>& snapshot) {
  at::Tensor header =
      snapshot ? at::tensor({int64_t{1}, snapshot->step, static_cast<int64_t>(snapshot->world_size),
                             static_cast<int64_t>(snapshot->ranks.size())},
                            at::kLong)
               : at::zeros({4}, at::kLong);
  host.broadcast(header, 0).wait();
  if (header[0].item<int64_t>() == 0) return std::nullopt;

  const bool root = host.rank() == 0;
  const auto tensors = [&](const checkpoint::NamedTensors* mine,
                           const checkpoint::Metadata& metadata) {
    std::vector<std::byte> bytes =
        root ? checkpoint::to_safetensors(*mine, metadata) : std::vector<std::byte>();
    bytes = dist::broadcast_object(host, std::move(bytes));
    return checkpoint::from_safetensors(bytes, "checkpoint from rank 0");
  };
  checkpoint::Snapshot all;
  all.step = header[1].item<int64_t>();
  all.world_size = static_cast<int>(header[2].item<int64_t>());
  checkpoint::TensorFile model = tensors(root ? &snapshot->model : nullptr,
                                         root ? snapshot->model_metadata : checkpoint::Metadata());
  all.model = std::move(model.tensors);
  all.model_metadata = std::move(model.metadata);
  all.optimizer = tensors(root ? &snapshot->optimizer : nullptr, {}).tensors;
  all.state_json = dist::broadcast_object(host, root ? snapshot->state_json : "");
  for (int64_t rank = 0; rank < header[3].item<int64_t>(); ++rank) {
    all.ranks.push_back(
        tensors(root ? &snapshot->ranks[static_cast<size_t>(rank)] : nullptr, {}).tensors);
  }
  return all;
}

}  // namespace dtrain::train
