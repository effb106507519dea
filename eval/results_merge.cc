#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "eval/results.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"

namespace hmann::eval {
namespace {

std::string FileOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// What must be equal for two results to be shown side by side.
Json Comparable(const Json& head) {
  const Json &data = head["data"], &machine = head["environment"];
  Json must = {{"queries", FileOf(data.value("queries", ""))}, {"clock", head["clock"]}};
  for (const char* key : {"n", "dim", "dtype", "metric", "k", "query_count"})
    must[key] = data.value(key, Json());
  for (const char* key : {"cpu", "cores", "memory_bytes"}) must[key] = machine.value(key, Json());
  return must;
}

/// The values of two arrays, each once, ascending.
Json Union(const Json& a, const Json& b) {
  std::set<Json> all(a.begin(), a.end());
  all.insert(b.begin(), b.end());
  return Json(all);
}

/// A system over its data.
std::string KeyOf(const Json& line) {
  return absl::StrCat(JsonText(line.value("data", Json())), " ", JsonText(line["system"]));
}

/// Adds the lines of one more file. `taken`: the systems of those before it.
class Joining {
 public:
  Joining(const std::string& path, const std::vector<Json>& lines, std::set<std::string>* taken)
      : lines_(lines) {
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    suffix_ = absl::StrCat(" (", folder.filename().string(), ")");
    if (!ChooseNames(*taken)) {
      suffix_ = absl::StrCat(" (", folder.string(), ")");
      ChooseNames(*taken);
    }
    for (const Json& line : lines_) {
      for (const Json& curve : line.value("curves", Json::array())) own_.insert(curve["name"]);
    }
    for (const Json& line : lines_)
      if (line.contains("system")) taken->insert(KeyOf(Renamed(line)));
  }

  Json Renamed(Json line) const {
    if (!line.contains("system")) return line;
    for (const char* key : {"system", "device"}) {
      if (!line.contains(key)) continue;
      Json named = line;
      named["system"] = line[key];
      if (systems_.contains(KeyOf(named))) line[key] = Suffixed(line[key]);
    }
    if (!line.contains("curves")) return line;
    for (Json& curve : line["curves"]) {
      Json& beside = curve["beside"];
      if (!beside.contains("reference")) beside["reference"] = lines_[0].value("reference", "");
      if (!own_.contains(beside["reference"])) beside["reference"] = "";
      for (Json& name : beside)
        if (curves_.contains(name)) name = Suffixed(name);
      if (curves_.contains(curve["name"])) curve["name"] = Suffixed(curve["name"]);
    }
    return line;
  }

 private:
  std::string Suffixed(const Json& name) const { return name.get<std::string>() + suffix_; }

  /// Finds what needs the suffix. false: the name with it is taken, too.
  bool ChooseNames(const std::set<std::string>& taken) {
    bool free = true;
    for (const Json& line : lines_) {
      if (!line.contains("system") || !taken.contains(KeyOf(line))) continue;
      systems_.insert(KeyOf(line));
      for (const Json& curve : line.value("curves", Json::array())) curves_.insert(curve["name"]);
      Json suffixed = line;
      suffixed["system"] = Suffixed(line["system"]);
      free = free && !taken.contains(KeyOf(suffixed));
    }
    return free;
  }

  const std::vector<Json>& lines_;
  std::string suffix_;
  std::set<std::string> systems_;  ///< KeyOf
  std::set<Json> own_, curves_;    ///< names of curves: of the file, and those renamed
};

}  // namespace

absl::StatusOr<std::vector<Json>> MergeResults(const std::vector<std::string>& paths) {
  std::vector<Json> all;
  std::set<std::string> taken;
  Json merged = Json::array();
  for (const std::string& path : paths) {
    if (std::count(paths.begin(), paths.end(), path) > 1)
      return InvalidArgument(path, ": expected each file once");
    HMANN_ASSIGN_OR_RETURN(const std::vector<Json> lines, ReadResults(path));
    const Json one = {{{"file", path}, {"environment", lines[0]["environment"]}}};
    for (const Json& file : lines[0].value("merged", one)) merged.push_back(file);
    const Joining joining(path, lines, &taken);
    if (all.empty()) {
      all = lines;
      continue;
    }
    Json& head = all[0];
    const Json expected = Comparable(head), found = Comparable(lines[0]);
    for (const auto& [key, value] : expected.items()) {
      if (found[key] != value)
        return InvalidArgument(path, ": ", key, ": expected ", JsonText(value), ", as in ",
                               paths[0], ", found ", JsonText(found[key]));
    }
    for (const char* key : {"targets", "shapes"}) head[key] = Union(head[key], lines[0][key]);
    head["rounds"] = std::min(head["rounds"].get<int>(), lines[0]["rounds"].get<int>());
    for (auto line = lines.begin() + 1; line != lines.end(); ++line) {
      const bool known = (*line)["kind"] == "data" && std::count(all.begin(), all.end(), *line) > 0;
      if (!known) all.push_back(joining.Renamed(*line));
    }
  }
  if (paths.size() > 1) all[0]["merged"] = merged;
  return all;
}

}  // namespace hmann::eval
