#include "eval/program/finished_flags.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "eval/own_contestants.h"
#include "index/base/status_macros.h"
#include "tools/connect_flags.h"

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

/// Both walks that reads from a device leave a choice of.
Json DeviceLadder(bool codes, Metric metric) {
  Json settings = Ladder("best-first", "nvme", metric);
  if (!codes) return settings;
  for (const Json& setting : Ladder("quantised", "nvme", metric)) settings.push_back(setting);
  return settings;
}

absl::Status AddFiles(const FinishedFlags& flags, Benchmark* benchmark, std::optional<Kind>* all) {
  for (const std::string& path : flags.indexes) {
    HMANN_ASSIGN_OR_RETURN(const IndexInfo info, ReadInfo(path));
    HMANN_RETURN_IF_ERROR(Agree(path, {{info.n, info.dim, info.dtype}, info.metric}, all));
    const std::string stem = std::filesystem::path(path).stem().string();
    std::vector<std::string> slow = flags.slow;
    if (slow.empty()) slow.emplace_back("mapped");
    for (const std::string& tier : slow) {
      HMANN_ASSIGN_OR_RETURN(
          ContestantSpec spec,
          FinishedContestant(absl::StrCat(stem, " on ", tier),
                             {{"index", path}, {"fast", "dram"}, {"slow", tier}}));
      if (tier.starts_with("nvme")) spec.settings = DeviceLadder(info.codes.bits > 0, info.metric);
      benchmark->contestants.push_back(std::move(spec));
    }
  }
  return absl::OkStatus();
}

absl::Status AddServers(const FinishedFlags& flags, Benchmark* benchmark,
                        std::optional<Kind>* all) {
  for (const std::string& address : flags.servers) {
    HMANN_ASSIGN_OR_RETURN(client::Client client, client::Client::Connect(address, flags.connect));
    std::vector<std::string> names = flags.served;
    if (names.empty()) {
      HMANN_ASSIGN_OR_RETURN(const std::vector<client::IndexSummary> list, client.List());
      for (const client::IndexSummary& index : list) names.push_back(index.name);
    }
    for (const std::string& name : names) {
      HMANN_ASSIGN_OR_RETURN(const client::IndexDescription index, client.Describe(name));
      const std::string row = absl::StrCat(name, " at ", address);
      HMANN_RETURN_IF_ERROR(Agree(row, {{index.n, index.dim, index.dtype}, index.metric}, all));
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
      if (device) spec.settings = DeviceLadder(index.codes.bits > 0, index.metric);
      benchmark->contestants.push_back(std::move(spec));
    }
  }
  return absl::OkStatus();
}

}  // namespace

void AddFinished(CLI::App& app, FinishedFlags* flags) {
  app.add_option("--index", flags->indexes,
                 "a finished index file, searched as it is; again for several beside each other");
  app.add_option("--slow", flags->slow,
                 "tier of L0 of --index (default mapped), as `hmann search` takes it; again for "
                 "several beside each other")
      ->allow_extra_args(false);
  app.add_option("--server", flags->servers,
                 "HOST:PORT or unix:PATH of a running `hmann serve`: its indexes take part");
  app.add_option("--server-index", flags->served, "only these of --server");
  AddConnectFlags(app, &flags->connect);
}

absl::Status AddFinishedContestants(const FinishedFlags& flags, Benchmark* benchmark) {
  std::optional<Kind> all;
  HMANN_RETURN_IF_ERROR(AddFiles(flags, benchmark, &all));
  HMANN_RETURN_IF_ERROR(AddServers(flags, benchmark, &all));
  if (!all) return absl::OkStatus();
  benchmark->shape = all->shape;
  benchmark->job.metric = all->metric;
  return absl::OkStatus();
}

}  // namespace hmann
