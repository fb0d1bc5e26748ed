// Writes a small data set for h5py_opens_it.py. Usage: write_data_set OUT [orders|classes]. The
// default is images.

#include <string>

#include "data/hdf5/row_set.h"

int main(int count, char** arguments) {
  dtrain::data::Writer::Extras extras = dtrain::testing::extras_of(count > 2 ? 6 : 7);
  if (count > 2) {
    const bool orders = std::string(arguments[2]) == "orders";
    if (!orders) extras.attributes["class_names"] = "walk\nrun\nstand still";
    dtrain::testing::write_row_set(arguments[1], orders, extras);
    return 0;
  }
  extras.splits["train"] = {6, 0, 2};
  extras.attributes["share"] = 0.1;
  dtrain::testing::write_data_set(arguments[1], 7, extras);
}
