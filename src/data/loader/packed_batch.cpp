#include "data/loader/packed_batch.h"

#include <algorithm>

#include "data/loader/sample_check.h"
#include "data/order/length_classes.h"

namespace dtrain::data {

PackedBatch packed_batch(const Store& store, const SampleSpec& spec, bool augment,
                         const std::vector<int64_t>& ids,
                         const std::vector<int64_t>& length_classes) {
  const auto sizes = [&](const Field& field, auto&& rows_of) {
    std::vector<int64_t> result{static_cast<int64_t>(ids.size())};
    result.insert(result.end(), field.shape.begin(), field.shape.end());
    if (field.variable()) {
      result[1] = 0;
      for (const int64_t id : ids)
        result[1] = std::max(result[1], too_long(store, spec, id) ? 0 : rows_of(id));
      result[1] = rounded_up(length_classes, result[1]);
    }
    return result;
  };
  const Schema& schema = store.schema();
  PackedBatch result;
  result.kind = spec.kind;
  result.inputs = sizes(schema.input, [&](int64_t id) { return store.input_rows(id); });
  result.targets = sizes(schema.target, [&](int64_t id) { return store.target_rows(id); });
  result.target_element = schema.target.element;
  result.needs_mean = augment && spec.contrast > 0;
  return result;
}

}  // namespace dtrain::data
