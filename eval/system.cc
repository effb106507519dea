#include "eval/system.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "datasets/ground_truth.h"
#include "eval/adapters/build_cache.h"
#include "index/base/cgroup.h"
#include "index/base/file.h"
#include "index/base/parse_json.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann::eval {
namespace {

using std::chrono::milliseconds;

/// The last lines that a program printed to stderr, for an error message; empty if none.
std::string TailOfLog(const std::string& log) {
  const absl::StatusOr<std::string> text = ReadTextFile(log, 64_MiB);
  if (!text.ok()) return "";
  const std::string tail = text->substr(text->size() > 800 ? text->size() - 800 : 0);
  std::vector<std::string> lines = absl::StrSplit(tail, '\n', absl::SkipWhitespace());
  std::string last;
  for (std::size_t i = lines.size() > 3 ? lines.size() - 3 : 0; i < lines.size(); ++i)
    absl::StrAppend(&last, "\n  | ", lines[i]);
  return last;
}

absl::StatusOr<double> PositiveIn(const Json& line, const char* key) {
  const auto value = line.find(key);
  if (value == line.end() || !value->is_number() || !(value->get<double>() > 0))
    return InvalidArgument("expected a positive number '", key, "', found ", JsonText(line));
  return value->get<double>();
}

/// A value of an unexpected type counts as absent.
absl::StatusOr<Json> ParseReady(const Json& line) {
  if (!line.contains("ready") || !line["ready"].is_string())
    return InvalidArgument("expected {\"ready\": \"name\", ...}, found ", JsonText(line));
  Json ready = {
      {"library", line["ready"]},  {"index_file", ""},         {"cached", false},
      {"finished", false},         {"counts", false},          {"waits", false},
      {"settings", Json::array()}, {"build_seconds", nullptr}, {"build_cpu_seconds", nullptr},
      {"build_threads", nullptr},  {"phases", Json::object()}, {"peak_anonymous_bytes", nullptr},
      {"work_bytes", nullptr}};
  for (const auto& [key, value] : ready.items()) {
    const Json said = line.value(key, Json());
    if (value.is_null() ? said.is_number() : said.type() == value.type()) value = said;
  }
  if (!ready["finished"].get<bool>())
    HMANN_RETURN_IF_ERROR(PositiveIn(line, "build_seconds").status());
  HMANN_ASSIGN_OR_RETURN(const double bytes, PositiveIn(line, "index_bytes"));
  ready["index_bytes"] = static_cast<std::uint64_t>(bytes);
  return ready;
}

std::vector<std::string> Arguments(const SystemSpec& spec, const BenchmarkData& job) {
  std::vector<std::string> arguments = spec.command;
  const auto add = [&](const char* option, const std::string& value) {
    arguments.emplace_back(option);
    arguments.push_back(value);
  };
  if (!job.base.empty()) add("--base", job.base);
  add("--queries", job.queries);
  if (job.rows > 0) add("--rows", absl::StrCat(job.rows));
  if (job.query_rows > 0) add("--query-rows", absl::StrCat(job.query_rows));
  add("--metric", std::string(Name(job.metric)));
  add("--m", absl::StrCat(job.m));
  add("--ef-construction", absl::StrCat(job.ef_construction));
  add("--threads", absl::StrCat(job.threads));
  add("--k", absl::StrCat(job.k));
  if (!job.mask.empty()) add("--mask", job.mask);
  if (!spec.build.empty()) add("--settings", JsonText(spec.build));
  if (!job.work.empty()) add("--work", job.work);
  return arguments;
}

/// Reads "latency_us": {"mean": .., "p50": .., "p99": ..}; nullopt if absent.
absl::StatusOr<std::optional<LatencyUs>> ReadLatency(const Json& line) {
  const auto said = line.find("latency_us");
  if (said == line.end()) return std::nullopt;
  LatencyUs latency;
  for (const auto& [key, value] : {std::pair("mean", &latency.mean), std::pair("p50", &latency.p50),
                                   std::pair("p99", &latency.p99)}) {
    HMANN_ASSIGN_OR_RETURN(*value, PositiveIn(said->is_object() ? *said : Json::object(), key));
  }
  return latency;
}

/// The kernel's count of bytes that disks gave to a process; 0 if it is not available.
std::uint64_t DiskBytesRead(pid_t pid) {
  return ReadKey(absl::StrCat("/proc/", pid, "/io"), "read_bytes:");
}

absl::Status ReadCounters(const Json& line, RunAnswer* answer) {
  if (!line.contains("counters") || !line["counters"].is_object())
    return InvalidArgument("expected 'counters', found ", JsonText(line));
  answer->counters = line["counters"];
  return absl::OkStatus();
}

absl::Status ReadTimes(const Json& line, RunAnswer* answer) {
  HMANN_ASSIGN_OR_RETURN(answer->seconds, PositiveIn(line, "seconds"));
  HMANN_ASSIGN_OR_RETURN(answer->cpu_seconds, PositiveIn(line, "cpu_seconds"));
  HMANN_ASSIGN_OR_RETURN(answer->latency, ReadLatency(line));
  return absl::OkStatus();
}

absl::Status ReadAnswers(const std::string& path, std::uint64_t queries, std::uint32_t k,
                         std::vector<std::uint64_t>* ids) {
  HMANN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  std::uint32_t header[2] = {0, 0};
  if (file.bytes().size() >= sizeof header) std::memcpy(header, file.bytes().data(), sizeof header);
  const std::uint64_t expected = 8 + 4 * queries * k;
  if (header[0] != queries || header[1] != k || file.bytes().size() != expected) {
    return InvalidArgument(path, ": expected ", queries, " x ", k, " ids in ", expected,
                           " bytes, found ", header[0], " x ", header[1], " in ",
                           file.bytes().size());
  }
  std::vector<std::uint32_t> narrow(queries * k);
  std::memcpy(narrow.data(), file.bytes().data() + 8, narrow.size() * 4);
  ids->clear();
  for (const std::uint32_t id : narrow) ids->push_back(IdOfFile(id));
  return absl::OkStatus();
}

}  // namespace

