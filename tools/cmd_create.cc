#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "hmann/collection.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "tools/build_flags.h"
#include "tools/collection_writer.h"
#include "tools/commands.h"
#include "tools/flags.h"
#include "tools/interrupt.h"
#include "tools/print.h"
#include "tools/write_target.h"

namespace hmann::tools {
namespace {

struct CreateFlags {
  std::string folder;
  CreateCollection create;
  bool json = false;
};

absl::Status Create(CreateFlags& flags) {
  CreateCollection& create = flags.create;
  create.dtype = create.build.dtype.value_or(create.dtype);
  HMANN_RETURN_IF_ERROR(Collection::Create(flags.folder, create));
  Progress progress;
  HMANN_ASSIGN_OR_RETURN(const std::shared_ptr<Collection> collection,
                         OpenFolder(flags.folder, ForReading(), progress));
  const CollectionInfo info = collection->info();
  if (flags.json) {
    return PrintJson({{"dtype", Name(info.dtype)},
                      {"dim", info.dim},
                      {"metric", Name(info.metric)},
                      {"live", info.live}});
  }
  std::cout << absl::StrFormat("%s: a collection of %d vectors, %d x %s, %s\n", flags.folder,
                               info.live, info.dim, std::string(Name(info.dtype)),
                               std::string(Name(info.metric)));
  return absl::OkStatus();
}

struct CompactFlags {
  std::string folder;
  TargetFlags target;
  OpenCollection open{.merges = false, .merge_threads = 0};
  bool json = false;
};

/// Lets a server merge.
absl::Status CompactServed(const CompactFlags& flags) {
  const TargetFlags& target = flags.target;
  HMANN_ASSIGN_OR_RETURN(client::Client client,
                         client::Client::Connect(target.server, target.connect));
  HMANN_ASSIGN_OR_RETURN(const client::Written written,
                         client.Compact(target.name, {.deadline = std::chrono::hours(24)}));
  if (flags.json) return PrintJson({{"sealed_rows", written.rows}});
  std::cout << absl::StrFormat("%s: sealed %d vectors\n", target.name, written.rows);
  return absl::OkStatus();
}

absl::Status Compact(const CompactFlags& flags) {
  if (!flags.target.server.empty()) return CompactServed(flags);
  Progress progress;
  HMANN_ASSIGN_OR_RETURN(const std::shared_ptr<Collection> collection,
                         OpenFolder(flags.target.name, flags.open, progress));
  absl::Status status = collection->Compact(progress, CancelOnInterrupt());
  if (absl::IsCancelled(status)) {
    return absl::CancelledError(
        absl::StrCat(flags.target.name,
                     ": stopped; all vectors are there, and the same command goes on from here"));
  }
  HMANN_RETURN_IF_ERROR(status);
  const CollectionInfo info = collection->info();
  std::error_code error;
  const auto size = std::filesystem::file_size(info.sealed_file, error);
  const std::uint64_t bytes = error ? 0 : size;
  if (flags.json) {
    return PrintJson({{"sealed_rows", info.sealed_rows},
                      {"sealed_file", info.sealed_file},
                      {"file_bytes", bytes}});
  }
  std::cout << absl::StrFormat("%s: sealed %d vectors, %s\n", flags.target.name, info.sealed_rows,
                               FormatSize(bytes));
  return absl::OkStatus();
}

absl::Status Backup(const CompactFlags& flags, const std::string& out) {
  Progress progress;
  HMANN_ASSIGN_OR_RETURN(const std::shared_ptr<Collection> collection,
                         OpenFolder(flags.folder, ForReading(), progress));
  HMANN_ASSIGN_OR_RETURN(const std::uint64_t sequence, collection->Backup(out));
  if (flags.json) return PrintJson({{"folder", out}, {"sequence", sequence}});
  std::cout << absl::StrFormat("%s: %s as of sequence %d\n", out, flags.folder, sequence);
  return absl::OkStatus();
}

}  // namespace

CommandAction SetupCreate(CLI::App& app) {
  auto flags = std::make_shared<CreateFlags>();
  CreateCollection* create = &flags->create;
  app.add_option("COLLECTION", flags->folder, "folder to make")->required();
  const std::size_t before = app.get_options().size();
  app.add_option("--dim", create->dim, "dimension of the vectors")->check(CLI::Range(1, 1 << 20));
  AddGraphFlags(app, &create->build);
  AddConstructionFlags(app, &create->build);
  AddStructureFlags(app, &create->build);
  const std::vector<CLI::Option*> declared = app.get_options();
  CLI::Option* from = app.add_option(
      "--from", create->from,
      "finished index whose vectors are the first ones; its parameters hold, and the file is "
      "linked if it can be");
  for (std::size_t i = before; i < declared.size(); ++i) from->excludes(declared[i]);
  app.add_option("--queries", create->queries,
                 "vector file of typical queries, copied; each compaction calibrates with them");
  app.add_option("--types", create->types,
                 "types of some attributes, as year:int64,tags:tag; another one has that of its "
                 "first value");
  app.add_flag("--json", flags->json, "print one JSON object on stdout");
  app.callback([create] {
    if (create->dim == 0 && create->from.empty()) throw CLI::RequiredError("--dim or --from");
  });
  return [flags] { return Create(*flags); };
}

CommandAction SetupCompact(CLI::App& app) {
  auto flags = std::make_shared<CompactFlags>();
  AddTargetFlags(app, &flags->target);
  app.add_option("--threads", flags->open.merge_threads, "threads (0: all usable cores)")
      ->check(CLI::Range(0, 1024));
  AddParsed(app, "--build-memory", ParseSize, &flags->open.merge_memory,
            "memory to use, as 2GiB (default: 5/16 of what is available)");
  app.add_flag("--json", flags->json, "print one JSON object on stdout");
  return [flags] { return Compact(*flags); };
}

CommandAction SetupBackup(CLI::App& app) {
  auto flags = std::make_shared<CompactFlags>();
  auto out = std::make_shared<std::string>();
  app.add_option("COLLECTION", flags->folder, "folder of the collection")->required();
  app.add_option("OUT", *out, "folder to make, whole or not at all")->required();
  app.add_flag("--json", flags->json, "print one JSON object on stdout");
  return [flags, out] { return Backup(*flags, *out); };
}

}  // namespace hmann::tools
