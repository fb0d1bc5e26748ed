// For augment_vs_torchvision.py: augments one raw image with the given factors and writes its
// pixels in [0, 1].
// Usage: augment_tool IN H W S OUT flip y x height width brightness contrast saturation hue

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <vector>

#include "data/augment/augmenter.h"

int main(int argc, char** argv) {
  if (argc != 15) return 64;
  const auto number = [&](int i) { return std::strtof(argv[i], nullptr); };
  const dtrain::data::ImageShape shape{std::atol(argv[2]), std::atol(argv[3])};
  dtrain::data::SampleSpec spec;
  spec.image_size = std::atol(argv[4]);
  spec.mean = {0, 0, 0};
  spec.std = {1, 1, 1};
  dtrain::data::SampleAugment a;
  a.flip = number(6) != 0;
  a.y = number(7), a.x = number(8), a.height = number(9), a.width = number(10);
  a.brightness = number(11), a.contrast = number(12), a.saturation = number(13), a.hue = number(14);
  std::ifstream in(argv[1], std::ios::binary);
  const std::vector<char> image((std::istreambuf_iterator<char>(in)), {});
  if (static_cast<int64_t>(image.size()) != shape.bytes()) return 65;
  std::vector<float> out(static_cast<size_t>(3 * spec.image_size * spec.image_size));
  dtrain::data::Augmenter(spec, shape)(reinterpret_cast<const uint8_t*>(image.data()), a,
                                       out.data());
  std::ofstream file(argv[5], std::ios::binary);
  file.write(reinterpret_cast<const char*>(out.data()),
             static_cast<std::streamsize>(out.size() * sizeof(float)));
  return file.good() ? 0 : 73;
}
