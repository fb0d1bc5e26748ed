// Measures the samples per second of the loader on the CPU, compared with a plain read loop. Each round measures every
// variant once, so that a change in the machine's load affects all of them; the table shows the median of the rounds.
// The data set is generated, written as a dtrain file, and read from the page cache.
// Usage: loader_bench [OUT.json] [ROUNDS]

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "core/random.h"
#include "data/hdf5/file_store.h"
#include "data/hdf5/writer.h"
#include "data/loader/loader.h"
#include "data/store.h"

namespace dtrain::data {
namespace {

constexpr int64_t kBatch = 32;

std::unique_ptr<Store> generated(const std::filesystem::path& file, int64_t samples, int64_t side) {
  Schema schema;
  schema.task = "bench";
  schema.input = {Element::kUint8, {side, side, 3}};
  schema.target = {Element::kFloat32, {3}};
  schema.samples = samples;
  auto writer = Writer::create(file, schema);
  std::vector<std::byte> image(static_cast<size_t>(side * side * 3));
  for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<std::byte>(mix64(i) >> 56);
  Writer::Extras extras;
  for (int64_t id = 0; id < samples; ++id) {
    image[0] = static_cast<std::byte>(id);
    const std::vector<float> target{1, 2, 3};
    writer->write(id, image, std::as_bytes(std::span(target)));
    extras.splits["train"].push_back(id);
    extras.source.push_back("generated");
    extras.group.push_back(id);
  }
  writer->finish(extras);
  return open_file(file);
}

SampleSpec spec_of(int64_t side, bool augment) {
  SampleSpec spec;
  spec.image_size = side;
  spec.target_flip_sign = {-1, 1, -1};
  if (augment) {  // the defaults of the configuration
    spec.hflip = true, spec.crop_scale = 0.8f, spec.brightness = spec.contrast = spec.saturation = 0.2f,
    spec.hue = 0.02f;
  }
  return spec;
}

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Reads bytes only, in random order, with one thread.
double read_loop(const Store& store, int64_t count) {
  const int64_t n = store.schema().samples;
  std::vector<std::byte> image(static_cast<size_t>(store.schema().input.row_bytes()));
  std::vector<float> target(3);
  const double time = seconds([&] {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t id = permuted(i % n, n, 1);
      store.read_input(id, image);
      store.read_target(id, std::as_writable_bytes(std::span(target)));
    }
  });
  return static_cast<double>(count) / time;
}

double loader(const Store& store, const std::vector<int64_t>& ids, int64_t count, int threads, bool augment) {
  LoaderOptions options;
  options.batch_size = options.global_batch = kBatch;
  options.threads = threads;
  Loader loader(store, ids, spec_of(store.schema().input.shape[0], augment), options, {0, 1});
  loader.next();  // the threads are running
  const int64_t batches = count / kBatch;
  int64_t seen = 0;
  const double time = seconds([&] {
    for (int64_t i = 0; i < batches; ++i) seen += loader.next().samples();
  });
  return static_cast<double>(seen) / time;
}

struct Variant {
  std::string name;
  std::function<double()> run;
  std::vector<double> rates = {};
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace
}  // namespace dtrain::data

int main(int argc, char** argv) {
  using namespace dtrain::data;
  const int rounds = argc > 2 ? std::max(1, std::stoi(argv[2])) : 7;
  std::string pattern = (std::filesystem::temp_directory_path() / "dtrain-bench-XXXXXX").string();
  const std::filesystem::path folder = ::mkdtemp(pattern.data());
  std::string json;
  std::printf("%-6s %-26s %12s %12s %10s\n", "side", "variant", "median /s", "best /s", "MB/s in");
  for (int64_t side : {64, 224}) {
    const int64_t samples = side == 64 ? 8192 : 1024, count = side == 64 ? 8192 : 512;
    const auto store = generated(folder / (std::to_string(side) + ".h5"), samples, side);
    const std::vector<int64_t> ids = store->split("train");
    std::vector<Variant> variants{{"read loop, 1 thread", [&] { return read_loop(*store, count); }}};
    for (bool augment : {false, true}) {
      for (int threads : {1, 2}) {
        variants.push_back({std::string("loader, ") + (augment ? "augmented, " : "plain, ") + std::to_string(threads) +
                                (threads == 1 ? " thread" : " threads"),
                            [&, threads, augment] { return loader(*store, ids, count, threads, augment); }});
      }
    }
    for (int round = 0; round < rounds; ++round) {
      for (Variant& variant : variants) variant.rates.push_back(variant.run());
    }
    for (const Variant& variant : variants) {
      const double middle = median(variant.rates), best = *std::max_element(variant.rates.begin(), variant.rates.end());
      std::printf("%-6ld %-26s %12.0f %12.0f %10.1f\n", static_cast<long>(side), variant.name.c_str(), middle, best,
                  middle * static_cast<double>(store->schema().input.row_bytes()) / 1e6);
      json += (json.empty() ? "" : ",\n ") + std::string("{\"side\": ") + std::to_string(side) + ", \"variant\": \"" +
              variant.name + "\", \"median_samples_per_second\": " + std::to_string(middle) +
              ", \"best_samples_per_second\": " + std::to_string(best) + ", \"rounds\": " + std::to_string(rounds) +
              "}";
    }
  }
  std::filesystem::remove_all(folder);
  if (argc > 1) std::ofstream(argv[1]) << "[" << json << "]\n";
  return 0;
}
