#include "monitoring/signpost_page.h"

#include <mutex>
#include <utility>

#include "text/printable.h"
#include "text/strings.h"

namespace dtrain::monitoring {

struct SignpostPage::State {
  std::string begin;  // HTML
  std::mutex mutex;
  // HTML
  std::string where = "The run is starting, and its page is not known yet: reload this page.";
};

SignpostPage::SignpostPage(const std::string& run, int rank) : state_(std::make_shared<State>()) {
  const std::string title = str("rank ", rank, " of ", html_text(run));
  state_->begin =
      str("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" "
          "href=\"data:,\">\n<title>",
          title, "</title>\n<h1>", title,
          "</h1>\n<p>This is the endpoint of one rank. Its numbers are at <a "
          "href=\"metrics\">metrics</a>.</p>\n<p>");
}

Page SignpostPage::page() const {
  return {"/", "text/html; charset=utf-8", [state = state_](const Query&) {
            const std::lock_guard lock(state->mutex);
            return state->begin + state->where + "</p>\n</html>\n";
          }};
}

void SignpostPage::point_to(const std::string& address) {
  const std::string name = html_text(address);
  std::string where =
      address.empty()
          ? "Rank 0 has no endpoint, so that this run has no page: see its log.txt."
          : str("The page of the run is at rank 0: <a href=\"http://", name, "/\">", name, "</a>");
  const std::lock_guard lock(state_->mutex);
  state_->where = std::move(where);
}

}  // namespace dtrain::monitoring
