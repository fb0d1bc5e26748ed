# Writes the text of files as a C++ source: a function that finds it by the file's name without its extension.
# cmake -DOUT=FILE.cpp -DHEADER=config/load.h -DNAMESPACE=dtrain::config -DFUNCTION=embedded "-DFILES=a.yaml;b.yaml" -P embed.cmake
set(entries "")
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME_WE)
  file(READ "${file}" text)
  string(APPEND entries "  if (name == \"${name}\") return R\"embedded(${text})embedded\";\n")
endforeach()
file(WRITE "${OUT}" "// Made by cmake/embed.cmake.
#include \"${HEADER}\"

namespace ${NAMESPACE} {

std::optional<std::string_view> ${FUNCTION}(std::string_view name) {
${entries}  return std::nullopt;
}

}  // namespace ${NAMESPACE}
")
