#include "eval/builtin_systems.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "index/base/status_macros.h"

namespace hmann::eval {
namespace {

namespace fs = std::filesystem;

/// A system that comes with hmann.
struct Own {
  const char *name, *program;
  Json build;
  const char* again_of = "";
};

const std::vector<Own>& AllOwn() {
  static const auto* all =
      new std::vector<Own>{{"hmann", "hmann_adapter", Json::object()},
                           {"hmann-batch", "hmann_adapter", {{"in_flight", 4}}},
                           {"hmann-aa", "hmann_adapter", Json::object(), "hmann"},
                           {"hmann-insertion", "hmann_adapter", {{"method", "insertion"}}},
                           {"hnswlib", "hnswlib_adapter", {{"distance", "float"}}},
                           {"hnswlib-u8", "hnswlib_adapter", {{"distance", "u8"}}},
                           {"faiss", "faiss_adapter", {{"index", "hnsw"}}},
                           {"faiss-sq8", "faiss_adapter", {{"index", "hnsw-sq8"}}},
                           {"faiss-ivf", "faiss_adapter", {{"index", "ivf"}}},
                           {"faiss-ivfpq", "faiss_adapter", {{"index", "ivfpq"}}},
                           {"faiss-nsg", "faiss_adapter", {{"index", "nsg"}}},
                           {"faiss-imi", "faiss_adapter", {{"index", "imi"}}},
                           {"hnsw-tiers", "tiers_adapter", Json::object()}};
  return *all;
}

absl::StatusOr<std::string> FindProgram(const std::string& name) {
  std::vector<std::string> folders;
  if (const char* reported = std::getenv("HMANN_ADAPTER_DIR"); reported != nullptr)
    folders.emplace_back(reported);
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& folder : {here, here / "../../libexec/hmann"})
    folders.push_back(folder.lexically_normal().string());
  for (const std::string& folder : folders) {
    const std::string program = absl::StrCat(folder, "/", name);
    if (::access(program.c_str(), X_OK) == 0) return program;
  }
  return NotFound("program ", name, ": found in none of ", absl::StrJoin(folders, ", "),
                  "; programs to compare with are built from source (./dev build)");
}

}  // namespace

std::vector<std::string> BuiltinSystemNames(DType dtype, Metric metric) {
  std::vector<std::string> names = {"hmann", "hmann-batch", "hmann-aa", "hnswlib"};
  if (dtype == DType::kU8 && metric == Metric::kL2) names.emplace_back("hnswlib-u8");
  names.emplace_back("faiss");
  return names;
}

absl::StatusOr<SystemSpec> BuiltinSystem(const std::string& name, const Json& build_of_hmann) {
  const auto own = std::find_if(AllOwn().begin(), AllOwn().end(),
                                [&](const Own& one) { return one.name == name; });
  if (own == AllOwn().end()) {
    return InvalidArgument(
        "systems: expected some of ",
        absl::StrJoin(AllOwn(), ", ",
                      [](std::string* out, const Own& one) { absl::StrAppend(out, one.name); }),
        ", found '", name, "'");
  }
  SystemSpec spec;
  spec.name = name;
  spec.again_of = own->again_of;
  spec.keeps_several = name.starts_with("hmann");
  if (spec.keeps_several) spec.build = build_of_hmann;
  spec.build.update(own->build);
  HMANN_ASSIGN_OR_RETURN(const std::string program, FindProgram(own->program));
  spec.command = {program};
  return spec;
}

absl::StatusOr<SystemSpec> FinishedSystem(const std::string& name, const Json& build) {
  SystemSpec spec;
  spec.name = name;
  spec.build = build;
  spec.keeps_several = true;
  HMANN_ASSIGN_OR_RETURN(
      const std::string program,
      FindProgram(build.contains("server") ? "server_adapter" : "hmann_adapter"));
  spec.command = {program};
  return spec;
}

std::vector<SystemSpec> OnDrive(SystemSpec hmann) {
  hmann.build.update({{"fast", "dram"}, {"slow", "nvme"}});
  hmann.by_mode = true;
  SystemSpec again = hmann;
  again.again_of = hmann.name;
  again.name += " again";
  return {std::move(hmann), std::move(again)};
}

absl::StatusOr<SystemSpec> MappedHnswlib(DType dtype, Metric metric) {
  const bool integer = dtype == DType::kU8 && metric == Metric::kL2;
  HMANN_ASSIGN_OR_RETURN(SystemSpec spec, BuiltinSystem(integer ? "hnswlib-u8" : "hnswlib"));
  spec.name = "hnswlib";
  spec.build["level0"] = "mapped";
  spec.settings = Json::array();
  for (const int ef : {10, 16, 26, 40, 64, 100, 160}) spec.settings.push_back({{"ef", ef}});
  return spec;
}

absl::StatusOr<SystemSpec> ForeignSystem(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    return InvalidArgument("adapter: expected NAME=COMMAND, found '", text, "'");
  SystemSpec spec;
  spec.name = text.substr(0, equals);
  // The shell splits the command and appends the sweep's arguments. With exec, signals
  // and the exit code are the program's own.
  spec.command = {"/bin/sh", "-c", absl::StrCat("exec ", text.substr(equals + 1), " \"$@\""), "sh"};
  return spec;
}

}  // namespace hmann::eval
