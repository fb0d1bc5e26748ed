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

// Each struct lists its fields once, for the writer and the reader.
template <typename Visitor>
void fields(Visitor& v, os::ProcessLimit& f) {
  v("soft", f.soft);
  v("hard", f.hard);
}

template <typename Visitor>
void fields(Visitor& v, os::Facts& f) {
  v("online_cores", f.online_cores);
  v("allowed_cores", f.allowed_cores);
  v("cpuset", f.cpuset);
  v("cpu_quota", f.cpu_quota);
  v("cpu_model", f.cpu_model);
  v("governor", f.governor);
  v("scaling_driver", f.scaling_driver);
  v("numa_nodes", f.numa_nodes);
  v("memory", f.memory);
  v("available_memory", f.available_memory);
  v("memory_limit", f.memory_limit);
  v("memory_used", f.memory_used);
  v("swap", f.swap);
  v("free_swap", f.free_swap);
  v("shared_memory", f.shared_memory);
  v("free_shared_memory", f.free_shared_memory);
  v("open_files", f.open_files);
  v("processes", f.processes);
  v("locked_memory", f.locked_memory);
  v("file_size", f.file_size);
  v("address_space", f.address_space);
  v("process_limit", f.process_limit);
  v("processes_used", f.processes_used);
  v("threads_of_user", f.threads_of_user);
  v("iommu_groups", f.iommu_groups);
  v("iommu_passthrough", f.iommu_passthrough);
  v("infiniband_devices", f.infiniband_devices);
  v("network_interfaces", f.network_interfaces);
}

template <typename Visitor>
void fields(Visitor& v, os::PcieLink& f) {
  v("width", f.width);
  v("card_width", f.card_width);
  v("slot_width", f.slot_width);
  v("generation", f.generation);
  v("card_generation", f.card_generation);
  v("numa_node", f.numa_node);
  v("near_cores", f.near_cores);
}

template <typename Visitor>
void fields(Visitor& v, os::FileSystemFacts& f) {
  v("type", f.type);
  v("mount_point", f.mount_point);
  v("folder", f.folder);
  v("network", f.network);
  v("read_only", f.read_only);
  v("writable", f.writable);
  v("bytes", f.bytes);
  v("free_bytes", f.free_bytes);
  v("free_files", f.free_files);
}

template <typename Visitor>
void fields(Visitor& v, PeerFacts& f) {
  v("bus_id", f.bus_id);
  v("result", f.result);
  v("error", f.error);
}

template <typename Visitor>
void fields(Visitor& v, GpuFacts& f) {
  v("name", f.name);
  v("uuid", f.uuid);
  v("bus_id", f.bus_id);
  v("memory", f.memory);
  v("used_memory", f.used_memory);
  v("persistence", f.persistence);
  v("power_limit", f.power_limit);
  v("default_power_limit", f.default_power_limit);
  v("temperature", f.temperature);
  v("throttled_by", f.throttled_by);
  v("host_copy_rate", f.host_copy_rate);
  v("link", f.link);
  v("peers", f.peers);
}

template <typename Visitor>
void fields(Visitor& v, NetworkFacts& f) {
  v("parameters", f.parameters);
  v("model_bytes", f.model_bytes);
  v("optimizer_bytes", f.optimizer_bytes);
  v("batch_bytes", f.batch_bytes);
}

template <typename Visitor>
void fields(Visitor& v, RankFacts& f) {
  v("rank", f.rank);
  v("local_rank", f.local_rank);
  v("local_size", f.local_size);
  v("host", f.host);
  v("node", f.node);
  v("resident_bytes", f.resident_bytes);
  v("program", f.program);
  v("program_hash", f.program_hash);
  v("versions", f.versions);
  v("nccl", f.nccl);
  v("driver", f.driver);
  v("keys", f.keys);
  v("variables", f.variables);
  v("clock_offset", f.clock_offset);
  v("clock_spread", f.clock_spread);
  v("port", f.port);
  v("port_problem", f.port_problem);
  v("device", f.device);
  v("device_problem", f.device_problem);
  v("visible_gpus", f.visible_gpus);
  v("gpu", f.gpu);
  v("machine", f.machine);
  v("threads", f.threads);
  v("readers", f.readers);
  v("other_cpu", f.other_cpu);
  v("stolen_cpu", f.stolen_cpu);
  v("data_file", f.data_file);
  v("data_problem", f.data_problem);
  v("data_checksum", f.data_checksum);
  v("data_lock", f.data_lock);
  v("data_system", f.data_system);
  v("run_system", f.run_system);
  v("run_lock", f.run_lock);
  v("network", f.network);
  v("network_problem", f.network_problem);
  v("network_refused", f.network_refused);
}

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
