# cmake -DOUT=embedded_configs.cpp "-DFILES=a.yaml;b.yaml" -P embed.cmake: the files' text as a C++ source.
set(entries "")
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME_WE)
  file(READ "${file}" text)
  string(APPEND entries "  if (name == \"${name}\") return R\"yaml(${text})yaml\";\n")
endforeach()
file(WRITE "${OUT}" "// Made by src/config/embed.cmake from configs/*.yaml.
#include \"config/load.h\"

namespace dtrain::config {

std::optional<std::string_view> embedded(std::string_view name) {
${entries}  return std::nullopt;
}

}  // namespace dtrain::config
")
