// Writes the small data set of the tests to the path given: what h5py_opens_it.py reads.

#include "files/data_set.h"

int main(int, char** arguments) {
  dtrain::data::Writer::Extras extras = dtrain::testing::extras_of(7);
  extras.splits["train"] = {6, 0, 2};
  dtrain::testing::write_data_set(arguments[1], 7, extras);
}
