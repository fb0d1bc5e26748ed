#include "tasks/confusion.h"

#include <limits>

namespace dtrain::tasks {
namespace {

double ratio(double part, double whole) { return whole > 0 ? part / whole : std::numeric_limits<double>::quiet_NaN(); }

struct OfClass {
  double hits, predicted, samples;
  double f1() const { return ratio(2 * hits, predicted + samples); }
};

std::vector<OfClass> by_class(const at::Tensor& confusion) {
  const at::Tensor predicted = confusion.sum(0), samples = confusion.sum(1);
  std::vector<OfClass> result;
  for (int64_t c = 0; c < confusion.size(0); ++c) {
    result.push_back({confusion[c][c].item<double>(), predicted[c].item<double>(), samples[c].item<double>()});
  }
  return result;
}

}  // namespace

at::Tensor confusion(const at::Tensor& targets, const at::Tensor& predictions, int64_t classes) {
  const at::Tensor number = at::arange(classes, targets.options());
  const auto one_hot = [&](const at::Tensor& of) { return (of.unsqueeze(1) == number).to(at::kDouble); };
  return at::mm(one_hot(targets).t(), one_hot(predictions));
}

double accuracy(const at::Tensor& confusion) {
  return ratio(confusion.trace().item<double>(), confusion.sum().item<double>());
}

double macro_f1(const at::Tensor& confusion) {
  double sum = 0, occurring = 0;
  for (const OfClass& of : by_class(confusion)) {
    if (of.predicted + of.samples == 0) continue;
    sum += of.f1();
    occurring += 1;
  }
  return ratio(sum, occurring);
}

Table class_table(const at::Tensor& confusion, const std::vector<std::string>& classes) {
  Table table{.name = "by class", .columns = {"precision", "recall", "f1", "samples"}, .rows = classes, .cells = {}};
  for (const OfClass& of : by_class(confusion)) {
    table.cells.push_back({ratio(of.hits, of.predicted), ratio(of.hits, of.samples), of.f1(), of.samples});
  }
  return table;
}

Table confusion_table(const at::Tensor& confusion, const std::vector<std::string>& classes) {
  Table table{
      .name = "confusion: rows are targets, columns predictions", .columns = classes, .rows = classes, .cells = {}};
  const at::Tensor cells = confusion.to(at::kDouble).contiguous();
  const double* row = cells.const_data_ptr<double>();
  for (int64_t c = 0; c < cells.size(0); ++c, row += cells.size(1)) table.cells.emplace_back(row, row + cells.size(1));
  return table;
}

}  // namespace dtrain::tasks
