#pragma once

// The page "/" of the ranks other than 0: it says where the page of the run is. A rank serves
// before it knows the address of rank 0, and until then the page says so.
//
// Thread-safety: any thread.

#include <memory>
#include <string>

#include "monitoring/http_pages.h"

namespace dtrain::monitoring {

class SignpostPage {
 public:
  SignpostPage(const std::string& run, int rank);

  Page page() const;  // stays valid after the SignpostPage is destroyed

  // The address of rank 0's endpoint, such as "127.0.0.1:9500"; "": it has none.
  void point_to(const std::string& address);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace dtrain::monitoring
