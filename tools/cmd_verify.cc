#include <iostream>
#include <memory>

#include "absl/strings/str_format.h"
#include "hmann/hmann.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "tools/collection_writer.h"
#include "tools/commands.h"
#include "tools/print.h"

namespace hmann::tools {
namespace {

struct VerifyFlags {
  std::string index;
  bool json = false;
};

absl::Status VerifyCollection(const VerifyFlags& flags) {
  Progress progress;
  HMANN_ASSIGN_OR_RETURN(const std::shared_ptr<Collection> collection,
                         OpenFolder(flags.index, ForReading(), progress));
  HMANN_RETURN_IF_ERROR(collection->Verify(progress));
  const CollectionInfo info = collection->info();
  if (flags.json)
    return PrintJson({{"ok", true}, {"live", info.live}, {"sequence", info.sequence}});
  std::cout << absl::StrFormat("%s: sound; %d vectors, sequence %d\n", flags.index, info.live,
                               info.sequence);
  return absl::OkStatus();
}

}  // namespace

CommandAction SetupVerify(CLI::App& app) {
  auto flags = std::make_shared<VerifyFlags>();
  app.add_option("INDEX", flags->index, "index file, or folder of a collection")->required();
  app.add_flag("--json", flags->json, "print one JSON object on stdout");
  return [flags]() -> absl::Status {
    if (Collection::Is(flags->index)) return VerifyCollection(*flags);
    HMANN_ASSIGN_OR_RETURN(const IndexInfo info, ReadInfo(flags->index));
    Progress progress;
    HMANN_RETURN_IF_ERROR(Verify(flags->index, progress));
    const auto attributes =
        Attributes::Open(Attributes::PathOf(flags->index), info.n, info.content_hash);
    if (attributes.ok()) HMANN_RETURN_IF_ERROR((*attributes)->Verify());
    if (!attributes.ok() && !absl::IsNotFound(attributes.status())) return attributes.status();
    const std::string hash = absl::StrFormat("%016x", info.content_hash);
    if (flags->json)
      return PrintJson(
          {{"ok", true}, {"n", info.n}, {"file_bytes", info.file_bytes}, {"content_hash", hash}});
    std::cout << absl::StrFormat("%s: sound; %d vectors, %s, content hash %s\n", flags->index,
                                 info.n, FormatSize(info.file_bytes), hash);
    return absl::OkStatus();
  };
}

}  // namespace hmann::tools
