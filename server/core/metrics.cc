#include "server/core/metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/core/metrics_page.h"

namespace hmann::server {
namespace {

void ShowCollection(const ServedIndex& index, const CollectionInfo& info, MetricsPage& page) {
  const std::string& name = index.name();
  const auto gauge = [&](const char* metric, const char* help, double value) {
    page.Gauge(metric, help, value, {{"index", name}});
  };
  gauge("hmann_collection_sequence", "Number of the last write",
        static_cast<double>(info.sequence));
  gauge("hmann_collection_delta_rows", "Vectors that no merge has put into the index",
        static_cast<double>(info.delta_rows));
  gauge("hmann_collection_delta_bytes", "Memory that they take",
        static_cast<double>(info.delta_bytes));
  gauge("hmann_collection_delta_limit_bytes", "Memory that they may take",
        static_cast<double>(info.delta_limit));
  gauge("hmann_collection_dead_bytes", "What of it rows take that were replaced or deleted",
        static_cast<double>(info.dead_bytes));
  gauge("hmann_collection_free_disk_bytes", "Bytes that are free where the collection lies",
        static_cast<double>(index.free_disk_bytes()));
  gauge("hmann_collection_lost_writes",
        "Writes that were on disk once and that the journal had no more when it was opened",
        static_cast<double>(info.lost_writes));
  gauge("hmann_collection_unmerged_seconds",
        "Since the last merge began, or the collection was opened; 0: all are merged",
        info.unmerged_seconds);
  gauge("hmann_collection_dead_rows", "Vectors of the index that are deleted or replaced",
        static_cast<double>(info.sealed_dead));
  gauge("hmann_collection_journal_bytes", "Bytes of the journal on disk",
        static_cast<double>(info.journal_bytes));
  if (info.behind_seconds.has_value()) {
    gauge("hmann_collection_behind_seconds",
          "Since this server last had all that another process writes", *info.behind_seconds);
  }
  gauge("hmann_collection_merging_seconds", "Since the merge that runs began; 0: none runs",
        info.merging_seconds);
  gauge("hmann_collection_merge_seconds", "What the last merge took", info.merge_seconds);
  gauge("hmann_collection_merge_failed",
        "1 if the last merge, or other work in the background, failed",
        info.last_error.empty() ? 0 : 1);
  page.Counter("hmann_collection_merges_total", "Merges since the collection was opened",
               static_cast<double>(info.merges), {{"index", name}});
  page.Counter("hmann_collection_merge_failures_total",
               "Merges that failed since the collection was opened",
               static_cast<double>(info.merge_failures), {{"index", name}});
}

void ShowIndex(ServedIndex& index, Writers* writers, MetricsPage& page) {
  index.metrics().Show(page);
  const std::string& name = index.name();
  const IndexState now = index.state();
  for (const IndexState state : {IndexState::kLoading, IndexState::kServing, IndexState::kFailed}) {
    page.Gauge("hmann_index_state", "1 of the state that an index is in", now == state ? 1 : 0,
               {{"index", name}, {"state", Name(state)}});
  }
  const ServedFacts facts = index.facts();
  for (const Placement& placement : facts.placements) {
    page.Gauge("hmann_placed_bytes", "Bytes of an index, by structure and tier",
               static_cast<double>(placement.bytes),
               {{"index", name}, {"structure", placement.structure}, {"tier", placement.tier}});
  }
  const auto gauge = [&](const char* metric, const char* help, double value) {
    page.Gauge(metric, help, value, {{"index", name}});
  };
  const auto counter = [&](const char* metric, const char* help, std::uint64_t value) {
    page.Counter(metric, help, static_cast<double>(value), {{"index", name}});
  };
  counter("hmann_scrubbed_bytes_total",
          "Bytes read in place that were compared with their checksums", index.scrub().bytes);
  counter("hmann_index_swaps_total", "Files that took the place of another", facts.swaps);
  counter("hmann_index_refused_loads_total", "Files that could not be loaded", facts.refusals);
  if (facts.loading != nullptr) {
    gauge("hmann_index_loading_share", "While a file is loaded: share of its bytes that were read",
          facts.loading->progress.Share());
  }
  const absl::StatusOr<Snapshot> served = index.Get();
  if (!served.ok()) return;
  if (served->moment() != nullptr) {
    ShowCollection(index, served->generation().collection()->info(), page);
    if (writers != nullptr) {
      gauge("hmann_collection_waiting_writes", "Calls that wait for a thread that writes",
            static_cast<double>(writers->Waiting(served->generation().number())));
    }
  }
  const IndexInfo info = served->Describe();
  gauge("hmann_index_generation", "Which of the files that were served under all names this is",
        static_cast<double>(served->generation().number()));
  gauge("hmann_index_vectors", "Vectors of an index", static_cast<double>(info.n));
  gauge("hmann_index_dimension", "Components of its vectors", info.dim);
  gauge("hmann_index_load_seconds", "What loading it took", served->generation().load_seconds());
  page.Gauge("hmann_index_info", "1, with the hash of the content as hmann info shows it", 1,
             {{"content_hash", absl::StrFormat("%016x", info.content_hash)}, {"index", name}});
}

void ShowConnections(const ProcessFacts& facts, MetricsPage& page) {
  const ConnectionCounts& counts = *facts.connections;
  page.Gauge("hmann_connections", "Connections that are open",
             static_cast<double>(counts.open.load()));
  page.Counter("hmann_connections_accepted_total", "Connections that were taken",
               static_cast<double>(counts.accepted.load()));
  const auto refused = [&](const char* reason, std::uint64_t now) {
    page.Counter("hmann_connections_refused_total",
                 "Connections that were not taken, or were shut down, by reason",
                 static_cast<double>(now), {{"reason", reason}});
  };
  for (const Refusal refusal : kRefusals)
    refused(Name(refusal), counts.refused[static_cast<std::size_t>(refusal)].load());
  refused("handshake", facts.failed_handshakes);
  refused("http", facts.http_refused);
}

void ShowPool(const PoolLoad& load, MetricsPage& page) {
  for (const auto& [lane, of] : {std::pair("quick", load.quick), std::pair("bulk", load.bulk)}) {
    page.Gauge("hmann_queued_requests", "Calls that wait for a thread, wholly or in part",
               static_cast<double>(of.jobs), {{"lane", lane}});
    page.Gauge("hmann_queued_seconds",
               "What they and those that run will take of a thread, estimated", ToSeconds(of.work),
               {{"lane", lane}});
    page.Gauge("hmann_busy_threads", "Threads that search", of.busy, {{"lane", lane}});
  }
  page.Gauge("hmann_request_bytes",
             "Bytes of requests in progress and of their replies, approximately",
             static_cast<double>(load.bytes));
}

/// The metrics that Prometheus expects of each process, by their usual names.
void ShowProcess(std::time_t started, MetricsPage& page) {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  page.Counter("process_cpu_seconds_total", "Processor time of this process",
               seconds(used.ru_utime) + seconds(used.ru_stime));
  double pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  page.Gauge("process_resident_memory_bytes", "Resident memory",
             resident * static_cast<double>(sysconf(_SC_PAGESIZE)));
  std::error_code error;
  const std::filesystem::directory_iterator open("/proc/self/fd", error);
  page.Gauge("process_open_fds", "Open file descriptors",
             static_cast<double>(std::distance(begin(open), end(open))));
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  page.Gauge("process_max_fds", "Descriptors that may be open",
             static_cast<double>(limit.rlim_cur));
  page.Gauge("hmann_build_info", "1, with the version of this server and its compiler", 1,
             {{"compiler", __VERSION__}, {"version", HMANN_VERSION}});
  page.Gauge("process_start_time_seconds", "When the process started, since 1970",
             static_cast<double>(started));
}

}  // namespace

const char* Name(Refusal refusal) {
  constexpr const char* kNames[] = {"descriptors", "connections", "peer",
                                    "streams",     "cancels",     "half_sent"};
  return kNames[static_cast<std::size_t>(refusal)];
}

std::string Metrics::Text(const SearchPool& pool, const ProcessFacts& facts) const {
  MetricsPage page;
  of_none_.Show(page);
  for (const auto& index : registry_.indexes()) ShowIndex(*index, facts.writers, page);
  ShowPool(pool.load(), page);
  if (facts.connections != nullptr) ShowConnections(facts, page);
  page.Counter("hmann_log_lines_dropped_total", "Log lines that were not read in time",
               static_cast<double>(facts.dropped_log_lines));
  page.Counter("hmann_reload_failures_total",
               "Changed files that were not accepted: configuration, tokens, TLS, tuned",
               static_cast<double>(facts.failed_reloads));
  if (facts.certificate_expires.has_value()) {
    page.Gauge("hmann_certificate_expiry_timestamp_seconds",
               "When the certificate expires, since 1970",
               static_cast<double>(*facts.certificate_expires));
  }
  ShowProcess(started_, page);
  return page.Text();
}

}  // namespace hmann::server
