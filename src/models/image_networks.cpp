#include "models/image_networks.h"

#include "core/error.h"
#include "models/initial_values.h"
#include "text/strings.h"

namespace dtrain::models {
namespace {

const catalog::PictureLayers* picture_layers(const catalog::NetworkEntry* network) {
  return network == nullptr ? nullptr : std::get_if<catalog::PictureLayers>(&network->layers);
}

std::shared_ptr<Network> make(const catalog::NetworkEntry& network,
                              const catalog::PictureLayers& net, const NetworkOptions& options) {
  switch (net.block) {
    case catalog::ConvBlockKind::kPlain:
      return make_plain_cnn(network, net, options);
    case catalog::ConvBlockKind::kInvertedResidual:
      return make_mobilenet_v2(net, options);
    default:
      return make_resnet(net, options);
  }
}

}  // namespace

torch::nn::Conv2d convolution(const catalog::Convolution& conv, bool bias) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(conv.in, conv.out, conv.kernel)
                               .stride(conv.stride)
                               .padding(conv.padding())
                               .groups(conv.groups)
                               .bias(bias));
}

std::shared_ptr<Network> make_network(const std::string& name, const NetworkOptions& options) {
  const catalog::NetworkEntry* described = catalog::find_network(name);
  if (const catalog::PictureLayers* net = picture_layers(described)) {
    std::shared_ptr<Network> network = make(*described, *net, options);
    const bool is_mobilenet = net->block == catalog::ConvBlockKind::kInvertedResidual;
    initialize(*network, options.seed,
               is_mobilenet ? LinearValues::kNormal : LinearValues::kUniform);
    return network;
  }
  const std::vector<std::string> names = network_names();
  const std::string near = nearest(name, names);
  throw ConfigError(str("model.name: '", name, "' is not one of ", join(names, ", "),
                        near.empty() ? "" : "; did you mean '" + near + "'?"));
}

std::vector<std::string> network_names() {
  std::vector<std::string> names = names_of(catalog::NetworkId{});
  std::erase_if(names, [](const std::string& name) {
    return picture_layers(catalog::find_network(name)) == nullptr;
  });
  return names;
}

}  // namespace dtrain::models
