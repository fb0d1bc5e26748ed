#include "job/run_report.h"

#include <algorithm>

#include "core/clock.h"
#include "core/error.h"
#include "core/log.h"
#include "data/loader/loader.h"
#include "dist/failure.h"
#include "formats/image.h"
#include "job/data_set.h"
#include "job/placement.h"
#include "job/run_paths.h"
#include "job/trained_model.h"
#include "os/file_system.h"
#include "report/digest.h"
#include "report/page_parts.h"
#include "report/read_run.h"
#include "text/strings.h"
#include "text/utf8.h"

namespace dtrain::job {
namespace {

constexpr size_t kSamples = 12;
constexpr int kSide = 112;  // pixels of a picture in the report
constexpr int64_t kLargestCheckpoint = int64_t{2}
                                       << 30;  // at the end of a run, where the other ranks wait

std::string shortened(const std::string& text) {
  constexpr size_t kLongestText = 80;
  const std::string_view beginning = utf8_beginning(text, kLongestText);
  return beginning.size() < text.size() ? str(beginning, "...") : text;
}

struct ValueText {
  std::string operator()(double value) const { return fixed(value, 2); }
  std::string operator()(int64_t value) const { return str(value); }
  std::string operator()(const std::string& value) const { return value; }
  template <typename Element>
  std::string operator()(const std::vector<Element>& values) const {
    std::string text;
    for (const Element& value : values) text += (text.empty() ? "" : " ") + (*this)(value);
    return text;
  }
};

// "cat (0.98)"; "yaw 12.30, pitch -4.05, roll 1.17"; "3 0 2 1".
std::string prediction_text(const std::vector<std::string>& columns, const tasks::Row& row) {
  if (!columns.empty() && columns[0] == "class" && row.size() >= 2) {
    return shortened(
        str(std::visit(ValueText(), row[0]), " (", std::visit(ValueText(), row[1]), ")"));
  }
  std::string text;
  for (size_t i = 0; i < row.size() && i < columns.size(); ++i) {
    const std::string name = row.size() > 1 ? columns[i] + " " : "";
    text += (i > 0 ? ", " : "") + name + std::visit(ValueText(), row[i]);
  }
  return shortened(text);
}

std::string target_text(const data::Store& store, int64_t id,
                        const std::vector<std::string>& columns) {
  if (store.schema().target.element == data::Element::kInt64) {
    const std::vector<int64_t> values = data::read_target_as<int64_t>(store, id);
    const std::vector<std::string> classes = data::class_names(store.origin());
    if (values.size() == 1 && values[0] >= 0 && values[0] < static_cast<int64_t>(classes.size())) {
      return shortened(classes[static_cast<size_t>(values[0])]);
    }
    return shortened(ValueText()(values));
  }
  const std::vector<float> values = data::read_target_as<float>(store, id);
  tasks::Row row;
  for (const float value : values) row.emplace_back(static_cast<double>(value));
  const bool named = columns.size() == row.size();
  return prediction_text(named ? columns : std::vector<std::string>(row.size()), row);
}

// The stored picture, smaller; "" for rows of numbers.
std::string picture(const data::Store& store, int64_t id) {
  const data::Field& input = store.schema().input;
  if (input.element != data::Element::kUint8 || input.shape.size() != 3 || input.shape[2] != 3)
    return "";
  formats::Image image;
  image.height = static_cast<int>(input.shape[0]);
  image.width = static_cast<int>(input.shape[1]);
  image.rgb = data::read_input_as<uint8_t>(store, id);
  const double scale = std::min(1.0, double{kSide} / std::max(image.width, image.height));
  const formats::Image small = formats::resample(
      image, {0, 0, static_cast<double>(image.width), static_cast<double>(image.height)},
      std::max(1, static_cast<int>(image.width * scale)),
      std::max(1, static_cast<int>(image.height * scale)));
  return report::data_uri("image/jpeg", formats::encode_jpeg(small, /*quality=*/80));
}

// `count` of the ids, evenly spaced.
std::vector<int64_t> spread(const std::vector<int64_t>& ids, size_t count) {
  std::vector<int64_t> chosen;
  const size_t most = std::min(count, ids.size());
  for (size_t i = 0; i < most; ++i) chosen.push_back(ids[i * ids.size() / most]);
  return chosen;
}

report::ShownSample sample(const data::Store& store, int64_t id,
                           const std::vector<std::string>& columns, const tasks::Row& row) {
  return {.picture = picture(store, id),
          .name = store.origin().source(id).empty() ? store.origin().name(id)
                                                    : store.origin().source(id),
          .target = target_text(store, id, columns),
          .prediction = prediction_text(columns, row)};
}

}  // namespace

report::ContactSheet contact_sheet(data::ProbeProcess& prober, const std::filesystem::path& run,
                                   const std::string& code) {
  const TrainedModel model = load_model_alone(
      {.path = run.string(), .choice = ""},
      {.module_file = code, .on_bad_sample = config::OnBadSample::kSkip, .looks_for_code = false});
  tasks::Task& task = *model.task;
  const DataSet data = open_data(prober, model, "");
  const data::Store& store = *data.store;
  task.check(store);
  const char* split = !data.splits.val.empty()    ? "val"
                      : !data.splits.test.empty() ? "test"
                                                  : "train";
  const std::vector<int64_t> ids = spread(data.ids(split), kSamples);
  if (ids.empty()) throw DataError(store.origin().path().string() + " has no samples");
  place_on_device(task, choose_precision(config::AmpMode::kFp32, at::kCPU), at::kCPU);
  data::SampleSpec spec = task.samples();
  spec.length_window = 0;  // keeps the order of the ids
  data::LoaderOptions pass =
      data::one_pass(static_cast<int64_t>(ids.size()), static_cast<int64_t>(ids.size()));
  pass.skip_bad = true;
  data::Loader loader(store, ids, spec, pass, data::Shard{});
  const data::Batch batch = loader.next();
  report::ContactSheet sheet;
  sheet.caption = str(split, " split, as the newest checkpoint (",
                      std::filesystem::path(model.checkpoint).filename().string(), ") sees it");
  if (batch.samples() == 0) return sheet;
  const at::NoGradGuard no_grad;
  const at::Tensor errors = task.count(batch).errors;
  const std::vector<tasks::Row> rows = task.predict(batch);
  const std::vector<std::string> columns = task.columns();
  for (size_t i = 0; i < rows.size(); ++i) {
    sheet.samples.push_back(sample(store, batch.ids[i], columns, rows[i]));
    if (errors.defined())
      sheet.samples.back().error = errors[static_cast<int64_t>(i)].item<double>();
  }
  return sheet;
}

std::vector<std::filesystem::path> data_files_of(const report::RunRecords& run) {
  const RunPaths paths =
      run_paths_of(run.folder / "checkpoints" / "any", run.setting("run.folder"));
  const std::string file = run.setting("data.file");
  const std::vector<std::string> places =
      file.empty() ? std::vector<std::string>{paths.data} : places_of(file, paths, paths.data);
  return {places.begin(), places.end()};
}

report::ContactSheet contact_sheet_or_gap(data::ProbeProcess& prober, report::RunRecords& run,
                                          const std::string& code) {
  try {
    return contact_sheet(prober, run.folder, code);
  } catch (...) {
    run.gaps.push_back("samples with predictions: " +
                       dist::describe(std::current_exception()).message);
    return {};
  }
}

void write_own_report(data::ProbeProcess& prober, const std::filesystem::path& folder,
                      const std::string& code) {
  const log::Quiet quiet;  // where the data were found has been said
  report::RunRecords run = report::read_run(folder, /*own=*/true);
  report::ContactSheet sheet;
  if (!run.checkpoints.empty() && run.checkpoints.front().bytes > kLargestCheckpoint) {
    run.gaps.push_back(
        str("samples with predictions: the checkpoint is large, and a run does not wait for it; "
            "`dtrain report ",
            run.name, "` adds them"));
  } else {
    sheet = contact_sheet_or_gap(prober, run, code);
  }
  const report::Digest digest = report::digest(run);
  write_atomically(real_file_system(), run.folder / kReportName,
                   report::page(run, digest, sheet, unix_seconds()));
}

}  // namespace dtrain::job
