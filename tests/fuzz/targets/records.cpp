#include <cstdlib>

#include "config/differences.h"
#include "fuzz/target.h"
#include "report/add_records.h"
#include "report/card.h"
#include "report/page.h"
#include "text/utf8.h"

// metrics.jsonl of a run, and everything that a report says of it.

std::vector<std::string> dtrain::testing::example_inputs() {
  const std::string step =
      R"({"kind":"step","time":1000,"step":1,"epoch":0,"loss":0.5,"learning_rate":1e-3,)"
      R"("grad_norm":null,"samples_per_second":9,)"
      R"("step_seconds":0.1,"other_seconds":0.01,"phase_seconds":{"forward":0.05,"backward":0.04},)"
      R"("ranks":[{"rank":0,"phase_seconds":)"
      R"({"forward":0.05},"loader":{"queue":0.5},"cpu":{"cores":1},"gpu":{"utilization":0.5}}]})";
  const std::string evaluation =
      R"({"kind":"eval","step":1,"split":"val","metrics":{"loss":1,"top1":0.5},)"
      R"("tables":[{"name":"confusion","columns":["a","b"],)"
      R"("rows":["a","b"],"cells":[[1,2],[3,null]]},{"name":"share of samples","columns":["0-1"],)"
      R"("rows":["x"],"cells":[[1]]}],"samples":9})";
  const std::string verdict =
      R"({"kind":"verdict","step":1,"text":"verdict: data-bound","causes":[{"cause":"decode",)"
      R"("rank":1,"gain":0.3}],"not_measured":["copy"]})";
  return {step + "\n" + evaluation + "\n" + verdict + "\n",
          R"({"kind":"state","state":"finished"})"
          "\n",
          "task:\n  name: headpose\n"};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dtrain;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  report::RunRecords run;
  run.config = config::values_in(text);
  report::add_records(run, text);
  const report::Digest digest = report::digest(run);
  const std::string page = report::page(run, digest, {}, 0);
  const bool is_text = is_utf8(page) && is_utf8(report::card(run, digest, 0));
  if (!is_text || page.find("<script>") != std::string::npos) std::abort();
  return 0;
}
