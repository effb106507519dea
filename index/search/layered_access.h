#pragma once

#include "index/search/access.h"

namespace hmann {
using LayeredAccess = ManagedAccess;
}  // namespace hmann
