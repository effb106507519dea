#include "eval/own_contestants.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;

const Json kOnNvme = {{"fast", "dram"}, {"slow", "nvme"}};

absl::StatusOr<std::string> FindProgram(const std::string& name) {
  std::vector<std::string> folders;
  if (const char* told = std::getenv("HMANN_ADAPTER_DIR"); told != nullptr)
    folders.emplace_back(told);
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& folder : {here, here / "../../libexec/hmann"})
    folders.push_back(folder.lexically_normal().string());
  for (const std::string& folder : folders) {
    const std::string program = absl::StrCat(folder, "/", name);
    if (::access(program.c_str(), X_OK) == 0) return program;
  }
  return absl::NotFoundError(absl::StrCat("program ", name, ": expected in one of ",
                                          absl::StrJoin(folders, ", "), ", found in none"));
}

}  // namespace

std::vector<std::string> OwnContestantNames(DType dtype, Metric metric) {
  std::vector<std::string> names = {"hmann", "hmann-batch", "hmann-aa", "hnswlib"};
  if (dtype == DType::kU8 && metric == Metric::kL2) names.emplace_back("hnswlib-u8");
  names.emplace_back("faiss");
  return names;
}

absl::StatusOr<ContestantSpec> OwnContestant(const std::string& name, const Json& build_of_hmann) {
  ContestantSpec spec;
  spec.name = name;
  std::string program;
  if (name == "hmann" || name == "hmann-batch" || name == "hmann-aa" || name == "hmann-insertion") {
    program = "hmann_adapter";
    spec.keeps_several = true;
    spec.build = build_of_hmann;
    if (name == "hmann-batch") spec.build["in_flight"] = 4;
    if (name == "hmann-aa") spec.again_of = "hmann";
    if (name == "hmann-insertion") spec.build["method"] = "insertion";
  } else if (name == "hnswlib" || name == "hnswlib-u8") {
    program = "hnswlib_adapter";
    spec.build = {{"distance", name == "hnswlib" ? "float" : "u8"}};
  } else if (name == "faiss" || name == "faiss-sq8" || name == "faiss-ivfpq") {
    program = "faiss_adapter";
    spec.build = {{"index", name == "faiss" ? "hnsw" : name == "faiss-sq8" ? "hnsw-sq8" : "ivfpq"}};
  } else if (name == "hnsw-tiers") {
    program = "tiers_adapter";
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("contestants: expected some of hmann, hmann-batch, hmann-aa, hmann-insertion, "
                     "hnswlib, hnswlib-u8, faiss, faiss-sq8, faiss-ivfpq, found '",
                     name, "'"));
  }
  HMANN_ASSIGN_OR_RETURN(program, FindProgram(program));
  spec.command = {program};
  return spec;
}

absl::StatusOr<ContestantSpec> FinishedContestant(const std::string& name, const Json& build) {
  ContestantSpec spec;
  spec.name = name;
  spec.build = build;
  spec.keeps_several = true;
  HMANN_ASSIGN_OR_RETURN(
      const std::string program,
      FindProgram(build.contains("server") ? "server_adapter" : "hmann_adapter"));
  spec.command = {program};
  return spec;
}

