#pragma once

// Documents whose tables come from the program: each stands between the lines
// `<!-- table: NAME -->` and `<!-- end of table -->`. Pure.

#include <functional>
#include <string>
#include <string_view>

namespace dtrain {

// The document with each table written again by `table_named`. DataError: a table has no end.
std::string with_tables(std::string_view document,
                        const std::function<std::string(std::string_view name)>& table_named);

}  // namespace dtrain