absl::Status System::Error(const absl::Status& status) const {
  if (status.code() == absl::StatusCode::kCancelled) return status;
  return absl::Status(status.code(),
                      absl::StrCat("system ", spec_.name, ": ", status.message(), TailOfLog(log_)));
}

absl::StatusOr<System> System::Start(SystemSpec spec, const BenchmarkData& job) {
  if (Utf8(job.folder) != job.folder)
    return InvalidArgument(job.folder, ": expected a name in UTF-8: systems are told it as JSON");
  System system;
  system.spec_ = std::move(spec);
  system.job_ = job;
  const std::string stem = absl::StrCat(job.folder, "/", FileName(system.name()));
  system.log_ = stem + ".log";
  system.answers_ = stem + ".answers.ibin";
  HMANN_ASSIGN_OR_RETURN(
      system.process_,
      ChildProcess::Start(Arguments(system.spec_, job), system.log_, system.spec_.memory_group));
  absl::StatusOr<Json> line = system.Receive(job.build_timeout);
  if (!line.ok()) return line.status();
  absl::StatusOr<Json> ready = ParseReady(*line);
  if (!ready.ok()) return system.Error(ready.status());
  system.ready_ = *std::move(ready);
  if (system.spec_.settings.is_null()) system.spec_.settings = system.ready_["settings"];
  const Json& settings = system.spec_.settings;
  if (!settings.is_array() || settings.empty() ||
      !std::all_of(settings.begin(), settings.end(), [](const Json& s) { return s.is_object(); })) {
    return system.Error(
        InvalidArgument("settings: expected an array of objects, found ", JsonText(settings)));
  }
  return system;
}

absl::StatusOr<Json> System::Receive(milliseconds timeout) {
  absl::StatusOr<std::string> text = process_.ReadLine(timeout, job_.cancelled);
  if (!text.ok()) return Error(text.status());
  Json line = ParseJson<Json>(*text);
  if (!line.is_object()) {
    return Error(InvalidArgument("expected a line of JSON, an object, found '",
                                 absl::CHexEscape(text->substr(0, 200)), "'"));
  }
  if (line.contains("error")) {
    return Error(FailedPrecondition(line["error"].is_string() ? line["error"].get<std::string>()
                                                              : JsonText(line["error"])));
  }
  return line;
}

absl::StatusOr<Json> System::Call(const Json& command) {
  const absl::Status sent = process_.WriteLine(JsonText(command));
  // If the program is gone, Receive reports how it ended.
  HMANN_ASSIGN_OR_RETURN(Json line, Receive(job_.run_timeout));
  if (!sent.ok()) return Error(sent);
  return line;
}

absl::Status System::WarmUp(const Json& setting, std::uint64_t queries) {
  HMANN_ASSIGN_OR_RETURN(const Json line, Call({{"warm_up", setting}, {"queries", queries}}));
  if (line.contains("warmed")) return absl::OkStatus();
  return Error(InvalidArgument("expected {\"warmed\": ", queries, "}, found ", JsonText(line)));
}

absl::StatusOr<RunAnswer> System::Run(const Json& setting, bool count) {
  std::error_code ignored;
  // The previous run's answers must not pass for those of this one.
  std::filesystem::remove(answers_, ignored);
  Json command = {{"run", setting}, {"answers", answers_}};
  if (count) command["count"] = true;
  const std::uint64_t read_before = DiskBytesRead(process_.pid());
  HMANN_ASSIGN_OR_RETURN(const Json line, Call(command));
  RunAnswer answer;
  const std::uint64_t read_after = DiskBytesRead(process_.pid());
  answer.read_bytes = read_after - std::min(read_before, read_after);
  absl::Status read = count ? ReadCounters(line, &answer) : ReadTimes(line, &answer);
  if (read.ok()) read = ReadAnswers(answers_, job_.query_count, job_.k, &answer.ids);
  if (!read.ok()) return Error(read);
  std::filesystem::remove(answers_, ignored);
  return answer;
}

absl::Status System::Stop() {
  // If the program is already dead, Stop reports it.
  const absl::Status ignored = process_.WriteLine(R"({"quit": true})");
  const std::string end = process_.Stop(milliseconds(10000));
  if (end != "exit code 0") return Error(Internal("it ended with ", end));
  return absl::OkStatus();
}

}  // namespace hmann::eval