Json Ladder(const std::string& walk, const std::string& slow, Metric metric) {
  Json settings = Json::array();
  const auto add = [&](int ef_l1, int ef_l0, const Json& more = Json::object()) {
    settings.push_back({{"walk", walk}, {"ef_l1", ef_l1}, {"ef_l0", ef_l0}});
    settings.back().update(more);
  };
  const bool quantised = walk == "quantised";
  if (slow.starts_with("nvme") && !quantised) {
    // More work in L1 saves reads: it is in fast memory.
    for (const auto& [ef_l1, ef_l0] : {std::pair(8, 10),
                                       {16, 16},
                                       {32, 24},
                                       {48, 36},
                                       {64, 56},
                                       {64, 90},
                                       {96, 140},
                                       {128, 220},
                                       {192, 360}})
      add(ef_l1, ef_l0);
  } else if (slow.starts_with("nvme")) {
    // Each round trip to a device costs more than what is computed: wide rounds.
    for (const auto& [ef_l1, ef_l0, nprobe, stop] : {std::tuple(32, 12, 64, 1.0),
                                                     {32, 20, 64, 1.0},
                                                     {64, 20, 128, 1.0},
                                                     {64, 30, 128, 1.0},
                                                     {64, 60, 128, 1.5},
                                                     {128, 30, 256, 1.0},
                                                     {128, 60, 256, 1.5},
                                                     {128, 120, 256, 2.0},
                                                     {256, 60, 512, 1.5},
                                                     {256, 120, 512, 2.0},
                                                     {256, 250, 512, 3.0}})
      add(ef_l1, ef_l0, {{"nprobe", nprobe}, {"beam_width", 16}, {"error_bound", stop}});
  } else if (metric == Metric::kInnerProduct) {
    for (const int width : {10, 16, 24, 36, 56, 80, 120, 180, 270, 400})
      add(quantised ? 16 : 1, width);
  } else {
    // Of small sets or good codes, any reach finds nearly all: widths end sooner.
    const Json start = quantised ? Json{{"nprobe", 0}} : Json::object();
    for (const int width : {10, 14, 20, 30}) add(quantised ? 2 : 1, width, start);
    for (const double epsilon :
         {0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.15, 0.18, 0.22, 0.27, 0.33, 0.4, 0.6}) {
      add(quantised ? 16 : 1, 400, start);
      settings.back()["epsilon"] = epsilon;
    }
  }
  return settings;
}

namespace {

/// A contestant a walk, and the first once more.
std::vector<ContestantSpec> ByWalk(const ContestantSpec& hmann, bool codes, Metric metric) {
  std::vector<ContestantSpec> walks;
  for (const char* walk : {"quantised", "best-first"}) {
    if (!codes && walk == std::string_view("quantised")) continue;
    walks.push_back(hmann);
    walks.back().name = absl::StrCat("hmann ", walk);
    walks.back().settings = Ladder(walk, "nvme", metric);
  }
  walks.push_back(walks[0]);
  walks.back().again_of = walks[0].name;
  walks.back().name += " again";
  return walks;
}

}  // namespace

absl::StatusOr<std::vector<ContestantSpec>> DiskContestants(DType dtype, Metric metric,
                                                            Json build) {
  build.update(kOnNvme);
  HMANN_ASSIGN_OR_RETURN(const ContestantSpec hmann, OwnContestant("hmann", build));
  const bool integer = dtype == DType::kU8 && metric == Metric::kL2;
  HMANN_ASSIGN_OR_RETURN(ContestantSpec rival,
                         OwnContestant(integer ? "hnswlib-u8" : "hnswlib", {}));
  rival.name = "hnswlib";
  rival.build["level0"] = "mapped";
  rival.settings = Json::array();
  for (const int ef : {10, 16, 26, 40, 64, 100, 160}) rival.settings.push_back({{"ef", ef}});
  std::vector<ContestantSpec> contestants = ByWalk(hmann, true, metric);
  contestants.push_back(std::move(rival));
  return contestants;
}

absl::StatusOr<std::vector<ContestantSpec>> DiskContestants(const std::string& index) {
  HMANN_ASSIGN_OR_RETURN(const IndexInfo info, ReadInfo(index));
  Json build = {{"index", index}};
  build.update(kOnNvme);
  HMANN_ASSIGN_OR_RETURN(const ContestantSpec hmann, FinishedContestant("hmann", build));
  return ByWalk(hmann, info.codes.bits > 0, info.metric);
}

absl::StatusOr<ContestantSpec> ForeignContestant(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("adapter: expected NAME=COMMAND, found '", text, "'"));
  }
  ContestantSpec spec;
  spec.name = text.substr(0, equals);
  // The shell splits the command and adds the sweep's arguments to it; exec, so that
  // signals and the exit code are the program's own.
  spec.command = {"/bin/sh", "-c", absl::StrCat("exec ", text.substr(equals + 1), " \"$@\""), "sh"};
  return spec;
}

}  // namespace hmann
