#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/build_options.h"
#include "hmann/hmann.h"
#include "index/attributes/attrs_writer.h"

namespace hmann {

/// Makes attributes of target.n vectors from a file with a row for each. `add_ids` adds
/// all of their ids by label, which are the user's or row numbers. Memory and
/// cancellation are those of `options`. Without target.out the rows are only checked.
/// Errors: as MakeAttributes.
absl::Status MakeAttributesOf(AttrsTarget target, bool own_labels,
                              const std::function<absl::Status(LabelIds* ids)>& add_ids,
                              const MakeAttributesOptions& options, Progress& progress);

/// Checks before a build that the rows are those of its vectors. Errors: as
/// MakeAttributes; those of opening the inputs.
absl::Status CheckAttributesOf(const BuildOptions& build, const MakeAttributesOptions& options,
                               Progress& progress);

/// Makes attributes of the n rows of a file of vectors, whose labels are row numbers, in
/// a file next to `path` that is removed at once. Errors: as MakeAttributes.
absl::StatusOr<std::shared_ptr<const Attributes>> AttributesOfRows(
    const MakeAttributesOptions& options, std::uint64_t n, const std::string& path,
    Progress& progress);

}  // namespace hmann
