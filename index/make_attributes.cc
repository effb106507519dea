#include "index/make_attributes.h"

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "index/base/cpu.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/construct/inputs.h"

namespace hmann {

absl::Status MakeAttributesOf(AttrsTarget target, bool own_labels,
                              const std::function<absl::Status(LabelIds* ids)>& add_ids,
                              const MakeAttributesOptions& options, Progress& progress) {
  std::vector<AttributeField> given;
  if (!options.types.empty()) {
    HMANN_ASSIGN_OR_RETURN(given, ParseAttributeFields(options.types));
  }
  const std::uint64_t available = options.memory > 0 ? options.memory : UsableMemoryBytes() / 2;
  // The rows and the ids by label are held throughout.
  const std::uint64_t held = LabelIds::BytesOf(target.n, own_labels) + target.n / 4;
  constexpr std::uint64_t kLeast = 16_MiB;  // a guess: less is slow
  if (available < held + kLeast) {
    return ResourceExhausted("attributes of ", target.n, " vectors need at least ",
                             FormatSize(held + kLeast), " of memory, ", FormatSize(available),
                             options.memory > 0 ? " are given: raise --build-memory"
                                                : " may be used, half of what is free");
  }
  HMANN_ASSIGN_OR_RETURN(const std::unique_ptr<AttributeRows> rows,
                         AttributeRows::Open(options.from, given));
  LabelIds ids(target.n, own_labels);
  HMANN_RETURN_IF_ERROR(add_ids(&ids));
  ids.Sort();
  target.memory = available - held;
  target.cancel = options.cancelled;
  return WriteAttributes(*rows, ids, target, progress);
}

absl::Status MakeAttributes(const std::string& index, const MakeAttributesOptions& options,
                            Progress& progress) {
  HMANN_ASSIGN_OR_RETURN(const std::shared_ptr<const Index> opened,
                         Index::Open(index, {.fast = "mapped", .sq_bits = 0}));
  const IndexInfo& info = opened->info();
  HMANN_RETURN_IF_ERROR(CheckNotInput(Attributes::PathOf(index), {options.from}));
  return MakeAttributesOf(
      {.out = Attributes::PathOf(index), .n = info.n, .content_hash = info.content_hash},
      info.user_labels,
      [&](LabelIds* ids) {
        return opened->ForLabels([&](auto some, auto labels) {
          for (std::size_t i = 0; i < some.size(); ++i) ids->Add(labels[i], some[i]);
        });
      },
      options, progress);
}

absl::Status CheckAttributesOf(const BuildOptions& build, const MakeAttributesOptions& options,
                               Progress& progress) {
  HMANN_RETURN_IF_ERROR(build.Validate());
  HMANN_ASSIGN_OR_RETURN(BuildInputs inputs, BuildInputs::Open(build));
  HMANN_RETURN_IF_ERROR(inputs.LoadLabels());
  const std::vector<std::uint64_t>& labels = inputs.user_labels();
  return MakeAttributesOf(
      {.out = "", .n = inputs.n()}, inputs.has_user_labels(),
      [&](LabelIds* ids) {
        for (std::uint32_t i = 0; i < inputs.n(); ++i) ids->Add(labels.empty() ? i : labels[i], i);
        return absl::OkStatus();
      },
      options, progress);
}

absl::StatusOr<std::shared_ptr<const Attributes>> AttributesOfRows(
    const MakeAttributesOptions& options, std::uint64_t n, const std::string& path,
    Progress& progress) {
  const std::string file = Attributes::PathOf(path);
  const auto add_ids = [n](LabelIds* ids) {
    for (std::uint32_t row = 0; row < n; ++row) ids->Add(row, row);
    return absl::OkStatus();
  };
  HMANN_RETURN_IF_ERROR(MakeAttributesOf({.out = file, .n = n}, false, add_ids, options, progress));
  auto attributes = Attributes::Open(file, n, 0);
  std::error_code error;
  std::filesystem::remove(file, error);  // it stays mapped
  return attributes;
}

}  // namespace hmann
