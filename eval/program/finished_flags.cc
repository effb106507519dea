#include "eval/program/finished_flags.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "eval/builtin_systems.h"
#include "index/base/status_macros.h"
#include "tools/connect_flags.h"

namespace hmann::eval {
namespace {

/// Adds a system. All must have the same shape and metric.
absl::Status Add(SystemSpec spec, const DataShape& shape, Metric metric, Benchmark* benchmark) {
  if (!benchmark->shape) {
    benchmark->shape = shape;
    benchmark->job.metric = metric;
  }
  const auto text = [](const DataShape& of, Metric by) {
    return absl::StrFormat("%d x %d %s, %s", of.n, of.dim, std::string(Name(of.dtype)),
                           std::string(Name(by)));
  };
  const std::string expected = text(*benchmark->shape, benchmark->job.metric),
                    found = text(shape, metric);
  if (found != expected)
    return InvalidArgument(spec.name, ": expected ", expected, ", as the index before it, found ",
                           found);
  benchmark->systems.push_back(std::move(spec));
  return absl::OkStatus();
}

absl::Status AddServer(const std::string& address, const FinishedFlags& flags,
                       Benchmark* benchmark) {
  HMANN_ASSIGN_OR_RETURN(client::Client client, client::Client::Connect(address, flags.connect));
  HMANN_ASSIGN_OR_RETURN(const std::vector<client::IndexSummary> list, client.List());
  Json build = {{"server", address}, {"tls", flags.connect.tls}};
  for (const auto& [key, value] : {std::pair("ca_file", flags.connect.ca_file),
                                   {"certificate_file", flags.connect.certificate_file},
                                   {"key_file", flags.connect.key_file},
                                   {"token_file", flags.connect.token_file}}) {
    if (!value.empty()) build[key] = value;
  }
  for (const client::IndexSummary& listed : list) {
    const std::string& name = listed.name;
    HMANN_ASSIGN_OR_RETURN(const client::IndexDescription index, client.Describe(name));
    build["index"] = name;
    HMANN_ASSIGN_OR_RETURN(SystemSpec spec,
                           FinishedSystem(absl::StrCat(name, " at ", address), build));
    HMANN_RETURN_IF_ERROR(
        Add(std::move(spec), {index.n, index.dim, index.dtype}, index.metric, benchmark));
  }
  return absl::OkStatus();
}

}  // namespace

void AddFinished(CLI::App& app, FinishedFlags* flags) {
  app.add_option("--index", flags->indexes,
                 "a finished index file, searched as it is; repeat to compare several");
  app.add_option("--slow", flags->slow,
                 "tier of L0 of --index, as `hmann search` takes it; repeat to compare several")
      ->allow_extra_args(false)
      ->capture_default_str();
  app.add_option("--server", flags->servers,
                 "HOST:PORT or unix:PATH of a running `hmann serve` whose indexes take part");
  tools::AddConnectFlags(app, &flags->connect);
}

absl::Status AddFinishedSystems(const FinishedFlags& flags, Benchmark* benchmark) {
  for (const std::string& path : flags.indexes) {
    HMANN_ASSIGN_OR_RETURN(const IndexInfo info, ReadInfo(path));
    const std::string stem = std::filesystem::path(path).stem().string();
    for (const std::string& tier : flags.slow) {
      HMANN_ASSIGN_OR_RETURN(SystemSpec spec, FinishedSystem(absl::StrCat(stem, " on ", tier),
                                                             {{"index", path}, {"slow", tier}}));
      HMANN_RETURN_IF_ERROR(
          Add(std::move(spec), {info.n, info.dim, info.dtype}, info.metric, benchmark));
    }
  }
  for (const std::string& address : flags.servers)
    HMANN_RETURN_IF_ERROR(AddServer(address, flags, benchmark));
  return absl::OkStatus();
}

}  // namespace hmann::eval
