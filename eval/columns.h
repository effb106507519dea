#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

namespace hmann {

/// A table for the eye: columns as wide as their widest cell; the first `left` columns to
/// the left, the others to the right.
void PrintColumns(const std::vector<std::vector<std::string>>& rows, std::size_t left,
                  std::ostream& out);

}  // namespace hmann
