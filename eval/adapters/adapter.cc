#include "eval/adapters/adapter.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <exception>
#include <iostream>
#include <optional>
#include <span>

#include "CLI/CLI.hpp"
#include "eval/adapters/build_cache.h"
#include "eval/adapters/latency.h"
#include "eval/adapters/shares.h"
#include "index/base/clock.h"
#include "index/base/file.h"
#include "index/base/parse_json.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/distance/reference.h"

namespace hmann::eval {
namespace {

using Json = nlohmann::ordered_json;

/// The stream that the protocol owns. From here on, anything that a library prints to its
/// stdout goes to stderr.
class Wire {
 public:
  Wire() : fd_(::dup(STDOUT_FILENO)) { ::dup2(STDERR_FILENO, STDOUT_FILENO); }

  void Say(const Json& line) {
    const std::string text = JsonText(line) + "\n";
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t wrote = ::write(fd_, text.data() + done, text.size() - done);
      if (wrote < 0 && errno != EINTR) return;  // the reader is gone; stdin will end too
      if (wrote > 0) done += static_cast<std::size_t>(wrote);
    }
  }
  void Say(const absl::Status& error) { Say({{"error", std::string(error.message())}}); }

 private:
  int fd_;
};

/// Parses the arguments of PROTOCOL.md. Returns an exit code if they are wrong (2) or
/// only request help (0).
std::optional<int> ParseJob(int argc, char** argv, AdapterInput* job) {
  CLI::App app("one library behind hmann's evaluation protocol (eval/adapters/PROTOCOL.md)");
  std::string metric = "l2", build = "{}";
  app.add_option("--base", job->base, "vectors to index (\"\": the settings name an index)");
  app.add_option("--queries", job->queries, "query vectors")->required();
  app.add_option("--rows", job->rows, "use only the first rows of --base");
  app.add_option("--query-rows", job->query_rows, "use only the first rows of --queries");
  app.add_option("--metric", metric, "l2, ip, cosine");
  app.add_option("--m", job->m, "M")->check(CLI::Range(2, 1024));
  app.add_option("--ef-construction", job->ef_construction, "beam width of the build")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--threads", job->threads, "threads of the build")->check(CLI::Range(1, 1024));
  app.add_option("--k", job->k, "neighbors per query")->check(CLI::Range(1, 1 << 20));
  app.add_option("--mask", job->mask, "a bit for each row of --base: whether it may be an answer");
  app.add_option("--settings", build, "the library's own build settings, a JSON object");
  app.add_option("--work", job->work, "folder that keeps built indexes");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error, std::cerr, std::cerr) == 0 ? 0 : 2;
  }
  const absl::StatusOr<Metric> parsed = ParseMetric(metric);
  job->build = ParseJson(build);
  if (!parsed.ok() || !job->build.is_object()) {
    std::cerr << (parsed.ok() ? "--settings: expected a JSON object, found " + build
                              : std::string(parsed.status().message()))
              << '\n';
    return 2;
  }
  job->metric = *parsed;
  return std::nullopt;
}

/// Builds or finds the index. Returns its keys of the first line.
absl::StatusOr<Json> BuildOrLoad(const AdapterInput& job, const VectorFile& base,
                                 Adapter& adapter) {
  AdapterInput built_as = job;
  for (const std::string& name : adapter.LoadSettings()) built_as.build.erase(name);
  HMANN_ASSIGN_OR_RETURN(const std::string path, KeptIndexPath(built_as, base, adapter.Describe()));
  std::optional<BuildFigures> kept = KeptFigures(path);
  const bool cached = kept.has_value();
  BuildFigures figures = cached ? *std::move(kept) : BuildFigures::object();
  if (!cached) {
    const double wall = ClockSeconds(CLOCK_MONOTONIC), cpu = ClockSeconds(CLOCK_PROCESS_CPUTIME_ID);
    HMANN_RETURN_IF_ERROR(adapter.Build(job, base, path, &figures));
    figures["build_seconds"] = ClockSeconds(CLOCK_MONOTONIC) - wall;
    figures["build_cpu_seconds"] = ClockSeconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    figures["build_threads"] = job.threads;
    HMANN_RETURN_IF_ERROR(KeepIndex(
        path, [&](const std::string& file) { return adapter.Save(file); }, figures));
  }
  if (cached || adapter.ServesFromFile()) HMANN_RETURN_IF_ERROR(adapter.Load(job, base, path));
  figures["index_file"] = path;
  figures["cached"] = cached;
  return figures;
}

/// A program's state, in addition to its adapter, once its index is ready.
struct Session {
  std::uint32_t queries = 0, k = 0;
  std::vector<int> cpus;  ///< for the searching threads, in turn
};

