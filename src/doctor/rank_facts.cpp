#include "doctor/rank_facts.h"

#include <cmath>
#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "core/error.h"
#include "text/library_text.h"
#include "text/strings.h"

namespace dtrain::doctor {
namespace {

using Json = nlohmann::ordered_json;

// Each struct lists its members once, for the writer and the reader: fields() calls `visit` with
// the name and the value of each.
#define DTRAIN_FIELD(member) visit(#member, facts.member);
#define DTRAIN_FIELDS(Struct, ...)                                       \
  template <typename Visitor>                                            \
  void fields(Visitor& visit, Struct& facts) {                           \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(DTRAIN_FIELD, __VA_ARGS__)) \
  }
DTRAIN_FIELDS(os::ProcessLimit, soft, hard)
DTRAIN_FIELDS(os::Facts, online_cores, allowed_cores, cpuset, cpu_quota, cpu_model, governor,
              scaling_driver, numa_nodes, memory, available_memory, memory_limit, memory_used, swap,
              free_swap, shared_memory, free_shared_memory, open_files, processes, locked_memory,
              file_size, address_space, process_limit, processes_used, threads_of_user,
              iommu_groups, iommu_passthrough, infiniband_devices, network_interfaces)
DTRAIN_FIELDS(os::PcieLink, width, card_width, slot_width, generation, card_generation, numa_node,
              near_cores)
DTRAIN_FIELDS(os::FileSystemFacts, type, mount_point, folder, network, read_only, writable, bytes,
              free_bytes, free_files)
DTRAIN_FIELDS(PeerFacts, bus_id, result, error)
DTRAIN_FIELDS(GpuFacts, name, uuid, bus_id, memory, used_memory, persistence, power_limit,
              default_power_limit, temperature, throttled_by, host_copy_rate, link, peers)
DTRAIN_FIELDS(NetworkFacts, parameters, model_bytes, optimizer_bytes, batch_bytes)
DTRAIN_FIELDS(RankFacts, rank, local_rank, local_size, host, node, resident_bytes, program,
              program_hash, versions, nccl, driver, keys, variables, clock_offset, clock_spread,
              port, port_problem, device, device_problem, visible_gpus, gpu, machine, threads,
              readers, other_cpu, stolen_cpu, data_file, data_problem, data_checksum, data_lock,
              data_system, run_system, run_lock, network, network_problem, network_refused)
#undef DTRAIN_FIELDS
#undef DTRAIN_FIELD

// Of a limit that is an infinite number, which JSON cannot write
constexpr const char* kInfinite = "none";

struct Writer {
  Json& out;

  static Json json(const std::string& value) { return value; }
  static Json json(double value) { return std::isfinite(value) ? Json(value) : Json(kInfinite); }
  template <std::integral T>
  static Json json(T value) {
    return value;
  }
  static Json json(const std::map<std::string, std::string>& value) { return value; }
  template <typename T>
  static Json json(const std::optional<T>& value) {
    return value ? json(*value) : Json();
  }
  template <typename T>
  static Json json(const std::vector<T>& values) {
    Json list = Json::array();
    for (const T& value : values) list.push_back(json(value));
    return list;
  }
  template <typename T>
  requires std::is_aggregate_v<T>
  static Json json(T value) {
    Json object = Json::object();
    Writer writer{object};
    fields(writer, value);
    return object;
  }

  template <typename T>
  void operator()(const char* name, const T& value) {
    out[name] = json(value);
  }
};

struct Reader {
  const Json& in;

  static void read(const Json& json, std::string& value) { json.get_to(value); }
  static void read(const Json& json, double& value) {
    value = json.is_string() ? std::numeric_limits<double>::infinity() : json.get<double>();
  }
  template <std::integral T>
  static void read(const Json& json, T& value) {
    json.get_to(value);
  }
  static void read(const Json& json, std::map<std::string, std::string>& value) {
    json.get_to(value);
  }
  template <typename T>
  static void read(const Json& json, std::optional<T>& value) {
    if (json.is_null()) {
      value.reset();
      return;
    }
    read(json, value.emplace());
  }
  template <typename T>
  static void read(const Json& json, std::vector<T>& values) {
    values.clear();
    for (const Json& item : json) read(item, values.emplace_back());
  }
  template <typename T>
  requires std::is_aggregate_v<T>
  static void read(const Json& json, T& value) {
    Reader reader{json};
    fields(reader, value);
  }

  template <typename T>
  void operator()(const char* name, T& value) {
    read(in.at(name), value);
  }
};

}  // namespace

std::string to_json(const RankFacts& facts) {
  return Writer::json(facts).dump(-1, ' ', false, Json::error_handler_t::replace);
}

RankFacts rank_facts_from_json(const std::string& text) {
  RankFacts facts;
  try {
    Reader::read(Json::parse(text), facts);
  } catch (const Json::exception& error) {
    throw Error(str("the facts of a rank cannot be read: ", json_defect(error.what())));
  }
  return facts;
}

}  // namespace dtrain::doctor
