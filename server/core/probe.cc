#include "server/core/probe.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_format.h"
#include "datasets/recall.h"
#include "datasets/vector_file.h"
#include "index/base/clock.h"
#include "index/base/statistics.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann::server {

absl::Status Probe::Check(const std::string& path, const IndexInfo& info,
                          const Search& search) const {
  HMANN_ASSIGN_OR_RETURN(VectorFile rows, VectorFile::Open(queries));
  HMANN_ASSIGN_OR_RETURN(GroundTruth truth, ReadGroundTruth(groundtruth));
  truth.metric = info.metric;
  HMANN_RETURN_IF_ERROR(CheckTruthCovers(truth, rows.n(), k));
  HMANN_RETURN_IF_ERROR(rows.FitQueries(info.dim, info.dtype, path));
  std::vector<double> recalls, seconds;
  std::vector<std::uint64_t> ids;
  std::vector<float> distances;
  for (std::uint64_t i = 0; i < rows.n(); ++i) {
    Answer answer;
    const auto began = std::chrono::steady_clock::now();
    HMANN_RETURN_IF_ERROR(search(rows.Row(i), &answer));
    seconds.push_back(SecondsSince(began));
    ids.clear();
    distances.clear();
    for (const Neighbor& neighbor : answer.nearest) {
      ids.push_back(neighbor.label);
      distances.push_back(neighbor.distance);
    }
    recalls.push_back(RecallAtK(truth, i, k, ids, distances));
  }
  std::sort(seconds.begin(), seconds.end());
  const double found = SummarizeRecall(std::move(recalls)).mean, late = Percentile(seconds, 0.99);
  if (found < recall) {
    return FailedPrecondition(path, ": the probe found a recall of ",
                              absl::StrFormat("%.4f", found), ", expected at least ", recall);
  }
  const double most = std::chrono::duration<double>(p99).count();
  if (most == 0 || late <= most) return absl::OkStatus();
  return FailedPrecondition(path, ": 99 of 100 queries of the probe took up to ",
                            FormatDuration(late), ", expected at most ", FormatDuration(most));
}

}  // namespace hmann::server
