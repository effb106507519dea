#include "server/core/query.h"

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "index/base/status_macros.h"
#include "server/core/errors.h"

namespace hmann::server {
namespace {

constexpr std::uint64_t kBytesPerId = 12;  // fixed64 id, float distance

absl::Status CheckComponents(std::uint64_t components, const char* what, const IndexInfo& info,
                             std::uint64_t most, absl::string_view field) {
  const std::uint64_t count = components / info.dim;
  if (components == 0 || components % info.dim != 0 || (most == 1 && count != 1)) {
    return BadField(field, absl::StrCat("expected ", most == 1 ? "" : "a multiple of ", info.dim,
                                        " ", what, " (the index's dimension), found ", components));
  }
  if (count > most)
    return BadField(field, absl::StrCat("expected at most ", most, " vectors, found ", count));
  return absl::OkStatus();
}

/// Converts floats to integers of type T. Errors if one would be rounded or clamped.
template <typename T>
absl::Status Narrow(std::span<const float> floats, std::uint32_t dim, absl::string_view field,
                    std::vector<std::byte>* out) {
  out->resize(floats.size());
  for (std::size_t i = 0; i < floats.size(); ++i) {
    const float value = floats[i];
    if (!(value >= std::numeric_limits<T>::min() && value <= std::numeric_limits<T>::max()) ||
        value != std::floor(value)) {
      return BadField(
          field, absl::StrCat("vector ", i / dim, ", component ", i % dim,
                              ": expected a whole number from ", int{std::numeric_limits<T>::min()},
                              " to ", int{std::numeric_limits<T>::max()}, ", found ", value));
    }
    (*out)[i] = static_cast<std::byte>(static_cast<T>(value));
  }
  return absl::OkStatus();
}

absl::Status CheckLimits(const SearchParams& requested, const RequestLimits& limits) {
  for (const auto& [field, found, most] :
       {std::tuple("options.k", std::optional(requested.k), limits.max_k),
        {"options.ef_l1", requested.ef_l1, limits.max_ef},
        {"options.ef_l0", requested.ef_l0, limits.max_ef},
        {"options.nprobe", requested.nprobe, limits.max_ef},
        {"options.query_threads", requested.query_threads, limits.max_query_threads}}) {
    if (found.value_or(0) > most)
      return BadField(field, absl::StrCat("expected at most ", most, ", found ", *found));
  }
  return absl::OkStatus();
}

/// Turns an engine error about options into the error of a request.
absl::Status OfRequest(const absl::Status& status, const SearchParams& options) {
  const absl::string_view message = status.message();
  if (options.has_target() && absl::IsOutOfRange(status)) {
    return BadField(options.recall.has_value() ? "options.recall" : "options.latency_us", message);
  }
  if (options.has_target() && !absl::IsInvalidArgument(status)) return NotTuned(status);
  return BadOption(status);
}

/// The most candidates of a search that may run on the reading thread. It then ends
/// within a few hundred microseconds.
constexpr std::uint64_t kNarrow = 512;

/// With a filter, any search may end with a scan of the matches. 64 of them for a unit of
/// width is a guess.
constexpr std::uint64_t kFewMatches = 64 * kNarrow;

bool IsNarrow(const ResolvedParams& params) {
  const bool scans_few = params.matches == nullptr || params.matches->size() <= kFewMatches;
  return scans_few && params.query_threads == 1 && params.ef_l1 <= kNarrow &&
         params.ef_l0 <= kNarrow;
}

}  // namespace

absl::StatusOr<QueryVectors> VectorsOf(std::span<const std::byte> bytes, const IndexInfo& info,
                                       std::uint64_t most, absl::string_view field) {
  const std::size_t component = SizeOf(QueryType(info.dtype));
  if (bytes.size() % component != 0) {
    return BadField(field, absl::StrCat("expected whole components of ", component,
                                        " bytes, found ", bytes.size(), " bytes"));
  }
  const std::uint64_t components = bytes.size() / component;
  const std::string what =
      absl::StrCat("components of ", component, component == 1 ? " byte" : " bytes");
  HMANN_RETURN_IF_ERROR(CheckComponents(components, what.c_str(), info, most, field));
  return QueryVectors{components / info.dim, bytes, {}};
}

absl::StatusOr<QueryVectors> VectorsOf(std::span<const float> floats, const IndexInfo& info,
                                       std::uint64_t most, absl::string_view field) {
  HMANN_RETURN_IF_ERROR(CheckComponents(floats.size(), "floats", info, most, field));
  QueryVectors out{floats.size() / info.dim, std::as_bytes(floats), {}};
  if (QueryType(info.dtype) == DType::kF32) return out;
  HMANN_RETURN_IF_ERROR(info.dtype == DType::kU8
                            ? Narrow<std::uint8_t>(floats, info.dim, field, &out.converted)
                            : Narrow<std::int8_t>(floats, info.dim, field, &out.converted));
  out.bytes = out.converted;
  return out;
}

absl::Status BadOption(const absl::Status& why) {
  const absl::string_view message = why.message();
  const std::size_t colon = message.find(": ");
  if (colon == absl::string_view::npos) return BadField("options", message);
  return BadField(absl::StrCat("options.", message.substr(0, colon)), message.substr(colon + 2));
}

namespace {

/// The vectors that a filter selects.
absl::StatusOr<std::shared_ptr<const Matches>> FilterFor(const Snapshot& index,
                                                         const Filter& filter) {
  absl::StatusOr<std::shared_ptr<const Matches>> matches = index.index()->Filtered(filter);
  if (matches.ok()) return matches;
  if (absl::IsNotFound(matches.status())) return NoAttributes();
  if (absl::IsInvalidArgument(matches.status())) return BadOption(matches.status());
  return index.ForClients(matches.status());
}

/// How to search the index, or the parts of a collection.
absl::Status Choose(const Snapshot& index, SearchParams requested, const Filter* filter,
                    RequestParams* options) {
  if (index.moment() != nullptr) {
    HMANN_ASSIGN_OR_RETURN(options->prepared, Prepare(index.moment(), requested, filter));
    options->search = SearchOf(*options->prepared);
    if (filter != nullptr) {
      options->matching = MatchingRows(*options->prepared);
    } else {
      options->search.params.matches = nullptr;  // those that are alive
    }
    return absl::OkStatus();
  }
  requested.matches = options->matches.get();
  if (filter != nullptr) options->matching = options->matches->size();
  HMANN_ASSIGN_OR_RETURN(options->search, index.index()->Resolve(requested));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RequestParams> ResolveFor(const Snapshot& index, const SearchParams& requested,
                                         const Filter* filter, const RequestLimits& limits) {
  HMANN_RETURN_IF_ERROR(CheckLimits(requested, limits));
  RequestParams options;
  options.budget = requested.budget.value_or(std::chrono::nanoseconds(0));
  if (filter != nullptr && index.moment() == nullptr) {
    HMANN_ASSIGN_OR_RETURN(options.matches, FilterFor(index, *filter));
  }
  const absl::Status chosen = Choose(index, requested, filter, &options);
  if (!chosen.ok()) return index.ForClients(OfRequest(chosen, requested));
  const bool waits = index.index() != nullptr && index.index()->on_block_tier();
  options.narrow = !waits && IsNarrow(options.search.params);
  // In memory, a query with a budget does not share its thread with others.
  options.together = options.budget.count() > 0 && !waits ? 1 : options.search.in_flight;
  return options;
}

std::uint64_t ReplyBytes(std::uint64_t queries, std::uint32_t k) {
  return queries * k * kBytesPerId;
}

absl::Status CheckReplySize(std::uint64_t queries, std::uint32_t k, const RequestLimits& limits) {
  const std::uint64_t bytes = ReplyBytes(queries, k);
  if (bytes <= limits.max_reply_bytes) return absl::OkStatus();
  return ReplyTooLarge("options.k", bytes, limits.max_reply_bytes,
                       "ask for fewer neighbors or send fewer queries at once");
}

absl::StatusOr<std::uint64_t> CheckGet(std::uint64_t labels, const IndexInfo& info,
                                       const RequestLimits& limits) {
  if (labels == 0) return BadField("labels", "expected one or more, found none");
  if (labels > limits.max_batch) {
    return BadField("labels",
                    absl::StrCat("expected at most ", limits.max_batch, ", found ", labels));
  }
  const std::uint64_t vector_bytes = info.dim * SizeOf(info.dtype);
  if (labels * vector_bytes > limits.max_reply_bytes) {
    return ReplyTooLarge("labels", labels * vector_bytes, limits.max_reply_bytes,
                         "ask for fewer vectors at once");
  }
  return vector_bytes;
}

}  // namespace hmann::server
