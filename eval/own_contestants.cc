#include "eval/own_contestants.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;

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

Json BlockTierLadder(const std::string& walk) {
  Json settings = Json::array();
  if (walk == "best-first") {
    // More work in L1 saves reads: it is in fast memory.
    for (const auto& [ef_l1, ef_l0] :
         {std::pair(8, 10), {16, 16}, {32, 32}, {48, 48}, {64, 80}, {96, 128}, {128, 200}})
      settings.push_back({{"walk", walk}, {"ef_l1", ef_l1}, {"ef_l0", ef_l0}});
    return settings;
  }
  for (const auto& [ef_l0, stop] :
       {std::pair(12, 1.0), {20, 1.0}, {30, 1.0}, {60, 1.5}, {150, 2.5}, {400, 3.5}}) {
    settings.push_back({{"walk", walk},
                        {"ef_l1", 64},
                        {"ef_l0", ef_l0},
                        {"nprobe", 128},
                        {"beam_width", 16},
                        {"error_bound", stop}});
  }
  return settings;
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
