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

/// " (FOLDER)": the name of the file's folder, or all of it if another one has that name.
std::string SuffixOf(const std::string& path, const std::vector<std::string>& paths) {
  const auto folder = [](const std::string& of) { return std::filesystem::path(of).parent_path(); };
  const auto same = [&](const auto& of) {
    return folder(of).filename() == folder(path).filename();
  };
  const bool unique = std::count_if(paths.begin(), paths.end(), same) == 1;
  return absl::StrCat(" (", (unique ? folder(path).filename() : folder(path)).string(), ")");
}

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

Json KeyOf(const Json& line) {
  return Json::array({line.value("data", Json()), line.value("system", Json())});
}

/// Tells the systems of a file from those of `taken` (data, system) by a suffix, and adds
/// them. Its curves are compared with its own.
void Distinguish(const std::string& suffix, std::set<Json>* taken, std::vector<Json>* lines) {
  std::set<Json> clashing, own, renamed;  // systems; curves
  for (const Json& line : *lines)
    if (taken->contains(KeyOf(line))) clashing.insert(line["system"]);
  for (const Json& line : *lines) {
    for (const Json& curve : line.value("curves", Json::array()))
      (clashing.contains(line["system"]) ? renamed : own).insert(curve["name"]);
  }
  const auto append = [&](const std::set<Json>& of, Json* name) {
    if (of.contains(*name)) *name = name->get<std::string>() + suffix;
  };
  const std::string reference = lines->front().value("reference", "");
  for (Json& line : *lines) {
    if (!line.contains("system")) continue;
    append(clashing, &line["system"]);
    taken->insert(KeyOf(line));
    if (!line.contains("curves")) continue;
    append(clashing, &line["device"]);
    for (Json& curve : line["curves"]) {
      Json& beside = curve["beside"];
      if (!beside.contains("reference"))
        beside["reference"] =
            own.contains(reference) || renamed.contains(reference) ? reference : "";
      for (Json& name : beside) append(renamed, &name);
      append(renamed, &curve["name"]);
    }
  }
}

}  // namespace

absl::StatusOr<std::vector<Json>> MergeResults(const std::vector<std::string>& paths) {
  std::vector<Json> all;
  std::set<Json> taken;
  Json merged = Json::array();
  for (const std::string& path : paths) {
    if (std::count(paths.begin(), paths.end(), path) > 1)
      return InvalidArgument(path, ": expected each file once");
    HMANN_ASSIGN_OR_RETURN(std::vector<Json> lines, ReadResults(path));
    const Json one = {{{"file", path}, {"environment", lines[0]["environment"]}}};
    for (const Json& file : lines[0].value("merged", one)) merged.push_back(file);
    if (all.empty()) all.push_back(lines[0]);
    Json& head = all[0];
    const Json expected = Comparable(head), found = Comparable(lines[0]);
    for (const auto& [key, value] : expected.items()) {
      if (found[key] != value)
        return InvalidArgument(path, ": ", key, ": expected ", JsonText(value), ", as in ",
                               paths[0], ", found ", JsonText(found[key]));
    }
    for (const char* key : {"targets", "shapes"}) head[key] = Union(head[key], lines[0][key]);
    head["rounds"] = std::min(head["rounds"].get<int>(), lines[0]["rounds"].get<int>());
    if (paths.size() > 1) Distinguish(SuffixOf(path, paths), &taken, &lines);
    for (auto line = lines.begin() + 1; line != lines.end(); ++line) {
      const bool known = (*line)["kind"] == "data" && std::count(all.begin(), all.end(), *line) > 0;
      if (!known) all.push_back(std::move(*line));
    }
  }
  if (paths.size() > 1) all[0]["merged"] = merged;
  return all;
}

}  // namespace hmann::eval
