#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "hmann/client.h"
#include "hmann/hmann.h"
#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/construct/fast_memory.h"
#include "index/distance/simd_level.h"
#include "index/report/report.h"
#include "tools/collection_writer.h"
#include "tools/commands.h"
#include "tools/connect_flags.h"
#include "tools/open_flags.h"
#include "tools/print.h"

namespace hmann::tools {
namespace {

struct InfoFlags {
  std::string index;
  bool cpu = false;
  bool live = false;
  std::string server;
  client::ConnectOptions connect;
  OpenOptions open;
  bool json = false;
};

std::string BesideFormula(const StructureBytes& structure) {
  if (structure.formula == 0) return "";
  const double formula = static_cast<double>(structure.formula);
  return absl::StrFormat("%14d  %+6.2f %%", structure.formula,
                         100 * (static_cast<double>(structure.bytes) - formula) / formula);
}

void PrintInfo(const IndexInfo& info, const std::string& path) {
  std::cout
      << absl::StrFormat("%s  (format %s, %s)\n", path, info.version, FormatSize(info.file_bytes))
      << absl::StrFormat("  %d vectors, %d x %s, metric %s, %s\n", info.n, info.dim,
                         std::string(Name(info.dtype)), std::string(Name(info.metric)),
                         info.user_labels ? "labels of its own" : "labels are row numbers")
      << absl::StrFormat("  M %d, efConstruction %d, alpha %g, seed %d, promoted %.2f %%%s\n",
                         info.m, info.ef_construction, info.alpha, info.seed, 100 * info.promote,
                         info.scalar_bits > 0
                             ? absl::StrFormat(", scalar codes of %d bits", info.scalar_bits)
                             : "")
      << absl::StrFormat("  content hash %016x\n\n  layer         nodes  max degree  mean degree\n",
                         info.content_hash);
  for (std::size_t level = info.layers.size(); level-- > 0;) {
    const LayerInfo& layer = info.layers[level];
    std::cout << absl::StrFormat("  L%-4d %12d  %10d  %11.2f\n", level, layer.nodes,
                                 layer.max_degree, layer.mean_degree);
  }
  std::cout << "\n  structure        tier           bytes         formula     diff\n";
  for (const StructureBytes& structure : info.bytes) {
    std::cout << absl::StrFormat("  %-16s %-5s %14d  %s\n", structure.name, structure.tier,
                                 structure.bytes, BesideFormula(structure));
  }
}

/// Prints the SIMD levels of this build, which of them this CPU supports, and the one in
/// use.
absl::Status DescribeCpu(bool json) {
  HMANN_ASSIGN_OR_RETURN(const std::string_view chosen, ChosenSimd());
  nlohmann::ordered_json levels = nlohmann::ordered_json::array();
  for (const SimdLevel& level : BuiltSimdLevels())
    levels.push_back({{"name", level.name}, {"supported", level.supported()}});
  if (json)
    return PrintJson({{"simd", std::string(chosen)},
                      {"levels", levels},
                      {"cores", UsableCores()},
                      {"memory_bytes", UsableMemoryBytes()}});
  for (const auto& level : levels) {
    const auto name = level["name"].get<std::string>();
    std::cout << absl::StrFormat(
        "%-8s %s%s\n", name,
        level["supported"].get<bool>() ? "supported" : "not supported by this CPU",
        name == std::string(chosen) ? ", in use" : "");
  }
  std::cout << absl::StrFormat("usable: %d cores, %s of memory\n", UsableCores(),
                               FormatSize(UsableMemoryBytes()));
  return absl::OkStatus();
}

/// The bytes placed right now, next to those by the formulas of doc/paper.md, section 7.
struct LiveBytes {
  std::uint64_t fast = 0, slow = 0, fast_formula = 0, slow_formula = 0;
};

LiveBytes CompareWithFormulas(const std::vector<Placement>& placements, const IndexInfo& info) {
  LiveBytes bytes;
  for (const auto& p : placements) {
    if (p.structure == "l0") bytes.slow += p.bytes;
    if (p.structure.starts_with("upper_links") || p.structure == "fast_rows" ||
        p.structure == "codes")
      bytes.fast += p.bytes;
  }
  for (const StructureBytes& structure : info.bytes) {
    if (structure.tier == "fast") bytes.fast_formula += structure.formula;
    if (structure.tier == "slow") bytes.slow_formula += structure.formula;
  }
  return bytes;
}

/// Prints where the structures of an open index lie, as the kernel reports now: for an
/// index of a server by its name, else for one opened here.
absl::Status DescribeLive(const InfoFlags& flags) {
  std::vector<Placement> placements;
  std::optional<LiveBytes> bytes;
  std::vector<std::string> choices;
  std::uint64_t read_buffers = 0;
  if (!flags.server.empty()) {
    HMANN_ASSIGN_OR_RETURN(client::Client client,
                           client::Client::Connect(flags.server, flags.connect));
    HMANN_ASSIGN_OR_RETURN(
        client::IndexDescription index,
        client.Describe(flags.index, {.deadline = std::chrono::seconds(10)}, true));
    placements = std::move(index.placements);
  } else {
    Progress progress;
    HMANN_ASSIGN_OR_RETURN(const std::shared_ptr<const Index> index,
                           Index::Open(flags.index, flags.open, &progress));
    placements = index->Placements();
    choices = index->Choices();
    bytes = CompareWithFormulas(placements, index->info());
    if (index->on_block_tier()) read_buffers = flags.open.read_buffer_bytes;
  }
  if (flags.json) {
    nlohmann::ordered_json object = {{"placements", ToJson(placements)}};
    if (!choices.empty()) object["choices"] = choices;
    if (bytes.has_value()) {
      object["fast_bytes"] = {{"live", bytes->fast}, {"formula", bytes->fast_formula}};
      object["each_search_thread"] = {{"read_buffer_bytes", read_buffers},
                                      {"scratch_bytes", ReservedFastBytes(0, 1)}};
      object["node_bytes"] = {{"live", bytes->slow}, {"formula", bytes->slow_formula}};
    }
    return PrintJson(object);
  }
  std::cout << "  structure        tier                      bytes  where\n";
  for (const auto& p : placements)
    std::cout << absl::StrFormat("  %-16s %-18s %12d  %s\n", p.structure, p.tier, p.bytes, p.where);
  for (const std::string& choice : choices) std::cout << "  " << choice << '\n';
  if (bytes.has_value()) {
    std::cout << absl::StrFormat(
                     "\n  upper links, promoted vectors and codes: %d bytes, formula %d\n",
                     bytes->fast, bytes->fast_formula)
              << absl::StrFormat(
                     "  l0: %d bytes with labels and padding, formula without them %d\n",
                     bytes->slow, bytes->slow_formula)
              << absl::StrFormat(
                     "  besides, for each searching thread: %s for reads of L0, about %s of "
                     "scratch\n",
                     FormatSize(read_buffers), FormatSize(ReservedFastBytes(0, 1)));
  }
  return absl::OkStatus();
}

absl::Status DescribeCollection(const InfoFlags& flags) {
  Progress progress;
  HMANN_ASSIGN_OR_RETURN(const std::shared_ptr<Collection> collection,
                         OpenFolder(flags.index, ForReading(flags.open), progress));
  const CollectionInfo info = collection->info();
  InfoFlags of_sealed = flags;
  of_sealed.index = info.sealed_file;
  const bool live = flags.live && !of_sealed.index.empty();
  if (flags.json) return live ? DescribeLive(of_sealed) : PrintJson(ToJson(info));
  std::cout << absl::StrFormat("%s  (collection %s)\n  %d vectors, %d x %s, metric %s\n",
                               flags.index, info.id, info.live, info.dim,
                               std::string(Name(info.dtype)), std::string(Name(info.metric)))
            << absl::StrFormat(
                   "  sealed index   %d vectors, %d of them dead%s\n"
                   "  not in it      %d vectors, %d of them not in a graph yet; %s of memory\n"
                   "  journal        %s; write %d is the last, the sealed index has those to %d\n",
                   info.sealed_rows, info.sealed_dead,
                   info.sealed_file.empty() ? "" : ": " + info.sealed_file, info.delta_rows,
                   info.loose_rows, FormatSize(info.delta_bytes), FormatSize(info.journal_bytes),
                   info.sequence, info.covered);
  if (!info.last_error.empty()) std::cout << "  last error     " << info.last_error << '\n';
  return live ? DescribeLive(of_sealed) : absl::OkStatus();
}

}  // namespace

CommandAction SetupInfo(CLI::App& app) {
  auto flags = std::make_shared<InfoFlags>();
  CLI::Option* index =
      app.add_option("INDEX", flags->index, "index file, or folder of a collection");
  app.add_flag("--cpu", flags->cpu,
               "show the SIMD levels of this build and CPU instead (HMANN_SIMD forces one)")
      ->excludes(index);
  CLI::Option* live =
      app.add_flag("--live", flags->live,
                   "open INDEX and show where each structure lies, as the kernel reports");
  AddConnectFlags(app, &flags->connect);
  app.add_option("--server", flags->server,
                 "with --live: HOST:PORT of a server that serves an index named INDEX")
      ->needs(live);
  AddTierFlags(app, &flags->open);
  app.add_flag("--json", flags->json, "print one JSON object on stdout");
  app.callback([flags] {
    if (flags->index.empty() && !flags->cpu) throw CLI::RequiredError("INDEX");
  });
  return [flags]() -> absl::Status {
    if (flags->cpu) return DescribeCpu(flags->json);
    if (flags->server.empty() && Collection::Is(flags->index)) return DescribeCollection(*flags);
    if (flags->live) return DescribeLive(*flags);
    HMANN_ASSIGN_OR_RETURN(const IndexInfo info, ReadInfo(flags->index));
    if (flags->json) return PrintJson(InfoJson(flags->index, info));
    PrintInfo(info, flags->index);
    std::cout << Describe(ReadCalibration(flags->index, info));
    return absl::OkStatus();
  };
}

}  // namespace hmann::tools
