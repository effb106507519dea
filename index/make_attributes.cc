#include <memory>
#include <string>

#include "hmann/hmann.h"
#include "index/attributes/attrs_writer.h"
#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann {

absl::Status MakeAttributes(const std::string& index, const MakeAttributesOptions& options,
                            Progress& progress) {
  std::vector<AttributeField> given;
  if (!options.types.empty()) {
    HMANN_ASSIGN_OR_RETURN(given, ParseAttributeFields(options.types));
  }
  HMANN_ASSIGN_OR_RETURN(const std::shared_ptr<const Index> opened,
                         Index::Open(index, {.fast = "mapped", .sq_bits = 0}));
  const IndexInfo& info = opened->info();
  const std::uint64_t available = options.memory > 0 ? options.memory : UsableMemoryBytes() / 2;
  // The rows and the ids by label are held throughout.
  const std::uint64_t held = LabelIds::BytesOf(info.n, info.user_labels) + info.n / 4;
  if (available < held + 64_MiB) {
    return ResourceExhausted("attributes of ", info.n, " vectors need at least ",
                             FormatSize(held + 64_MiB), " of memory, ", FormatSize(available),
                             " are available: raise --build-memory");
  }
  HMANN_ASSIGN_OR_RETURN(const std::unique_ptr<AttributeRows> rows,
                         AttributeRows::Open(options.from, given));
  LabelIds ids(info.n, info.user_labels);
  HMANN_RETURN_IF_ERROR(opened->ForLabels([&](auto some, auto labels) {
    for (std::size_t i = 0; i < some.size(); ++i) ids.Add(labels[i], some[i]);
  }));
  ids.Sort();
  return WriteAttributes(*rows, ids,
                         {.out = Attributes::PathOf(index),
                          .n = info.n,
                          .content_hash = info.content_hash,
                          .memory = available - held,
                          .cancel = options.cancelled},
                         progress);
}

}  // namespace hmann
