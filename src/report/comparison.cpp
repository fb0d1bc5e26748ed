// Two runs beside each other.

#include <algorithm>

#include "report/card.h"
#include "report/chart.h"
#include "report/curves.h"
#include "report/page.h"
#include "report/page_parts.h"
#include "text/printable.h"
#include "text/strings.h"
#include "text/text_table.h"

namespace dtrain::report {
namespace {

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

// What both columns of the summary say.
std::vector<Difference> summary(Known first, Known second) {
  std::vector<Difference> rows;
  const auto add = [&](const std::string& name, auto text_of) {
    rows.push_back({name, or_dash(text_of(first)), or_dash(text_of(second))});
  };
  add("run", [](Known k) { return k.run.folder.string(); });
  add("state", [](Known k) { return std::string(name_of(k.run.state)); });
  add("task", [](Known k) { return task_text(k.run); });
  add("ranks", [](Known k) { return ranks_text(k.run); });
  add("progress", [](Known k) { return progress_text(k.run, k.digest); });
  add("best", [](Known k) { return best_text(k.run); });
  add("samples/s", [](Known k) { return short_number(k.digest.samples_per_second); });
  add("ms per step", [](Known k) { return short_number(1e3 * k.digest.step_seconds); });
  for (size_t part = 0; part < kParts; ++part) {
    const auto share = [&](Known k) {
      return k.digest.seconds > 0 ? k.digest.parts[part] / k.digest.seconds : 0;
    };
    if (share(first) < 0.005 && share(second) < 0.005) continue;
    add(part_name(part), [&](Known k) { return fixed(100 * share(k), 1) + " %"; });
  }
  add("verdict", [](Known k) { return k.run.verdict.text; });
  return rows;
}

std::string judgments(const std::vector<Regression>& all, double limit) {
  std::string html = heading("Is the second run worse?") + "<ul>\n";
  for (const Regression& r : all) {
    const char* css = r.judgment == Judgment::kWorse  ? "bad"
                      : r.judgment == Judgment::kFine ? "good"
                                                      : "warn";
    html += str("<li class=\"", css, "\">", html_text(to_text(r, limit)), "</li>\n");
  }
  return html +
         "</ul>\n<p class=\"dim\">The noise is twice the standard error of the difference. Where "
         "it is larger than both the difference and the limit, the answer is not known.</p>\n";
}

std::string difference_rows(const std::vector<Difference>& all, const char* name) {
  Rows rows({name, "1", "2"}, /*left_columns=*/3, /*wrapped=*/2);
  for (const Difference& d : all)
    rows.add({html_text(d.key), html_text(or_dash(d.first)), html_text(or_dash(d.second))});
  return rows.html();
}

}  // namespace

std::vector<Difference> config_differences(const RunRecords& first, const RunRecords& second) {
  std::vector<Difference> all;
  const auto has = [](const RunRecords& run, const std::string& key) {
    return std::ranges::any_of(run.config, [&](const auto& value) { return value.first == key; });
  };
  for (const auto& [key, value] : first.config) {
    if (key.starts_with("run.")) continue;
    const std::string other = second.setting(key);
    if (value != other || !has(second, key)) all.push_back({key, value, other});
  }
  for (const auto& [key, value] : second.config) {
    if (!key.starts_with("run.") && !has(first, key)) all.push_back({key, "", value});
  }
  return all;
}

std::string comparison_text(Known first, Known second, const std::vector<Regression>& all,
                            double limit) {
  std::vector<TextRow> rows;
  for (const Difference& row : summary(first, second)) {
    if (row.key != "verdict") rows.push_back({row.key, row.first, row.second});
  }
  std::string text = text_table({"", "1", "2"}, rows, {Align::kLeft, Align::kLeft, Align::kLeft});
  const std::vector<Difference> differences = config_differences(first.run, second.run);
  rows.clear();
  for (const Difference& d : differences)
    rows.push_back({d.key, or_dash(d.first), or_dash(d.second)});
  text += differences.empty() ? "\nthe configurations are equal, but for run.*\n"
                              : "\n" + text_table({"configuration", "1", "2"}, rows,
                                                  {Align::kLeft, Align::kLeft, Align::kLeft});
  text += "\n";
  for (const Regression& r : all) text += "  " + printable(to_text(r, limit)) + "\n";
  return text;
}

std::string comparison_page(Known first, Known second, const std::vector<Regression>& all,
                            double limit, double now) {
  const std::string title = first.run.name + " and " + second.run.name;
  const std::string header =
      str("<h1>", html_text(title), "</h1>\n<p class=\"dim\">1 is ", html_text(first.run.name),
          ", 2 is ", html_text(second.run.name), ".</p>\n");
  std::string body =
      judgments(all, limit) + heading("Summary") + difference_rows(summary(first, second), "");
  if (const std::vector<LineChart> charts = common_curves(first.run, second.run); !charts.empty()) {
    body += heading("Curves") + "<div class=\"charts\">\n";
    for (const LineChart& chart : charts) body += line_chart(chart);
    body += "</div>\n";
  }
  const std::vector<Difference> differences = config_differences(first.run, second.run);
  body += heading("Configuration") + (differences.empty() ? "<p>Equal, but for run.*</p>\n"
                                                          : difference_rows(differences, "key"));
  for (const Known& known : {first, second}) {
    if (known.run.gaps.empty()) continue;
    body += heading("Left out of " + known.run.name) + bullets(known.run.gaps);
  }
  return page_of(title + " - dtrain", header, body, comparison_json(first, second, all, limit),
                 now);
}

}  // namespace dtrain::report
