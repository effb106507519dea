#pragma once

#include "absl/status/statusor.h"
#include "index/construct/duplicates.h"
#include "index/construct/make_bottom.h"
#include "index/construct/stages.h"

namespace hmann {

/// L0 joined by leaves, with its backbone and its copies. Errors: those of StreamedLayer.
absl::StatusOr<Bottom> MakeStreamedBottom(const BottomSource& source, DuplicateGroups groups,
                                          Stages& stages);

}  // namespace hmann
