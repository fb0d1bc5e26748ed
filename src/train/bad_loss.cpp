#include "train/bad_loss.h"

#include <algorithm>

#include "text/strings.h"

namespace dtrain::train {
namespace {

constexpr int64_t kNamed = 8;  // ids kept per rank

}  // namespace

BadLosses::BadLosses(at::Device device)
    : record_(at::full({2 + kNamed}, -1, at::TensorOptions(device).dtype(at::kLong))) {
  record_.slice(0, 0, 2).zero_();
}

void BadLosses::note(const at::Tensor& per_sample, const at::Tensor& ids) {
  if (!per_sample.defined()) return;
  const at::NoGradGuard no_grad;
  const int64_t samples = ids.numel(), named = std::min(samples, kNamed);
  const at::Tensor bad = at::isfinite(per_sample).logical_not_();
  const at::Tensor count = bad.sum();
  at::Tensor now = at::full_like(record_, -1);
  now.select(0, 0).copy_(count);
  now.select(0, 1).fill_(samples);
  now.slice(0, 2, 2 + named).copy_(std::get<0>(at::where(bad, ids, -1).topk(named)));
  record_.copy_(at::where((record_[0] == 0).logical_and(count > 0), now, record_));
}

BadLosses::Found BadLosses::gather(dist::Communicator& host) const {
  at::Tensor all = at::empty({host.size() * record_.numel()}, at::kLong);
  host.all_gather(all, record_.to(at::kCPU).contiguous()).wait();
  Found found;
  const int64_t* values = all.const_data_ptr<int64_t>();
  for (int rank = 0; rank < host.size(); ++rank, values += 2 + kNamed) {
    found.bad += values[0];
    found.of += values[1];
    std::copy_if(values + 2, values + 2 + kNamed, std::back_inserter(found.ids),
                 [](int64_t id) { return id >= 0; });
  }
  std::sort(found.ids.begin(), found.ids.end());
  return found;
}

std::string describe(const BadLosses::Found& found, const data::Store& store,
                     const std::string& against_overflow) {
  std::vector<std::string> names;
  for (const int64_t id : found.ids) {
    if (names.size() == kNamed) break;
    const std::string source = store.origin().source(id);
    names.push_back(
        str(store.origin().path().string(), "#", id, source.empty() ? "" : " (" + source + ")"));
  }
  if (found.bad > static_cast<int64_t>(names.size())) names.push_back("...");
  const bool all = found.bad == found.of;
  return str("the loss of ", found.bad, " of ", found.of,
             " samples of a micro-step is not finite: ", join(names, ", "),
             all ? ". All of them: the weights have diverged. Use a smaller --lr, a warm-up "
                   "(--schedule.warmup_steps) or --optimizer.clip_norm 1"
                 : ". Look at these samples (dtrain inspect --verify), or use a smaller --lr or " +
                       against_overflow);
}

}  // namespace dtrain::train
