#include "tasks/confusion.h"

#include <limits>

namespace dtrain::tasks {
namespace {

double ratio(double part, double whole) {
  return whole > 0 ? part / whole : std::numeric_limits<double>::quiet_NaN();
}

struct OfClass {
  double hits, predicted, samples;
  double f1() const { return ratio(2 * hits, predicted + samples); }
};

// [3, classes] of either form.
at::Tensor sums(const at::Tensor& counts) {
  return is_confusion(counts) ? at::stack({counts.diagonal(), counts.sum(0), counts.sum(1)})
                              : counts;
}

std::vector<OfClass> by_class(const at::Tensor& counts) {
  const at::Tensor all = sums(counts).contiguous();
  const double *hits = all.const_data_ptr<double>(), *predicted = hits + all.size(1),
               *samples = predicted + all.size(1);
  std::vector<OfClass> result;
  for (int64_t c = 0; c < all.size(1); ++c) result.push_back({hits[c], predicted[c], samples[c]});
  return result;
}

}  // namespace

bool is_confusion(const at::Tensor& counts) { return counts.size(1) <= kLargestConfusion; }

at::Tensor hits_and_misses(const at::Tensor& targets, const at::Tensor& predictions,
                           int64_t classes) {
  const at::Tensor number = at::arange(classes, targets.options());
  const auto one_hot = [&](const at::Tensor& of) {
    return (of.unsqueeze(1) == number).to(at::kDouble);
  };
  const at::Tensor wanted = one_hot(targets), taken = one_hot(predictions);
  if (classes <= kLargestConfusion) return at::mm(wanted.t(), taken);
  return at::stack({(wanted * taken).sum(0), taken.sum(0), wanted.sum(0)});
}

double samples_in(const at::Tensor& counts) { return sums(counts)[2].sum().item<double>(); }

double accuracy(const at::Tensor& counts) {
  return ratio(sums(counts)[0].sum().item<double>(), samples_in(counts));
}

double macro_f1(const at::Tensor& counts) {
  double sum = 0, occurring = 0;
  for (const OfClass& of : by_class(counts)) {
    if (of.predicted + of.samples == 0) continue;
    sum += of.f1();
    occurring += 1;
  }
  return ratio(sum, occurring);
}

Table class_table(const at::Tensor& counts, const std::vector<std::string>& classes) {
  Table table{.name = "by class",
              .columns = {"precision", "recall", "f1", "samples"},
              .rows = classes,
              .cells = {}};
  for (const OfClass& of : by_class(counts)) {
    table.cells.push_back(
        {ratio(of.hits, of.predicted), ratio(of.hits, of.samples), of.f1(), of.samples});
  }
  return table;
}

Table confusion_table(const at::Tensor& counts, const std::vector<std::string>& classes) {
  Table table{.name = "confusion: rows are targets, columns predictions",
              .columns = classes,
              .rows = classes,
              .cells = {}};
  const at::Tensor cells = counts.contiguous();
  const double* row = cells.const_data_ptr<double>();
  for (int64_t c = 0; c < cells.size(0); ++c, row += cells.size(1))
    table.cells.emplace_back(row, row + cells.size(1));
  return table;
}

}  // namespace dtrain::tasks