/// Prepares the index that the job names: opens, loads or builds it.
absl::StatusOr<Json> MakeIndex(const AdapterInput& job, const VectorFile& queries,
                               Adapter& adapter) {
  HMANN_ASSIGN_OR_RETURN(std::optional<BuildFigures> finished, adapter.OpenFinished(job));
  if (finished) {
    (*finished)["finished"] = true;
    return *std::move(finished);
  }
  HMANN_ASSIGN_OR_RETURN(const VectorFile base, VectorFile::Open(job.base, job.rows));
  HMANN_RETURN_IF_ERROR(queries.CheckShape(base.dim(), base.dtype(), job.base));
  if (job.k > base.n())
    return InvalidArgument("k: expected at most the ", base.n(), " vectors, found ", job.k);
  HMANN_RETURN_IF_ERROR(adapter.Check(job, base));
  return BuildOrLoad(job, base, adapter);
}

/// Everything up to the ready line.
absl::StatusOr<Session> Start(const AdapterInput& job, Adapter& adapter, Wire& wire) {
  HMANN_ASSIGN_OR_RETURN(VectorFile query_file, VectorFile::Open(job.queries, job.query_rows));
  HMANN_RETURN_IF_ERROR(
      query_file.FitQueries(query_file.dim(), query_file.dtype(), "the file itself"));
  HMANN_ASSIGN_OR_RETURN(const Json index, MakeIndex(job, query_file, adapter));
  if (!job.mask.empty()) {
    HMANN_ASSIGN_OR_RETURN(const std::string mask, ReadTextFile(job.mask, 1_GiB));
    HMANN_RETURN_IF_ERROR(adapter.Restrict(mask));
  }
  HMANN_RETURN_IF_ERROR(adapter.Prepare(query_file));
  Session session = {static_cast<std::uint32_t>(query_file.n()), job.k, {}};
  HMANN_ASSIGN_OR_RETURN(session.cpus, AllowedCpus());
  Json ready = {{"ready", adapter.Describe()}};
  ready.update(index);
  ready["index_bytes"] = index.value("index_bytes", std::uint64_t{0}) + adapter.BytesMadeAtLoad();
  ready.update(Json{{"counts", adapter.CanCount()},
                    {"waits", adapter.Waits()},
                    {"settings", adapter.DefaultSettings()}});
  wire.Say(ready);
  return session;
}

absl::Status WriteIds(const std::string& path, std::uint32_t n, std::uint32_t k,
                      const std::vector<std::uint32_t>& ids) {
  HMANN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  const std::uint32_t header[2] = {n, k};
  HMANN_RETURN_IF_ERROR(file.Append(header, sizeof header));
  HMANN_RETURN_IF_ERROR(file.Append(ids.data(), ids.size() * sizeof ids[0]));
  return file.Commit();
}

/// Applies `setting`. Its keys "threads" and "in_flight" belong to the run, the others to
/// the library. `shaped`: whether one of the two was present.
absl::StatusOr<RunShape> TakeSetting(const nlohmann::json& setting, Adapter& adapter,
                                     bool* shaped) {
  RunShape shape;
  nlohmann::json own = setting;
  *shaped = own.contains("threads") || own.contains("in_flight");
  for (const auto& [key, value] :
       {std::pair("threads", &shape.threads), std::pair("in_flight", &shape.in_flight)}) {
    if (!own.contains(key)) continue;
    HMANN_ASSIGN_OR_RETURN(const std::uint64_t number, NumberIn(own, key, 1, 1024));
    *value = static_cast<int>(number);
    own.erase(key);
  }
  HMANN_RETURN_IF_ERROR(adapter.Set(own));
  HMANN_RETURN_IF_ERROR(adapter.SetShape(shape));
  return shape;
}

