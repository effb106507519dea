#include <chrono>
#include <string>

#include "datasets/answer_writer.h"
#include "index/base/units.h"
#include "tools/flags.h"
#include "tools/query_report.h"

namespace hmann {
namespace {

constexpr std::int64_t kMostNeighbours = 1u << 20;

std::string CheckSuffix(const std::string& path) { return std::string(CheckAnswerSuffix(path).message()); }

/// What takes the place of dials.
void AddTargets(CLI::App& app, QueryFlags* flags) {
  app.add_option("--recall", flags->target.recall, "mean recall to reach, as fast as may be: the dials are those that `hmann tune` found")
      ->check(CLI::Range(0.0, 1.0));
  AddParsed<std::chrono::nanoseconds>(
      app, "--latency", ParseDuration,
      [flags](std::chrono::nanoseconds latency) { flags->target.latency_us = std::chrono::duration<double, std::micro>(latency).count(); },
      "mean time of a query to keep, as 800us, with the best recall that it allows: dials likewise");
  AddParsed<std::chrono::nanoseconds>(
      app, "--budget", ParseDuration, [flags](std::chrono::nanoseconds budget) { flags->budget = budget; },
      "time after which a query ends with the best that it has found");
}

}  // namespace

void AddQueryFlags(CLI::App& app, QueryFlags* flags) {
  SearchOptions* search = &flags->search;
  app.add_option("--queries", flags->queries, "vector file of the index's type and dimension")->required();
  app.add_option("--rows,--limit", flags->rows, "first queries only (0: all)");
  app.add_option("--k", search->k, "neighbours per query")->check(CLI::Range(std::int64_t{1}, kMostNeighbours))->capture_default_str();
  AddTargets(app, flags);
  app.add_option("--ef-l1", search->ef_l1, "beam width in L1 (default: one that suits k)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{kMaxEf}));
  app.add_option("--ef-l0", search->ef_l0, "width in L0; 0 answers from L1 (default: one that suits k)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{kMaxEf}));
  AddParsed<Walk>(
      app, "--walk", ParseWalk, [search](Walk walk) { search->walk = walk; },
      "walk in L0: beams, pool, gated (sketches decide what is read; default where the index has them and L0 is far, or they are of "
      "links)");
  app.add_option("--cells", search->cells, "gated: cells scored before the first read (default: one that suits the tier)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{kMaxEf}));
  app.add_option(
         "--width", search->width,
         "gated: records that a round reads (default 8); pool: candidates expanded together, at most 8 (default 2, with --ef-l0 alone 1)")
      ->check(CLI::Range(1u, kMaxWidth));
  app.add_option("--stop", search->stop, "gated: read only while estimate - STOP x error is under the kth distance")
      ->check(CLI::Range(0.0, 1e6));
  app.add_option(
         "--reach", search->reach,
         "pool, gated: expand no candidate farther than REACH x the kth best (L2: squared); 0: all that --ef-l0 holds (default: one "
         "that suits k where --ef-l0 is not given, else 0)")
      ->check(CLI::Range(0.0, 1e6));
  AddParsed<Prefetch>(
      app, "--prefetch", ParsePrefetch, [search](Prefetch prefetch) { search->prefetch = prefetch; },
      "how early slow records are asked for: round (default), ahead, off, helper; answers are the same");
  for (const char* dial : {"--ef-l1", "--ef-l0", "--walk", "--cells", "--width", "--stop", "--reach"}) {
    for (const char* target : {"--recall", "--latency"}) app.get_option(dial)->excludes(target);
  }
  app.add_option("--threads", flags->threads, "queries side by side")->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_option("--query-threads", search->query_threads, "threads of one query in L0 (beams only)")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--groundtruth", flags->groundtruth, "exact neighbours: adds recall to the report");
  app.add_option("--out", flags->out, "write the answers: .ibin ids, .gt ids and distances, .jsonl")->check(CheckSuffix);
  app.add_flag("--json", flags->json, "report as one JSON object on stdout");
}

}  // namespace hmann
