#include "eval/program/finished_flags.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "eval/own_contestants.h"
#include "index/base/status_macros.h"
#include "tools/connect_flags.h"
#include "tools/open_flags.h"

namespace hmann {
namespace {

struct Kind {
  DataShape shape;
  Metric metric = Metric::kL2;
};

std::string Text(const Kind& kind) {
  return absl::StrFormat("%d x %d %s, %s", kind.shape.n, kind.shape.dim,
                         std::string(Name(kind.shape.dtype)), std::string(Name(kind.metric)));
}

/// All must be of the same.
absl::Status Agree(const std::string& name, const Kind& kind, std::optional<Kind>* all) {
  if (!*all) *all = kind;
  if (Text(kind) == Text(**all)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ": expected ", Text(**all),
                                                 ", as the index before it, found ", Text(kind)));
}

Json Opening(const FinishedFlags& flags, const std::string& path, const std::string& slow) {
  Json build = {{"index", path}, {"fast", flags.open.fast}, {"slow", slow}};
  if (flags.open.cache != CachePolicy::kNone) {
    build["cache"] = std::string(Name(flags.open.cache));
    build["cache_bytes"] = flags.open.cache_bytes;
  }
  build["migration_bytes"] = flags.open.migration_bytes;
  if (flags.open.helper_threads > 0) build["helper_threads"] = flags.open.helper_threads;
  return build;
}

/// Both walks that reads from a device leave a choice of.
Json DeviceLadder(bool codes) {
  Json settings = BlockTierLadder("best-first");
  if (!codes) return settings;
  for (const Json& setting : BlockTierLadder("quantised")) settings.push_back(setting);
  return settings;
}

absl::Status AddFiles(const FinishedFlags& flags, SweepOptions* sweep, std::optional<Kind>* all) {
  for (const std::string& path : flags.indexes) {
    HMANN_ASSIGN_OR_RETURN(const IndexInfo info, ReadInfo(path));
    HMANN_RETURN_IF_ERROR(Agree(path, {{info.n, info.dim, info.dtype}, info.metric}, all));
    const std::string stem = std::filesystem::path(path).stem().string();
    std::vector<std::string> slow = flags.slow;
    if (slow.empty()) slow.push_back(flags.open.slow);
    for (const std::string& tier : slow) {
      HMANN_ASSIGN_OR_RETURN(
          ContestantSpec spec,
          FinishedContestant(absl::StrCat(stem, " on ", tier), Opening(flags, path, tier)));
      const bool cells = info.codes.bits > 0;
      if (tier.starts_with("nvme")) spec.settings = DeviceLadder(cells);
      sweep->contestants.push_back(std::move(spec));
    }
  }
  return absl::OkStatus();
}

absl::Status AddServers(const FinishedFlags& flags, SweepOptions* sweep, std::optional<Kind>* all) {
  for (const std::string& address : flags.servers) {
    HMANN_ASSIGN_OR_RETURN(client::Client client, client::Client::Connect(address, flags.connect));
    std::vector<std::string> names = flags.served;
    if (names.empty()) {
      HMANN_ASSIGN_OR_RETURN(const std::vector<client::IndexSummary> list, client.List());
      for (const client::IndexSummary& index : list) names.push_back(index.name);
    }
    for (const std::string& name : names) {
      HMANN_ASSIGN_OR_RETURN(const client::IndexDescription index, client.Describe(name));
      HMANN_ASSIGN_OR_RETURN(const DType dtype, EngineType(index.dtype));
      HMANN_ASSIGN_OR_RETURN(const Metric metric, EngineMetric(index.metric));
      const std::string row = absl::StrCat(name, " at ", address);
      HMANN_RETURN_IF_ERROR(Agree(row, {{index.n, index.dim, dtype}, metric}, all));
      Json build = {{"server", address}, {"index", name}};
      if (flags.connect.tls) build["tls"] = true;
      for (const auto& [key, value] : {std::pair("ca_file", flags.connect.ca_file),
                                       {"certificate_file", flags.connect.certificate_file},
                                       {"key_file", flags.connect.key_file},
                                       {"token_file", flags.connect.token_file}}) {
        if (!value.empty()) build[key] = value;
      }
      HMANN_ASSIGN_OR_RETURN(ContestantSpec spec, FinishedContestant(row, build));
      const bool device =
          std::any_of(index.placements.begin(), index.placements.end(), [](const auto& placement) {
            return placement.structure == "l0" && placement.tier.starts_with("nvme");
          });
      if (device) spec.settings = DeviceLadder(index.bits > 0);
      sweep->contestants.push_back(std::move(spec));
    }
  }
  return absl::OkStatus();
}

}  // namespace

void AddFinished(CLI::App& app, FinishedFlags* flags) {
  app.add_option("--index", flags->indexes,
                 "a finished index file, searched as it is; again for several beside each other");
  AddOpenFlags(app, &flags->open);
  app.remove_option(app.get_option("--slow"));
  app.add_option("--slow", flags->slow,
                 "tier of L0 of --index (default mapped), as `hmann search` takes it; again for "
                 "several beside each other")
      ->allow_extra_args(false);
  app.add_option("--server", flags->servers,
                 "HOST:PORT or unix:PATH of a running `hmann serve`: its indexes take part");
  app.add_option("--server-index", flags->served, "only these of --server");
  AddConnectFlags(app, &flags->connect);
}

absl::Status AddFinishedContestants(const FinishedFlags& flags, SweepOptions* sweep) {
  std::optional<Kind> all;
  HMANN_RETURN_IF_ERROR(AddFiles(flags, sweep, &all));
  HMANN_RETURN_IF_ERROR(AddServers(flags, sweep, &all));
  if (!all) return absl::OkStatus();
  sweep->shape = all->shape;
  sweep->job.metric = all->metric;
  return absl::OkStatus();
}

}  // namespace hmann
