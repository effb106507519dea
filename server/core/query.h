/// What a request asks for, of no wire: a face reads it, here it is checked, before it
/// waits for a thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "hmann/hmann.h"
#include "server/core/options.h"
#include "server/core/registry.h"

namespace hmann::server {

/// Query vectors in QueryType of an index's dtype, row-major. Bytes are viewed where they
/// lie in the request, which must outlive this.
struct QueryVectors {
  std::size_t count = 0;
  std::span<const std::byte> bytes;
  std::vector<std::byte>
      converted;  ///< what `bytes` views when they came as floats for an index of integers

  const std::byte* row(std::size_t i) const { return bytes.data() + i * (bytes.size() / count); }
};

/// Of vectors as bytes, or as floats. Errors: INVALID_ARGUMENT (naming `field`) for no
/// vector, a size that is no multiple of dim, more than `most` vectors, or a float that
/// the index's dtype cannot hold. NaN and zero vectors are the engine's to refuse.
absl::StatusOr<QueryVectors> VectorsOf(std::span<const std::byte> bytes, const IndexInfo& info,
                                       std::uint64_t most, absl::string_view field);
absl::StatusOr<QueryVectors> VectorsOf(std::span<const float> floats, const IndexInfo& info,
                                       std::uint64_t most, absl::string_view field);

/// How a request is to be searched, and its budget (0: none).
struct RequestOptions {
  ResolvedSearch search;
  std::chrono::nanoseconds budget{0};
  bool counters = false;     ///< are part of the answer
  bool narrow = false;       ///< a query ends within a few hundred microseconds
  std::size_t together = 1;  ///< queries that a thread has under way at once
};

/// Errors: INVALID_ARGUMENT naming the field ("options.k"), for a target that cannot be
/// met, too; FAILED_PRECONDITION for a target where the index is not tuned, or its table
/// is stale.
absl::StatusOr<RequestOptions> ResolveFor(const Snapshot& index, const SearchOptions& asked,
                                          const RequestLimits& limits);
/// INVALID_ARGUMENT, of what is said of an option as "k: expected ...".
absl::Status BadOption(const absl::Status& why);

/// A request that was read and checked.
struct Query {
  Snapshot index;
  RequestOptions options;
  QueryVectors vectors;
};

/// What `queries` answers of k ids take.
std::uint64_t ReplyBytes(std::uint64_t queries, std::uint32_t k);
/// Checks ReplyBytes against limits.max_reply_bytes.
absl::Status CheckReplySize(std::uint64_t queries, std::uint32_t k, const RequestLimits& limits);

/// Bytes of a vector of the answer to a Get. Errors: INVALID_ARGUMENT naming the field:
/// no label, more than max_batch, or an answer of more than max_reply_bytes.
absl::StatusOr<std::uint64_t> CheckGet(std::uint64_t labels, const IndexInfo& info,
                                       const RequestLimits& limits);

}  // namespace hmann::server
