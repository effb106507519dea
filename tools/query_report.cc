#include "tools/query_report.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iostream>
#include <limits>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "datasets/ground_truth.h"
#include "datasets/recall.h"
#include "datasets/toolbox/answer_writer.h"
#include "hmann/param_table.h"
#include "index/base/clock.h"
#include "index/base/file.h"
#include "index/base/statistics.h"
#include "index/base/status_macros.h"
#include "index/params/params_json.h"
#include "tools/print.h"

namespace hmann::tools {
namespace {

using Clock = std::chrono::steady_clock;

absl::Status InFront(const absl::Status& status, absl::string_view words) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(words, status.message()));
}

/// A microsecond figure carries no more than three decimals.
double Rounded(double value) { return RoundToDecimals(value, 3); }

struct Columns {
  std::vector<std::uint64_t> labels;
  std::vector<float> distances;
};

Columns Split(const std::vector<Neighbor>& answer) {
  Columns columns;
  for (const Neighbor& neighbor : answer) {
    columns.labels.push_back(neighbor.label);
    columns.distances.push_back(neighbor.distance);
  }
  return columns;
}

absl::Status AddRecall(const QueryRun& run, const std::string& groundtruth,
                       nlohmann::ordered_json* figures) {
  HMANN_ASSIGN_OR_RETURN(GroundTruth truth, ReadGroundTruth(groundtruth));
  truth.metric = run.metric;
  const float most = run.requested.max_distance.value_or(std::numeric_limits<float>::infinity());
  for (std::size_t i = 0; i < truth.distances.size(); ++i) {
    if (truth.distances[i] <= most) continue;
    truth.ids[i] = kNoNeighbor;
    truth.distances[i] = std::numeric_limits<float>::infinity();
  }
  HMANN_RETURN_IF_ERROR(InFront(CheckTruthCovers(truth, run.answers.size(), run.params.k),
                                absl::StrCat(groundtruth, ": ")));
  std::vector<double> per_query;
  for (std::size_t i = 0; i < run.answers.size(); ++i) {
    const Columns answer = Split(run.answers[i]);
    per_query.push_back(RecallAtK(truth, i, run.params.k, answer.labels, answer.distances));
  }
  const auto none = std::count(per_query.begin(), per_query.end(), 0.0);
  const RecallSummary recall = SummarizeRecall(std::move(per_query));
  (*figures)["recall"] = recall.mean;
  (*figures)["recall_p05"] = recall.p05;
  (*figures)["none_found"] = none;
  return absl::OkStatus();
}

void AddPromise(const QueryRun& run, nlohmann::ordered_json* figures) {
  if (run.cut_short.has_value()) (*figures)["cut_short"] = *run.cut_short;
  if (!run.predicted.has_value()) return;
  if (run.requested.recall.has_value()) (*figures)["target_recall"] = *run.requested.recall;
  if (run.requested.latency.has_value()) {
    (*figures)["target_latency_us"] =
        std::chrono::duration<double, std::micro>(*run.requested.latency).count();
  }
  (*figures)["predicted_recall"] = run.predicted->recall;
  if (!run.predicted->predicted_for.empty())
    (*figures)["predicted_for"] = run.predicted->predicted_for;
  if (run.predicted->mean_us.has_value())
    (*figures)["predicted_us"] = Rounded(*run.predicted->mean_us);
}

/// Prints the first neighbors of the first queries.
void PrintAnswers(const QueryRun& run, std::ostream& out) {
  constexpr std::size_t kMost = 10;
  const std::size_t queries = std::min(run.answers.size(), kMost);
  out << "query  neighbors: label (distance)\n";
  for (std::size_t i = 0; i < queries; ++i) {
    const std::vector<Neighbor>& answer = run.answers[i];
    out << absl::StrFormat("%5d", i);
    for (std::size_t j = 0; j < std::min(answer.size(), kMost); ++j) {
      const auto name = run.names.find(answer[j].label);
      const std::string label = name != run.names.end() ? JsonText(nlohmann::json(name->second))
                                                        : absl::StrCat(answer[j].label);
      out << absl::StrFormat("  %s (%.4g)", label, answer[j].distance);
    }
    out << (answer.size() > kMost ? "  ...\n" : "\n");
  }
  if (run.answers.size() > queries)
    out << "  ...  --out FILE writes the answers to all " << run.answers.size() << " queries\n";
}

/// Prints the figures that matter most, in one line.
void PrintSummary(const nlohmann::ordered_json& figures, std::ostream& out) {
  out << figures["queries"] << " queries, k " << figures["k"];
  if (figures.contains("matches")) {
    out << absl::StrFormat(", %.0f match (%.3g %%)", figures["matches"].get<double>(),
                           100 * figures["matches_share"].get<double>());
  }
  if (figures.contains("recall")) {
    out << absl::StrFormat(", recall %.4f", figures["recall"].get<double>());
    if (figures["none_found"] > 0) out << " (" << figures["none_found"] << " found none)";
  } else if (figures.contains("predicted_recall")) {
    out << absl::StrFormat(", predicted recall %.4f", figures["predicted_recall"].get<double>());
    if (figures.contains("predicted_for"))
      out << " for " << figures["predicted_for"].get<std::string>();
  }
  out << absl::StrFormat(", mean %.1f us, %.0f queries/s; --stats shows more\n",
                         figures["mean_us"].get<double>(), figures["qps"].get<double>());
}

}  // namespace

