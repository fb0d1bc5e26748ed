#include "report/page.h"

#include <algorithm>
#include <cmath>

#include "report/card.h"
#include "report/chart.h"
#include "report/curves.h"
#include "report/page_parts.h"
#include "text/printable.h"
#include "text/strings.h"

namespace dtrain::report {
namespace {

constexpr size_t kMostRankRows = 64, kMostClassRows = 24, kMostConfused = 20, kLargestMap = 30;

std::string ms(double seconds) { return std::isnan(seconds) ? "-" : fixed(1e3 * seconds, 1); }
std::string percent(double share, int digits = 1) {
  return std::isnan(share) ? "-" : fixed(100 * share, digits) + " %";
}

// ---- the head -----------------------------------------------------------------------------------
std::string header(const RunRecords& run) {
  const char* css = run.state == RunState::kFinished || run.state == RunState::kRunning  ? "good"
                    : run.state == RunState::kStopped || run.state == RunState::kNothing ? "warn"
                                                                                         : "bad";
  std::string html = str("<h1>", html_text(run.name), " <span class=\"state ", css, "\">",
                         run.state, "</span></h1>\n");
  for (const std::string& line : {task_text(run), data_text(run),
                                  ranks_text(run).empty() ? "" : "ranks: " + ranks_text(run)}) {
    if (!line.empty()) html += str("<p class=\"dim\">", html_text(line), "</p>\n");
  }
  if (!run.reason.empty() && run.state != RunState::kRunning)
    html += str("<p class=\"dim\">ended: ", html_text(run.reason), "</p>\n");
  return html;
}

std::string tiles(const RunRecords& run, const Digest& digest) {
  std::string html = "<dl class=\"tiles\">\n";
  const auto tile = [&](const std::string& name, const std::string& value) {
    if (!value.empty())
      html += str("<div><dt>", html_text(name), "</dt><dd>", html_text(value), "</dd></div>\n");
  };
  if (!std::isnan(run.best_value)) {
    tile(str("best val ", run.best_metric, run.best_step < 0 ? "" : str(", step ", run.best_step)),
         fixed(run.best_value, 4));
  }
  const double test =
      digest.last_test == nullptr ? kUnknown : digest.last_test->metric(run.best_metric);
  if (!std::isnan(test)) tile("test " + run.best_metric, fixed(test, 4));
  if (!std::isnan(digest.samples_per_second))
    tile("samples/s", fixed(digest.samples_per_second, 1));
  if (!std::isnan(digest.step_seconds)) tile("ms per step", ms(digest.step_seconds));
  if (!std::isnan(digest.joules_per_sample))
    tile("J per sample", short_number(digest.joules_per_sample));
  if (digest.planned_epochs > 0)
    tile("epochs", str(fixed(digest.epochs, digest.epochs == std::floor(digest.epochs) ? 0 : 1),
                       " of ", digest.planned_epochs));
  if (digest.step > 0)
    tile("steps", digest.planned_steps > 0 ? str(digest.step, " of ", digest.planned_steps)
                                           : str(digest.step));
  if (digest.seconds > 0) tile("duration", human_duration(digest.seconds));
  if (digest.memory_bytes > 0) tile("memory, at most", human_bytes(digest.memory_bytes));
  return html + "</dl>\n";
}

// ---- sections -----------------------------------------------------------------------------------
std::string verdict_section(const RunRecords& run, const Digest& digest) {
  std::string html = heading("Verdict");
  const monitoring::VerdictRecord& verdict = run.verdict;
  html +=
      str("<p class=\"verdict\">",
          verdict.text.empty() ? "There is no verdict yet." : html_text(verdict.text), "</p>\n");
  if (!verdict.causes.empty()) {
    Rows rows({"cause", "rank", "predicted gain", "setting", "evidence"}, /*left_columns=*/5);
    for (const monitoring::VerdictRecord::Cause& cause : verdict.causes) {
      const std::string setting =
          cause.setting.empty() ? "" : "<code>" + html_text(cause.setting) + "</code> ";
      const std::string gain =
          std::isnan(cause.gain)
              ? "-"
              : "+" + percent(cause.gain, 0) +
                    (std::isnan(cause.error) ? "" : " ± " + fixed(100 * cause.error, 0));
      rows.add({html_text(cause.name), cause.rank < 0 ? "-" : str(cause.rank), gain,
                setting + html_text(cause.otherwise), html_text(cause.evidence)});
    }
    html += rows.html();
  }
  if (const std::string split = monitoring::text_of(verdict.communication); !split.empty()) {
    html += str("<p>", html_text(split), "</p>\n");
  }
  if (const std::string probes = monitoring::text_of(verdict.probes); !probes.empty()) {
    html += str("<p class=\"dim\">", html_text(probes), "</p>\n");
  }
  if (!std::isnan(digest.load_balance) && digest.ranks.size() > 1) {
    html +=
        str("<p>Load balance ", percent(digest.load_balance),
            " <span class=\"dim\">(the mean computing time of a rank ÷ the longest)</span></p>\n");
  }
  if (!verdict.not_measured.empty()) {
    html +=
        "<p class=\"dim\">Not measured:</p>\n" + bullets(verdict.not_measured, " class=\"dim\"");
  }
  return html;
}

std::string time_section(const RunRecords& run, const Digest& digest) {
  if (digest.seconds <= 0) return "";
  std::vector<double> shares;
  std::vector<std::string> names;
  Rows rows({"part", "share", "time"});
  for (size_t i = 0; i < kParts; ++i) {
    shares.push_back(digest.parts[i] / digest.seconds);
    names.emplace_back(part_name(i));
    if (shares.back() >= 0.0005)
      rows.add(
          {part_key(i) + names.back(), percent(shares.back()), human_duration(digest.parts[i])});
  }
  std::string bar = share_bar(shares, names);
  bar.replace(0, std::string_view("<svg class=\"bar\"").size(), "<svg class=\"bar tall\"");
  return heading("Where the time went") + bar + "\n<div class=\"charts\">\n<div>" + rows.html() +
         "</div>\n" + area_chart(parts_over_time(run)) +
         "</div>\n<p class=\"dim\">Of rank 0. The chart has means of the steps between two step "
         "lines, which leave out evaluations and the saves of best checkpoints.</p>\n";
}

std::string charts_section(const std::string& title, const std::vector<LineChart>& charts) {
  if (charts.empty()) return "";
  std::string html = heading(title) + "<div class=\"charts\">\n";
  for (const LineChart& chart : charts) html += line_chart(chart);
  return html + "</div>\n";
}

std::string rank_name(const RunRecords& run, int64_t rank) {
  const std::vector<RecordedRank>& places = run.environment.ranks;
  if (rank >= static_cast<int64_t>(places.size())) return "";
  const RecordedRank& place = places[static_cast<size_t>(rank)];
  return place.node + (place.device.empty() ? "" : ", " + place.device);
}

// "1.9 of 4": how many of the cores that a rank may use its threads kept busy.
std::string cores_text(const RankDigest& rank) {
  if (std::isnan(rank.cores_busy)) return "-";
  return fixed(rank.cores_busy, 1) + (rank.values.knows(Quantity::kCores)
                                          ? " of " + short_number(rank.values[Quantity::kCores])
                                          : "");
}

std::string ranks_section(const RunRecords& run, const Digest& digest) {
  if (run.environment.world_size == 0 && digest.ranks.empty()) return "";
  std::string html = heading("Ranks and devices");
  if (digest.ranks.empty()) {
    Rows rows({"rank", "host and device", "memory", "cores", "threads", "reader threads"},
              /*left_columns=*/2);
    for (size_t i = 0; i < run.environment.ranks.size() && i < kMostRankRows; ++i) {
      const RecordedRank& place = run.environment.ranks[i];
      rows.add({str(i), html_text(rank_name(run, static_cast<int64_t>(i))),
                human_bytes(place.memory_bytes), str(place.cores), str(place.threads),
                str(place.loader_threads)});
    }
    return html + rows.html() +
           "<p class=\"dim\">The records of this run have no times of single ranks.</p>\n";
  }
  double longest = 0;
  for (const RankDigest& rank : digest.ranks) {
    double sum = 0;
    for (const double seconds : rank.seconds) sum += seconds;
    longest = std::max(longest, sum);
  }
  const bool gpu = std::ranges::any_of(
      digest.ranks, [](const auto& r) { return r.values.knows(Quantity::kGpuUtilization); });
  std::vector<std::string> names, titles = {"rank",         "host and device",   "a step",
                                            "computing ms", "waits for data ms", "communication ms",
                                            "other ms",     "queue full",        "cores busy",
                                            "memory"};
  if (gpu) titles.insert(titles.end(), {"GPU busy", "power W", "°C"});
  for (size_t i = 0; i < kParts; ++i) names.emplace_back(part_name(i));
  Rows rows(titles, /*left_columns=*/2);
  for (const RankDigest& rank : digest.ranks) {
    if (rows.size() == kMostRankRows) break;
    std::vector<double> shares;
    for (const double seconds : rank.seconds) shares.push_back(longest > 0 ? seconds / longest : 0);
    std::vector<std::string> cells = {
        str(rank.rank),
        html_text(rank_name(run, rank.rank)),
        share_bar(shares, names),
        ms(rank.computing),
        ms(rank.seconds[0]),
        ms(rank.seconds[4]),
        ms(rank.seconds.back()),
        percent(rank.values[Quantity::kQueue], 0),
        cores_text(rank),
        rank.values.knows(Quantity::kMemory) ? human_bytes(rank.values[Quantity::kMemory]) : "-"};
    if (gpu)
      cells.insert(cells.end(), {percent(rank.values[Quantity::kGpuUtilization], 0),
                                 short_number(rank.values[Quantity::kGpuPower]),
                                 short_number(rank.values[Quantity::kGpuTemperature])});
    rows.add(cells);
  }
  html += rows.html();
  const auto shown = static_cast<int64_t>(rows.size());
  if (run.environment.world_size > shown) {
    html +=
        str("<p class=\"dim\">", shown, " of ", run.environment.world_size,
            " ranks: with more than 64, the records have the slowest ones of each moment.</p>\n");
  }
  return html;
}

std::string slow_section(const Digest& digest) {
  if (digest.slow.empty()) return "";
  Rows rows({"steps", "ms per step", "usual ms", "longer mostly in"});
  for (const SlowWindow& slow : digest.slow) {
    rows.add({slow.first == slow.last ? str(slow.last) : str(slow.first, " to ", slow.last),
              ms(slow.step_seconds), ms(slow.usual_seconds), slow.cause});
  }
  return heading("Slowest steps") + rows.html() +
         "<p class=\"dim\">The slowest step of those between two step lines, of the rank that took "
         "longest for it (of older runs the mean of these steps); usual: the median of all "
         "means.</p>\n";
}

// The pairs that are confused most often, for a matrix that is too large to be read as a picture.
std::string confused_pairs(const Table& table) {
  struct Pair {
    double count;
    size_t row, column;
  };
  std::vector<Pair> pairs;
  for (size_t row = 0; row < table.rows.size(); ++row) {
    for (size_t column = 0; column < table.columns.size(); ++column) {
      if (row != column && table.cells[row][column] > 0)
        pairs.push_back({table.cells[row][column], row, column});
    }
  }
  std::ranges::stable_sort(pairs, [](const Pair& a, const Pair& b) { return a.count > b.count; });
  pairs.resize(std::min(pairs.size(), kMostConfused));
  Rows rows({"target", "taken for", "samples"}, 2);
  for (const Pair& pair : pairs)
    rows.add({html_text(table.rows[pair.row]), html_text(table.columns[pair.column]),
              short_number(pair.count)});
  return "<div><h3>Most often confused</h3>" + rows.html() + "</div>\n";
}

std::string number_table(const Table& table) {
  std::vector<std::string> titles = {""};
  for (const std::string& column : table.columns) titles.push_back(html_text(column));
  std::vector<size_t> order(table.rows.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto f1 = std::ranges::find(table.columns, "f1");
  const bool too_many = order.size() > kMostClassRows;
  if (too_many && f1 != table.columns.end()) {
    const auto column = static_cast<size_t>(f1 - table.columns.begin());
    const auto value = [&](size_t row) {
      return std::isnan(table.cells[row][column]) ? 2 : table.cells[row][column];
    };
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return value(a) < value(b); });
  }
  Rows rows(titles);
  for (const size_t row : order) {
    if (rows.size() == kMostClassRows) break;
    std::vector<std::string> cells = {html_text(table.rows[row])};
    for (const double cell : table.cells[row]) cells.push_back(short_number(cell));
    rows.add(cells);
  }
  const std::string note =
      too_many ? str("<p class=\"dim\">The ", kMostClassRows, " worst of ", order.size(), ".</p>\n")
               : "";
  return str("<div><h3>", html_text(table.name), "</h3>", rows.html(), note, "</div>\n");
}

std::string table_picture(const Table& table) {
  if (table.rows == table.columns)
    return table.rows.size() <= kLargestMap ? heat_map(table) + confused_pairs(table)
                                            : confused_pairs(table);
  const bool is_histogram = table.name.find("share of samples") != std::string::npos &&
                            table.rows.size() <= 6 && table.columns.size() <= 60;
  return is_histogram ? bar_chart(table) : number_table(table);
}

std::string results_section(const Digest& digest) {
  const RecordedEvaluation* shown =
      digest.last_test != nullptr ? digest.last_test : digest.last_val;
  if (shown == nullptr) return "";
  std::string html = heading("Results");
  Rows rows({"metric", "validation", "test"});
  for (const auto& [name, value] : shown->metrics) {
    const double val = digest.last_val == nullptr ? kUnknown : digest.last_val->metric(name);
    const double test = digest.last_test == nullptr ? kUnknown : digest.last_test->metric(name);
    rows.add({html_text(name), short_number(val), short_number(test)});
  }
  html +=
      str("<div class=\"charts\">\n<div>", rows.html(), "<p class=\"dim\">",
          digest.last_val == nullptr ? ""
                                     : str("Validation: step ", digest.last_val->step, ", ",
                                           human_count(digest.last_val->samples), " samples. "),
          digest.last_test == nullptr ? ""
                                      : str("Test: step ", digest.last_test->step, ", ",
                                            human_count(digest.last_test->samples), " samples."),
          "</p></div>\n");
  for (const Table& table : shown->tables) html += table_picture(table);
  return html + "</div>\n";
}

std::string sheet_section(const ContactSheet& sheet) {
  if (sheet.samples.empty()) return "";
  std::string html =
      heading("Samples") + str("<p class=\"dim\">", html_text(sheet.caption), "</p>\n");
  const bool pictures =
      std::ranges::any_of(sheet.samples, [](const ShownSample& s) { return !s.picture.empty(); });
  if (!pictures) {
    Rows rows({"sample", "target", "prediction", "error"}, 3);
    for (const ShownSample& s : sheet.samples)
      rows.add(
          {html_text(s.name), html_text(s.target), html_text(s.prediction), short_number(s.error)});
    return html + rows.html();
  }
  html += "<div class=\"sheet\">\n";
  for (const ShownSample& s : sheet.samples) {
    html += str("<figure><img src=\"", html_text(s.picture), "\" alt=\"", html_text(s.name),
                "\"><figcaption>", "is ", html_text(s.target), "<br>predicted ",
                html_text(s.prediction),
                std::isnan(s.error) ? "" : "<br>error " + short_number(s.error),
                "</figcaption></figure>\n");
  }
  return html + "</div>\n";
}

std::string setup_section(const RunRecords& run) {
  std::string html = heading("Setup");
  Rows facts({"", ""}, 2);
  const auto fact = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) facts.add({name, html_text(value)});
  };
  const Environment& e = run.environment;
  fact("versions", e.versions);
  fact("precision", e.precision);
  fact("communicator", e.communicator);
  fact("config hash", e.config_hash);
  fact("resumed", e.resumed);
  std::string checkpoints;
  for (const CheckpointFolder& c : run.checkpoints)
    checkpoints += str(checkpoints.empty() ? "" : ", ", c.name, " (",
                       human_bytes(static_cast<double>(c.bytes)), ")");
  fact("checkpoints", checkpoints);
  if (run.saves > 0)
    fact("saving", str(run.saves, run.saves == 1 ? " save took " : " saves took ",
                       human_duration(run.save_seconds)));
  html += facts.html_without_head();
  if (run.config.empty()) return html;
  std::string values;
  for (const auto& [key, value] : run.config)
    values += html_text(key) + ": " + html_text(value) + "\n";
  return html + "<details><summary>configuration</summary>\n<pre class=\"scroll\">" + values +
         "</pre></details>\n";
}

}  // namespace

std::string page(const RunRecords& run, const Digest& digest, const ContactSheet& sheet,
                 double now) {
  const std::string body =
      tiles(run, digest) + verdict_section(run, digest) + time_section(run, digest) +
      charts_section("Learning", learning_curves(run)) + charts_section("Steps", step_curves(run)) +
      ranks_section(run, digest) + slow_section(digest) + results_section(digest) +
      sheet_section(sheet) + setup_section(run) +
      (run.gaps.empty() ? "" : heading("Left out") + bullets(run.gaps));
  return page_of(run.name + " - dtrain", header(run), body, report_json(run, digest, sheet), now);
}

}  // namespace dtrain::report
