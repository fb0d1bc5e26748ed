#pragma once

// An enum whose values people read and write by name, in a configuration, a file or a message. The
// names are listed once, beside the enum and in the order of its values, which count from 0:
//
//   enum class Backend { kAuto, kNccl, kStaged, kMpi };
//   constexpr auto names_of(Backend) { return names("auto", "nccl", "staged", "mpi"); }
//
// str() prints such a value by its name.

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <type_traits>

namespace dtrain {

template <typename... Names>
constexpr std::array<std::string_view, sizeof...(Names)> names(const Names&... all) {
  return {std::string_view(all)...};
}

template <typename E>
concept NamedEnum = std::is_enum_v<E> && requires(E value) {
  std::string_view(names_of(value)[0]);
};

template <NamedEnum E>
constexpr std::string_view name_of(E value) {
  return names_of(value)[static_cast<size_t>(value)];
}

// The value of that name; none if there is none.
template <NamedEnum E>
constexpr std::optional<E> value_named(std::string_view name) {
  size_t i = 0;
  for (const std::string_view known : names_of(E{})) {
    if (known == name) return static_cast<E>(i);
    ++i;
  }
  return std::nullopt;
}

}  // namespace dtrain
