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
#define F(member) visit(#member, facts.member)
#define DTRAIN_FIELDS(Struct, ...)             \
  template <typename Visitor>                  \
  void fields(Visitor& visit, Struct& facts) { \
    __VA_ARGS__;                               \
  }
DTRAIN_FIELDS(os::ProcessLimit, F(soft), F(hard))
DTRAIN_FIELDS(os::Facts, F(online_cores), F(allowed_cores), F(cpuset), F(cpu_quota), F(cpu_model),
              F(governor), F(scaling_driver), F(numa_nodes), F(memory), F(available_memory),
              F(memory_limit), F(memory_used), F(swap), F(free_swap), F(shared_memory),
              F(free_shared_memory), F(open_files), F(processes), F(locked_memory), F(file_size),
              F(address_space), F(process_limit), F(processes_used), F(threads_of_user),
              F(iommu_groups), F(iommu_passthrough), F(infiniband_devices), F(network_interfaces))
DTRAIN_FIELDS(os::PcieLink, F(width), F(card_width), F(slot_width), F(generation),
              F(card_generation), F(numa_node), F(near_cores))
DTRAIN_FIELDS(os::FileSystemFacts, F(type), F(mount_point), F(folder), F(network), F(read_only),
              F(writable), F(bytes), F(free_bytes), F(free_files))
DTRAIN_FIELDS(PeerFacts, F(bus_id), F(result), F(error))
DTRAIN_FIELDS(GpuFacts, F(name), F(uuid), F(bus_id), F(memory), F(used_memory), F(persistence),
              F(power_limit), F(default_power_limit), F(temperature), F(throttled_by),
              F(host_copy_rate), F(link), F(peers))
DTRAIN_FIELDS(NetworkFacts, F(parameters), F(model_bytes), F(optimizer_bytes), F(batch_bytes))
DTRAIN_FIELDS(RankFacts, F(rank), F(local_rank), F(local_size), F(host), F(node), F(resident_bytes),
              F(program), F(program_hash), F(versions), F(nccl), F(driver), F(keys), F(variables),
              F(clock_offset), F(clock_spread), F(port), F(port_problem), F(device),
              F(device_problem), F(visible_gpus), F(gpu), F(machine), F(threads), F(readers),
              F(other_cpu), F(stolen_cpu), F(data_file), F(data_problem), F(data_checksum),
              F(data_lock), F(data_system), F(run_system), F(run_lock), F(network),
              F(network_problem), F(network_refused))
#undef DTRAIN_FIELDS
#undef F

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