absl::Status RunQueries(std::uint64_t count, const AnswerOne& answer_one, QueryRun* run) {
  run->answers.assign(count, {});
  run->latency_ns.assign(count, 0);
  std::atomic<std::uint64_t> next{0};
  std::mutex mutex;
  FirstError first;
  const auto work = [&](int thread) {
    std::vector<Neighbor> answer;
    for (std::uint64_t i = next++; i < count; i = next++) {
      const auto start = Clock::now();
      const absl::Status status = answer_one(thread, i, &answer);
      run->latency_ns[i] = static_cast<std::uint64_t>(NanosecondsSince(start));
      if (!status.ok()) {
        next = count;
        const std::lock_guard lock(mutex);
        first.Note(i * run->batch, status);
        return;
      }
      run->answers[i] = answer;
    }
  };
  const auto start = Clock::now();
  std::vector<std::jthread> threads;
  for (int thread = 1; thread < run->threads; ++thread) threads.emplace_back(work, thread);
  work(0);
  threads.clear();  // joins them
  run->seconds = SecondsSince(start);
  return first.Named(run->batch == 1 ? "query " : "queries from ");
}

absl::StatusOr<nlohmann::ordered_json> Summarize(const QueryRun& run,
                                                 const std::string& groundtruth) {
  const auto queries = static_cast<double>(std::max<std::size_t>(run.answers.size(), 1));
  nlohmann::ordered_json figures = {{"queries", run.answers.size()}, {"k", run.params.k}};
  if (!groundtruth.empty()) HMANN_RETURN_IF_ERROR(AddRecall(run, groundtruth, &figures));
  std::vector<std::uint64_t> sorted = run.latency_ns;
  std::sort(sorted.begin(), sorted.end());
  const double sum = std::accumulate(sorted.begin(), sorted.end(), 0.0);
  figures["qps"] =
      Rounded(run.seconds > 0 ? static_cast<double>(run.answers.size()) / run.seconds : 0);
  figures["mean_us"] = Rounded(sum / queries / 1000);
  for (const auto& [name, share] :
       {std::pair("p50_us", 0.50), {"p95_us", 0.95}, {"p99_us", 0.99}}) {
    figures[name] =
        sorted.empty() ? 0.0 : Rounded(static_cast<double>(Percentile(sorted, share)) / 1000);
  }
  figures["threads"] = run.threads;
  figures.update(ToJson(run.params));
  if (!run.filter.empty()) {
    figures["filter"] = run.filter;
    figures["matches"] = run.matches;
    figures["matches_share"] = run.matches / static_cast<double>(run.n);
  }
  AddPromise(run, &figures);
  figures["simd"] = run.simd;
  if (run.in_flight > 1) figures["in_flight"] = run.in_flight;
  if (run.open_seconds > 0) figures["open_seconds"] = run.open_seconds;
  if (run.first_answer_seconds > 0) figures["first_answer_seconds"] = run.first_answer_seconds;
  if (run.counters.has_value()) figures.update(ToJson(*run.counters, queries));
  return figures;
}

void PrintFigures(const nlohmann::ordered_json& figures, std::ostream& out) {
  for (const auto& [name, value] : figures.items()) {
    std::string text = value.is_string() ? value.get<std::string>() : JsonText(value);
    if (value.is_number_float() && FindParam(name) == nullptr) {  // parameters are to be pasted
      const bool small = absl::StrContains(name, "recall") || absl::EndsWith(name, "seconds") ||
                         absl::EndsWith(name, "share");
      text = absl::StrFormat("%.*f", small ? 4 : 1, value.get<double>());
    }
    out << absl::StrFormat("  %-20s %s\n", name, text);
  }
}

absl::Status WriteAnswers(const QueryRun& run, const std::string& path) {
  HMANN_ASSIGN_OR_RETURN(AnswerWriter writer,
                         AnswerWriter::Create(path, static_cast<std::uint32_t>(run.answers.size()),
                                              run.params.k, run.names));
  for (const std::vector<Neighbor>& answer : run.answers) {
    const Columns columns = Split(answer);
    HMANN_RETURN_IF_ERROR(writer.Append(columns.labels, columns.distances));
  }
  return writer.Commit();
}

absl::Status CheckFiles(const QueryFlags& flags, std::uint64_t queries) {
  if (!flags.out.empty()) {
    HMANN_RETURN_IF_ERROR(AtomicFile::Create(flags.out).status());
    HMANN_RETURN_IF_ERROR(CheckNotInput(flags.out, {flags.queries, flags.groundtruth}));
  }
  if (flags.groundtruth.empty()) return absl::OkStatus();
  HMANN_ASSIGN_OR_RETURN(const GroundTruth truth, ReadGroundTruth(flags.groundtruth));
  return InFront(CheckTruthCovers(truth, queries, flags.search.k),
                 absl::StrCat(flags.groundtruth, ": "));
}

absl::Status Report(const QueryRun& run, const QueryFlags& flags) {
  if (!flags.out.empty()) HMANN_RETURN_IF_ERROR(WriteAnswers(run, flags.out));
  HMANN_ASSIGN_OR_RETURN(const nlohmann::ordered_json figures, Summarize(run, flags.groundtruth));
  if (flags.json) return PrintJson(figures);
  if (flags.out.empty()) PrintAnswers(run, std::cout);
  if (flags.stats) {
    PrintFigures(figures, std::cout);
  } else {
    PrintSummary(figures, std::cout);
  }
  return absl::OkStatus();
}

}  // namespace hmann::tools