/// {"run": {...}, "answers": "file"} answers all queries. {"warm_up": {...}, "queries":
/// N} answers the last N, only for their effect on caches.
absl::StatusOr<Json> Obey(const nlohmann::json& command, const Session& session, Adapter& adapter) {
  const bool warms = command.contains("warm_up"), counts = command.value("count", false) && !warms;
  const nlohmann::json setting = command.value(warms ? "warm_up" : "run", nlohmann::json()),
                       answers = command.value("answers", nlohmann::json());
  if (!setting.is_object() || (!warms && !answers.is_string())) {
    return InvalidArgument(
        "command: expected {\"run\": {...}, \"answers\": \"file\"} or {\"warm_up\": "
        "{...}, \"queries\": N}, found ",
        JsonText(command));
  }
  std::uint64_t queries = session.queries;
  if (warms) {
    HMANN_ASSIGN_OR_RETURN(queries, NumberIn(command, "queries", 1, session.queries));
  }
  // The threads of one query need a CPU each.
  const auto one_cpu = std::span(session.cpus).first(1);
  HMANN_RETURN_IF_ERROR(PinThisThread(
      setting.value("query_threads", nlohmann::json(1)) > 1 ? std::span(session.cpus) : one_cpu));
  bool shaped = false;
  HMANN_ASSIGN_OR_RETURN(const RunShape shape, TakeSetting(setting, adapter, &shaped));
  std::vector<std::uint32_t> ids(std::size_t{session.queries} * session.k, kNoId);
  std::vector<float> latencies(shaped && !warms ? session.queries : 0);
  Json answer = {{"setting", setting}};
  const RunShare share = {0,
                          session.queries - queries,
                          session.queries,
                          session.k,
                          ids.data(),
                          latencies.empty() || counts ? nullptr : latencies.data()};
  if (counts) {
    HMANN_ASSIGN_OR_RETURN(answer["counters"], adapter.Count(share));
  } else {
    HMANN_ASSIGN_OR_RETURN(const RunTimes times,
                           RunShares(shape, share, session.cpus,
                                     [&](const RunShare& part) { return adapter.Search(part); }));
    answer["cpu_seconds"] = times.cpu_seconds;
    answer["seconds"] = times.seconds;
  }
  if (warms) return Json{{"warmed", queries}, {"seconds", answer["seconds"]}};
  if (!counts && shaped) {
    const LatencyUs latency = SummarizeLatency(std::move(latencies));
    answer["latency_us"] = {{"mean", latency.mean}, {"p50", latency.p50}, {"p99", latency.p99}};
  }
  const std::string path = answers.get<std::string>();
  HMANN_RETURN_IF_ERROR(WriteIds(path, session.queries, session.k, ids));
  answer["answers"] = path;
  return answer;
}

void Serve(const Session& session, Adapter& adapter, Wire& wire) {
  for (std::string line; std::getline(std::cin, line);) {
    const nlohmann::json command = ParseJson(line);
    if (!command.is_object()) {
      wire.Say(InvalidArgument("command: expected a JSON object, found ", line));
      continue;
    }
    if (command.contains("quit")) return;
    const absl::StatusOr<Json> answer = Obey(command, session, adapter);
    answer.ok() ? wire.Say(*answer) : wire.Say(answer.status());
  }
}

}  // namespace

absl::Status Adapter::OnlyFinished() const {
  return InvalidArgument(Describe(), ": expected settings that name a finished index, found none");
}

absl::Status Adapter::Restrict(const std::string&) {
  return InvalidArgument(Describe(), " cannot filter");
}

absl::StatusOr<nlohmann::json> Adapter::Count(const RunShare&) {
  return Unimplemented(Describe(), " has no counters");
}

absl::Status Adapter::SetShape(const RunShape& shape) {
  if (shape.threads == 1 && shape.in_flight == 1) return absl::OkStatus();
  return InvalidArgument(Describe(), ": expected threads 1 and in_flight 1, found ", shape.threads,
                         " and ", shape.in_flight);
}

int RunAdapter(int argc, char** argv, Adapter& adapter) {
  AdapterInput job;
  if (const std::optional<int> code = ParseJob(argc, argv, &job)) return *code;
  Wire wire;
  try {
    const absl::StatusOr<Session> session = Start(job, adapter, wire);
    if (!session.ok()) {
      wire.Say(session.status());
      return 1;
    }
    Serve(*session, adapter, wire);
    return 0;
  } catch (const std::exception& error) {  // of the library under test
    wire.Say(Internal(error.what()));
    return 1;
  }
}

absl::StatusOr<std::uint64_t> NumberIn(const nlohmann::json& object, const char* key,
                                       std::uint64_t least, std::uint64_t most) {
  absl::Status status;
  std::uint64_t value = 0;
  JsonReader(object, "setting ", absl::StatusCode::kInvalidArgument, &status)
      .Whole(key, least, most, &value);
  HMANN_RETURN_IF_ERROR(status);
  return value;
}

absl::Status CheckKeys(const nlohmann::json& object, const std::vector<std::string>& known) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      return InvalidArgument("setting '", key, "' is unknown");
  }
  return absl::OkStatus();
}

std::vector<std::byte> CopyRows(const VectorFile& file) {
  std::vector<std::byte> rows(file.n() * file.row_bytes());
  for (std::uint64_t i = 0; i < file.n(); ++i)
    std::memcpy(rows.data() + i * file.row_bytes(), file.Row(i), file.row_bytes());
  return rows;
}

void ToFloats(const VectorFile& file, std::uint64_t i, bool normalize, float* out) {
  const std::uint32_t dim = file.dim();
  double squared = 0;
  for (std::uint32_t j = 0; j < dim; ++j) {
    out[j] = static_cast<float>(Component(file.dtype(), file.Row(i), j));
    squared += static_cast<double>(out[j]) * out[j];
  }
  if (!normalize) return;
  const auto scale = static_cast<float>(squared > 0 ? 1 / std::sqrt(squared) : 1);
  for (std::uint32_t j = 0; j < dim; ++j) out[j] *= scale;
}

}  // namespace hmann::eval
