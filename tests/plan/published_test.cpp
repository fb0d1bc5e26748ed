// The forecast against published throughputs (published.json): docs/planning.md shows what
// this prints.
//   build/tests/plan/plan_test --gtest_filter='Published.*'

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/spread.h"
#include "dist/buckets.h"
#include "plan/forecast.h"
#include "text/strings.h"

namespace dtrain::plan {
namespace {

using Json = nlohmann::json;

// The buckets that dtrain would send. A part of the network is ready when backward has done the
// multiply-adds of it and of all parts behind it.
std::vector<TimedBucket> buckets_of(const Json& network) {
  std::vector<dist::ParamInfo> parameters;
  double all = 0;
  for (const Json& part : network) {
    parameters.push_back({part[1].get<int64_t>()});
    all += part[2].get<double>();
  }
  std::vector<TimedBucket> buckets;
  for (const dist::Bucket& bucket : dist::plan_buckets(parameters, 25 << 20, 1 << 20)) {
    double done = 0;
    for (size_t i = bucket.params.back(); i < network.size(); ++i)
      done += network[i][2].get<double>();
    buckets.push_back({4.0 * static_cast<double>(bucket.elements), done / all});
  }
  return buckets;
}

struct Row {
  std::string network;
  int64_t batch = 0, ranks = 0;
  double published = 0, predicted = 0;  // efficiency in percent
  double error() const { return predicted - published; }
};

struct Table {
  std::string name;
  std::vector<Row> rows = {};
};

// Nothing but the rate of one GPU is taken from a row: a third of its step is forward, the
// rest backward.
double predicted_efficiency(const Json& networks, const Json& table, const Json& row) {
  const Interconnect links =
      parse_interconnect(table["interconnect"].get<std::string>(), nullptr, /*gpus=*/true);
  const double step = row[1].get<double>() / row[2].get<double>();
  const MeasuredRun run{.source = "published",
                        .network = row[0].get<std::string>(),
                        .precision = "",
                        .device = "cuda:0",
                        .data = "",
                        .batches = {{.samples = row[1].get<int64_t>(),
                                     .forward = step / 3,
                                     .backward = 2 * step / 3}},
                        .buckets = buckets_of(networks[row[0].get<std::string>()])};
  const Assumptions assumptions{.fabric = {.inside = links.inside,
                                           .between = links.between,
                                           .ranks_per_node = table["ranks_per_node"].get<int64_t>(),
                                           .library = Library::kNccl},
                                .contention = contention_of(Library::kNccl),
                                .overlaps = table.value("overlaps", true)};
  const std::vector<int64_t> micro = {row[1].get<int64_t>()};
  return 100 * step / forecast_step(run, assumptions, row[3].get<int64_t>(), micro).total();
}

std::vector<Table> tables() {
  const Json file = Json::parse(std::ifstream(PUBLISHED_FILE));
  std::vector<Table> all;
  for (const Json& table : file["tables"]) {
    Table made{.name = table["name"].get<std::string>()};
    for (const Json& row : table["rows"]) {
      const double published =
          100 * row[4].get<double>() / (row[3].get<double>() * row[2].get<double>());
      made.rows.push_back({row[0].get<std::string>(), row[1].get<int64_t>(), row[3].get<int64_t>(),
                           published, predicted_efficiency(file["networks"], table, row)});
    }
    all.push_back(std::move(made));
  }
  return all;
}

std::vector<double> absolute_errors(const Table& table) {
  std::vector<double> errors;
  for (const Row& row : table.rows) errors.push_back(std::abs(row.error()));
  return errors;
}

std::string signed_text(double value) {
  return str(value < 0 ? "−" : "+", fixed(std::abs(value), 1));
}

void print(const std::vector<Table>& all) {
  std::cout
      << "| published | network | batch of a GPU | GPUs | efficiency % | predicted % | error |\n"
         "|---|---|---|---|---|---|---|\n";
  for (const Table& table : all) {
    for (const Row& row : table.rows) {
      std::cout << "| " << (&row == &table.rows.front() ? table.name : "") << " | " << row.network
                << " | " << row.batch << " | " << row.ranks << " | " << fixed(row.published, 1)
                << " | " << fixed(row.predicted, 1) << " | " << signed_text(row.error()) << " |\n";
    }
  }
  std::cout << "\n| published | rows | median error, points | largest |\n|---|---|---|---|\n";
  for (const Table& table : all) {
    const std::vector<double> errors = absolute_errors(table);
    std::cout << "| " << table.name << " | " << errors.size() << " | "
              << fixed(median_of(errors), 1) << " | "
              << fixed(*std::max_element(errors.begin(), errors.end()), 1) << " |\n";
  }
}

TEST(Published, NetworksHaveTheirKnownParameters) {
  const Json networks = Json::parse(std::ifstream(PUBLISHED_FILE))["networks"];
  const std::vector<std::pair<const char*, int64_t>> known = {
      {"resnet50", 25'557'032},   {"resnet101", 44'549'160}, {"resnext50", 25'028'904},
      {"resnext101", 88'791'336}, {"vgg16", 138'357'544},    {"inception3", 23'834'568}};
  for (const auto& [name, parameters] : known) {
    int64_t sum = 0;
    for (const Json& part : networks[name]) sum += part[1].get<int64_t>();
    EXPECT_EQ(sum, parameters) << name;
  }
}

TEST(Published, ForecastsAreAsCloseAsTheDocumentSays) {
  const std::vector<Table> all = tables();
  print(all);
  std::vector<double> errors;
  for (const Table& table : all) {
    for (const double error : absolute_errors(table)) errors.push_back(error);
  }
  const auto close =
      std::count_if(errors.begin(), errors.end(), [](double error) { return error <= 5; });
  std::cout << "\nall: " << errors.size() << " rows, median error " << fixed(median_of(errors), 1)
            << " points, " << close << " within 5\n";
  ASSERT_EQ(errors.size(), 87u);
  EXPECT_EQ(fixed(median_of(errors), 1), "2.5");
  EXPECT_EQ(close, 62);
}

// The forecast ranks clusters and networks as the published runs do, where these differ by more
// than its usual error.
TEST(Published, OrderIsKept) {
  int pairs = 0, wrong = 0;
  for (const Table& a : tables()) {
    for (const Row& one : a.rows) {
      for (const Row& other : a.rows) {
        if (one.published < other.published + 10) continue;
        ++pairs;
        wrong += one.predicted < other.predicted;
      }
    }
  }
  EXPECT_GT(pairs, 300);
  EXPECT_LE(wrong, pairs / 20);
}

}  // namespace
}  // namespace dtrain::plan
