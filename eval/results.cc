#include "eval/results.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "index/base/file.h"
#include "index/base/parse_json.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann::eval {
namespace {

/// Whether a line has what its readers take for granted.
bool HasKeys(const Json& line) {
  static const auto* needed = new std::map<std::string, std::vector<const char*>>{
      {"benchmark",
       {"version", "title", "data", "build", "environment", "rounds", "clock", "targets",
        "shapes"}},
      {"system", {"system", "data", "place", "synthetic", "device", "curves"}},
      {"count", {"system", "data", "setting", "counters"}},
      {"run", {"system", "data", "setting", "recall", "seconds", "cpu_seconds"}}};
  const auto found = needed->find(line["kind"].get<std::string>());
  return found == needed->end() || line.contains("offered") ||
         std::all_of(found->second.begin(), found->second.end(),
                     [&](const char* key) { return line.contains(key); });
}

std::string OneLine(const Json& line) { return JsonText(line) + "\n"; }

/// The runs of a system, by setting.
struct SystemRuns {
  Json line;
  std::vector<SettingRuns> settings;

  SettingRuns& Of(const Json& setting) {
    for (SettingRuns& runs : settings)
      if (runs.setting == setting) return runs;
    settings.push_back({setting, nullptr, {}, {}, {}});
    return settings.back();
  }
};

void AddRun(const Json& line, SettingRuns* runs) {
  runs->recall.push_back(line["recall"].get<double>());
  runs->seconds.push_back(line["seconds"].get<double>());
  runs->cpu_seconds.push_back(line["cpu_seconds"].get<double>());
  runs->noisy.push_back(line.value("noisy", false));
  for (const char* name : {"mean_us", "p50_us", "p99_us", "cpu_us", "read_bytes"}) {
    if (line.contains(name) && line[name].is_number())
      runs->observed[name].push_back(line[name].get<double>());
  }
}

/// Adds a curve of a system for each shape that its settings have.
void AddCurves(const SystemRuns& system, const Json& spec, bool shaped,
               std::vector<Curve>* curves) {
  std::vector<Curve> of_spec;
  for (const SettingRuns& runs : system.settings) {
    if (runs.seconds.empty() || !Matches(runs.setting, spec["match"])) continue;
    const RunShape shape = ShapeOfSetting(runs.setting);
    auto found = std::find_if(of_spec.begin(), of_spec.end(), [&](const Curve& curve) {
      return curve.shape.threads == shape.threads && curve.shape.in_flight == shape.in_flight;
    });
    if (found == of_spec.end()) {
      const std::string name = spec["name"].get<std::string>();
      std::string label = name;
      if (shaped)
        absl::StrAppend(&label, ", ", shape.threads, shape.threads == 1 ? " thread" : " threads");
      if (shaped && shape.in_flight > 1)
        absl::StrAppend(&label, ", ", shape.in_flight, " in flight");
      of_spec.push_back({name, label, system.line, spec, shape, {}});
      found = of_spec.end() - 1;
    }
    found->settings.push_back(runs);
  }
  for (Curve& curve : of_spec) curves->push_back(std::move(curve));
}

}  // namespace

absl::Status ResultFile::Open(const std::string& folder) {
  HMANN_ASSIGN_OR_RETURN(path_, FileToWrite(absl::StrCat(folder, "/results.jsonl")));
  HMANN_ASSIGN_OR_RETURN(part_, FileToWrite(path_ + ".part"));
  out_.open(part_, std::ios::trunc);
  return Check();
}

absl::Status ResultFile::Write(Json line) {
  out_ << OneLine(line) << std::flush;
  lines_.push_back(std::move(line));
  return Check();
}

absl::StatusOr<std::vector<Json>> ResultFile::Commit() {
  out_.close();
  HMANN_RETURN_IF_ERROR(Check());
  if (std::rename(part_.c_str(), path_.c_str()) != 0) return ErrnoError(errno, "rename", path_);
  return std::move(lines_);
}

absl::Status ResultFile::Check() {
  if (out_.good()) return absl::OkStatus();
  return ResourceExhausted("write ", part_, ": the disk does not take it");
}

absl::StatusOr<std::vector<Json>> ReadResults(const std::string& path) {
  HMANN_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, 1_GiB));
  std::vector<Json> lines;
  for (const auto line : absl::StrSplit(absl::StripSuffix(text, "\n"), '\n')) {
    lines.push_back(ParseJson<Json>({line.data(), line.size()}));
    const Json& read = lines.back();
    const bool first = lines.size() == 1;
    if (read.is_object() && read.value("kind", Json()).is_string() &&
        (read["kind"] == "benchmark") == first && HasKeys(read))
      continue;
    return InvalidArgument(path, ": line ", lines.size(), ": expected an object of kind ",
                           first ? "benchmark, with a version" : "system, run, count, ...",
                           ", with its keys, found something else");
  }
  if (lines[0]["version"] != kResultsVersion)
    return InvalidArgument(path, ": line 1: expected version ", kResultsVersion, ", found ",
                           JsonText(lines[0]["version"]));
  return lines;
}

absl::Status WriteResults(const std::string& path, const std::vector<Json>& lines) {
  return WriteTextFile(path, absl::StrJoin(lines, "", [](std::string* out, const Json& line) {
                         absl::StrAppend(out, OneLine(line));
                       }));
}

std::vector<Curve> CurvesOf(const std::vector<Json>& lines) {
  std::vector<SystemRuns> systems;
  std::map<std::pair<double, std::string>, std::size_t> place_of;
  const auto of = [&](const Json& line) -> SystemRuns* {
    const auto found =
        place_of.find({line["data"].get<double>(), line["system"].get<std::string>()});
    return found == place_of.end() ? nullptr : &systems[found->second];
  };
  for (const Json& line : lines) {
    const std::string kind = line["kind"].get<std::string>();
    if (kind == "system") {
      place_of[{line["data"].get<double>(), line["system"].get<std::string>()}] = systems.size();
      systems.push_back({line, {}});
    } else if (kind == "count") {
      if (SystemRuns* system = of(line)) system->Of(line["setting"]).counters = line["counters"];
    } else if (kind == "run" && !line.contains("offered")) {
      if (SystemRuns* system = of(line)) AddRun(line, &system->Of(line["setting"]));
    }
  }
  std::vector<Curve> curves;
  for (SystemRuns& system : systems) {
    // Counted once for all numbers of threads.
    for (SettingRuns& runs : system.settings) {
      for (const SettingRuns& other : system.settings) {
        if (runs.counters.is_null() &&
            SettingWithoutThreads(other.setting) == SettingWithoutThreads(runs.setting))
          runs.counters = other.counters;
      }
    }
    for (const Json& spec : system.line["curves"])
      AddCurves(system, spec, !lines[0]["shapes"].empty(), &curves);
  }
  std::stable_sort(curves.begin(), curves.end(), [](const Curve& a, const Curve& b) {
    const double n = a.system["data"].get<double>(), m = b.system["data"].get<double>();
    return n != m ? n < m : a.shape.threads < b.shape.threads;
  });
  return curves;
}

}  // namespace hmann::eval
