#pragma once

// Numeric matrices by name from and to MATLAB .mat files (as 300W-LP and AFLW2000 ship them: version 5, compressed).
// Errors: DataError with the reason (damaged, no such variable, not numeric); OutputError when writing fails.
// Thread-safety: all functions may be called from any thread; one lock around libmatio, which promises nothing.

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace dtrain::formats {

struct Matrix {
  size_t rows = 0, columns = 0;
  std::vector<double> values;  // column by column, as MATLAB keeps them
  double operator()(size_t row, size_t column) const { return values[column * rows + row]; }
};

using Matrices = std::map<std::string, Matrix>;

// Those of `names` that the file holds; others are absent from the result. Files of at most 64 MiB; each
// dimension is at most 100 000, a matrix has at most 10 million elements.
Matrices read_mat(const std::filesystem::path& file, const std::vector<std::string>& names);

void write_mat(const std::filesystem::path& file, const Matrices&);  // single precision, compressed, not atomic

}  // namespace dtrain::formats
