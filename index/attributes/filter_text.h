/// The canonical text of filters.
#pragma once

#include <string>

#include "hmann/filter.h"

namespace hmann {

/// A literal that the lexer reads as the same value. A double is finite and not -0.0; a
/// string is UTF-8.
std::string FilterValueText(const FilterValue& value);

std::string FilterText(const FilterNode& root);

}  // namespace hmann
