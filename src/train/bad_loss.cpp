#include "train/bad_loss.h"

#include <algorithm>

#include "kernels/step_numbers.h"
#include "text/strings.h"

namespace dtrain::train {

namespace {

using kernels::kNamedSamples;  // per rank

}  // namespace

BadLosses::BadLosses(at::Device device)
    : record_(at::empty({2 + kNamedSamples}, at::TensorOptions(device).dtype(at::kLong))) {
  clear();
}

void BadLosses::clear() {
  record_.fill_(-1);
  record_.slice(0, 0, 2).zero_();
}

BadLosses::Found BadLosses::gather(dist::Communicator& host) const {
  at::Tensor all = at::empty({host.size() * record_.numel()}, at::kLong);
  host.all_gather(all, record_.to(at::kCPU).contiguous()).wait();
  Found found;
  const int64_t* values = all.const_data_ptr<int64_t>();
  for (int rank = 0; rank < host.size(); ++rank, values += 2 + kNamedSamples) {
    found.bad += values[0];
    found.of += values[1];
    std::copy_if(values + 2, values + 2 + kNamedSamples, std::back_inserter(found.ids),
                 [](int64_t id) { return id >= 0; });
  }
  std::sort(found.ids.begin(), found.ids.end());
  return found;
}

std::string describe(const BadLosses::Found& found, const data::Store& store,
                     const std::string& against_overflow) {
  std::vector<std::string> names;
  for (const int64_t id : found.ids) {
    if (names.size() == kNamedSamples) break;
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
