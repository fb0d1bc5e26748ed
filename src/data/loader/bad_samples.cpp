#include "data/loader/bad_samples.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "data/order/length_classes.h"
#include "text/strings.h"

namespace dtrain::data {
namespace {

// The entries `kept` of the first dimension, narrowed to `longest` along the second one unless
// `longest` is negative.
at::Tensor kept_rows(const at::Tensor& tensor, const at::Tensor& kept, int64_t longest = -1) {
  const at::Tensor rows = tensor.index_select(0, kept);
  if (longest >= 0) return rows.narrow(1, 0, longest).contiguous();
  return tensor.dim() == 4 ? rows.contiguous(at::MemoryFormat::ChannelsLast) : rows;
}

}  // namespace

void BadSamples::leave_out_of(PendingBatch& job) {
  Batch& batch = job.batch;
  std::vector<bool> bad(batch.ids.size());
  std::ranges::sort(job.bad, [](const auto& a, const auto& b) { return a.item < b.item; });
  for (const PendingBatch::Bad& one : job.bad) {
    const int64_t id = batch.ids[static_cast<size_t>(one.item)];
    bad[static_cast<size_t>(one.item)] = true;
    batch.left_out.push_back({id, one.message});
    if (ids_.insert(id).second) warn(id, one.message);
  }
  std::vector<int64_t> kept, ids;
  int64_t longest = 0, longest_target = 0;
  batch.rows = 0;
  for (size_t i = 0; i < bad.size(); ++i) {
    if (bad[i]) continue;
    const int64_t id = batch.ids[i];
    kept.push_back(static_cast<int64_t>(i));
    ids.push_back(id);
    longest = std::max(longest, length_of(store_, id));
    longest_target = std::max(longest_target, store_.target_rows(id));
    if (job.packed.rows()) batch.rows += length_of(store_, id);
  }
  longest = rounded_up(length_classes_, longest);
  longest_target = rounded_up(length_classes_, longest_target);
  const Schema& schema = store_.schema();
  const at::Tensor index = at::tensor(kept, at::kLong).to(batch.inputs.device());
  batch.inputs = kept_rows(batch.inputs, index, schema.input.variable() ? longest : -1);
  batch.targets = kept_rows(batch.targets, index, schema.target.variable() ? longest_target : -1);
  if (batch.lengths.defined()) batch.lengths = batch.lengths.index_select(0, index);
  batch.sample_ids = batch.sample_ids.index_select(0, index);
  batch.ids = std::move(ids);
}

void BadSamples::warn(int64_t id, const std::string& message) const {
  std::string source;
  try {
    source = store_.origin().source(id);
  } catch (const DataError&) {  // the damage may affect the source as well
  }
  const bool named = source.empty() || message.find(source) != std::string::npos;
  log::warning(str("left out: ", message, named ? "" : " (" + source + ")"));
}

}  // namespace dtrain::data
