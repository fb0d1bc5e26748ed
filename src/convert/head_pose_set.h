#pragma once

// What the three published head-pose sets have in common: pictures cropped to the head, three angles as targets.

#include <vector>

#include "convert/head_pose.h"
#include "convert/raw_set.h"
#include "formats/image.h"
#include "formats/mat_file.h"

namespace dtrain::convert {

struct LabelledImage {
  formats::Image image;  // size × size
  HeadPose pose;
};

class HeadPoseSet : public RawSet {
 public:
  explicit HeadPoseSet(int size) : size_(size) {}
  const std::vector<RawSample>& samples() const override { return samples_; }
  data::Schema schema() const override;
  Record read(size_t sample) const override;
  std::map<std::string, std::string> attributes() const override;
  double usual_val_share() const override { return 0; }

 protected:
  // The pose may be out of range, not NaN.
  virtual LabelledImage read_picture(const RawSample&, int size) const = 0;
  std::vector<RawSample> samples_;

 private:
  int size_;
};

// The schema and the file's attributes of head-pose samples, converted or drawn.
data::Schema head_pose_schema(int size);
std::map<std::string, std::string> head_pose_attributes();
std::vector<std::byte> to_target(const HeadPose&);

// The rectangle of Hopenet around landmarks (k = 0.2): 0.6 k wider on both sides and below, 2 k above; then the square
// of its longer side about its centre, so that nothing is cut off or distorted. Points as 2 × N (or more rows) matrix.
formats::Box landmark_box(const formats::Matrix& points);

}  // namespace dtrain::convert
