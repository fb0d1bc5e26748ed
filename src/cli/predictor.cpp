#include "cli/predictor.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <type_traits>

#include "core/clock.h"
#include "job/data_set.h"
#include "text/strings.h"

namespace dtrain::cli {
namespace {

static_assert(std::is_same_v<tasks::Row, std::vector<Cell>>);

std::string input_name(const data::Store& store, int64_t id) {
  std::string source = store.origin().source(id);
  return source.empty() ? str(store.origin().path().string(), "#", id) : source;
}

// Adds the rows of the `planned` samples in their order; `batch` holds them, or the reason why one
// was left out.
void add_rows(Chunk& chunk, const data::Store& store, std::span<const int64_t> planned,
              const data::Batch& batch, const std::vector<tasks::Row>& rows,
              const RowWriter& writer) {
  size_t next = 0;
  for (const int64_t id : planned) {
    if (next < batch.ids.size() && batch.ids[next] == id) {
      chunk.text += writer.row(input_name(store, id), rows[next++]);
    } else {
      const data::Batch::LeftOut& bad = batch.left_out.at(static_cast<size_t>(chunk.bad++));
      chunk.text += writer.error(input_name(store, id), bad.reason);
    }
  }
}

}  // namespace

int64_t Turns::samples(int64_t step) const {
  return data::global_batch(step, count, batch_size * shard.size).positions.size();
}

data::Range Turns::positions(int64_t step) const {
  const int64_t begin = std::min(count, (step * shard.size + shard.rank) * batch_size);
  return {begin, std::min(count, begin + batch_size)};
}

std::vector<int64_t> Turns::own(const std::vector<int64_t>& ids) const {
  std::vector<int64_t> result;
  for (int64_t step = 0; step < steps(); ++step) {
    const data::Range range = positions(step);
    result.insert(result.end(), ids.begin() + range.begin, ids.begin() + range.end);
  }
  return result;
}

Predictor::Predictor(job::ProcessContext& process, const InferenceOptions& how, tasks::Task& task,
                     train::Precision precision, const PredictInputs& samples,
                     const RowWriter& writer)
    : task_(task),
      precision_(precision),
      device_(process.device),
      samples_(samples),
      turns_{static_cast<int64_t>(samples.ids.size()),
             how.batch_size,
             {process.host.rank(), process.host.size()}},
      writer_(writer) {
  const std::vector<int64_t> ids = turns_.own(samples.ids);
  if (ids.empty()) return;
  data::LoaderOptions pass = data::one_pass(static_cast<int64_t>(ids.size()), how.batch_size);
  pass.threads = job::reader_threads(how.workers, process.cores);
  if (samples.converted) pass.verify = how.verify;  // raw files have no checksums
  pass.skip_bad = true;
  pass.check_targets = false;
  pass.device = process.device;
  data::SampleSpec spec = task.samples();
  spec.length_window = 0;  // keeps the order of the inputs
  loader_.emplace(*samples.store, ids, spec, pass, data::Shard{});
}

Chunk Predictor::rows_of(int64_t step) {
  Chunk chunk;
  const data::Range mine = turns_.positions(step);
  if (mine.size() == 0) return chunk;
  const data::Batch batch = loader_->next();
  std::vector<tasks::Row> rows;
  if (batch.samples() > 0) {
    const auto begin = std::chrono::steady_clock::now();
    const at::NoGradGuard no_grad;
    const layers::AutocastGuard autocast = train::autocast_for(precision_, device_);
    rows = task_.predict(batch);
    chunk.latency = seconds_since(begin);
  }
  const auto planned =
      std::span(samples_.ids)
          .subspan(static_cast<size_t>(mine.begin), static_cast<size_t>(mine.size()));
  add_rows(chunk, *samples_.store, planned, batch, rows, writer_);
  return chunk;
}

}  // namespace dtrain::cli
