#include "export/networks.h"

#include "core/error.h"
#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::exporting {

const std::string& required(const Metadata& metadata, const std::string& key) {
  const auto found = metadata.find(key);
  if (found == metadata.end())
    throw CheckpointError(str("model.safetensors has no '", key, "' in its metadata"));
  return found->second;
}

int64_t required_integer(const Metadata& metadata, const std::string& key) {
  const std::string& text = required(metadata, key);
  const std::optional<int64_t> value = parse_number<int64_t>(text);
  if (!value || *value < 1) {
    throw CheckpointError(str("model.safetensors has '", text, "' as its '", key,
                              "', which is not a positive integer"));
  }
  return *value;
}

Graph build_graph(const Weights& weights, const Metadata& metadata) {
  const std::string& name = required(metadata, "network");
  if (catalog::is_from_file(name)) {
    throw UsageError(
        "a network given as TorchScript cannot be exported to ONNX, because its operators are not "
        "dtrain's. `dtrain export --format torchscript` writes the trained module; "
        "torch.onnx.export in Python converts the code that it was made from");
  }
  if (const catalog::NetworkEntry* network = catalog::find_network(name)) {
    if (const auto* net = std::get_if<catalog::PictureLayers>(&network->layers))
      return image_graph(*network, *net, weights, metadata);
    if (const auto* net = std::get_if<catalog::SequenceLayers>(&network->layers))
      return sequence_graph(*net, weights, metadata);
    if (const auto* net = std::get_if<catalog::SetLayers>(&network->layers))
      return set_graph(*net, weights, metadata);
  }
  throw UsageError(
      str("network '", name, "' cannot be exported to ONNX: use --format safetensors"));
}

std::string why_not_int8(const std::string& network) {
  const catalog::NetworkEntry* found = catalog::find_network(network);
  if (found != nullptr && found->recurrent()) {
    return str(network,
               " is recurrent: rounding errors are fed back at every step, and ONNX has no "
               "quantized LSTM. --format onnx writes it in float32");
  }
  if (catalog::is_from_file(network)) {
    return "a network given as TorchScript cannot be exported to ONNX. --format torchscript writes "
           "the trained module";
  }
  return "";
}

}  // namespace dtrain::exporting
