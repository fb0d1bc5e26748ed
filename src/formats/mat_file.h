#pragma once

// Reads and writes named matrices in MATLAB .mat files (version 5, compressed, as in 300W-LP and
// AFLW2000), of floats and of integers of 8 to 64 bits. Other versions are refused: 7.3 is HDF5,
// and a damaged file can crash that library; for a damaged file that looks like version 4, libmatio
// allocates memory without end. A file with a variable twice is refused, because programs differ in
// which one they read.
// Errors: DataError with the reason (damaged, not numeric); OutputError if writing fails.
// Thread-safety: all functions may be called from any thread; one lock protects libmatio, which is
// not documented as thread-safe.

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace dtrain::formats {

struct Matrix {
  size_t rows = 0, columns = 0;
  std::vector<double> values;  // column by column, as MATLAB stores them
  double operator()(size_t row, size_t column) const { return values[column * rows + row]; }
};

using Matrices = std::map<std::string, Matrix>;

// Reads those of `names` that the file has. Limits: a file has at most 64 MiB, a dimension is at
// most 100 000, and a matrix has at most 10 million elements.
Matrices read_mat(const std::filesystem::path& file, const std::vector<std::string>& names);

// Single precision, compressed, not atomic
void write_mat(const std::filesystem::path& file, const Matrices&);

}  // namespace dtrain::formats
