#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace hmann::server {

/// What a caller may do. Each role includes what those before it may.
enum class Role : std::uint8_t { kNone, kRead, kWrite, kAdmin };

/// What one line of a token file allows.
struct Grant {
  Role role = Role::kNone;
  std::vector<std::string> indexes;           ///< names or globs; none: all indexes
  absl::Time until = absl::InfiniteFuture();  ///< from then on, nothing

  bool Covers(const std::string& index) const;
};
/// What the lines of one token allow, each for its own indexes and until its own end.
using Rights = std::vector<Grant>;

/// The tokens that a server knows. It stores only their SHA-256, so that reading the file
/// does not allow calls.
///
///     # sha256 of the token (64 digits), role; perhaps indexes, and the last day
///     9f86d081...0a08 read
///     3d094196...fb30 admin indexes=sift,tenant-* until=2027-01-31
///
/// Dates are in UTC. `until=2027-01-31T12:00:00Z` ends at that moment, a date alone at
/// the end of its day.
class TokenList {
 public:
  /// Errors: INVALID_ARGUMENT naming the line, but without its text, which may be a token
  /// by mistake.
  static absl::StatusOr<TokenList> Parse(std::string_view text, const std::string& path);

  /// The rights of a token, which live as long as this list; null: it is unknown. Takes
  /// the same time for known and unknown tokens.
  const Rights* Of(std::string_view token) const;
  /// The number of tokens.
  std::size_t size() const { return entries_.size(); }

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Entry {
    Digest digest;
    Rights rights;
  };
  std::vector<Entry> entries_;
};

/// A token file that may change while in use. Thread-safe.
class TokenFile {
 public:
  /// Errors: those of open(2); those of TokenList::Parse.
  static absl::StatusOr<std::unique_ptr<TokenFile>> Open(const std::string& path);

  std::shared_ptr<const TokenList> List() const {
    const std::lock_guard lock(mutex_);
    return list_;
  }
  /// How often the list has changed, from 1.
  std::uint64_t changes() const { return changes_.load(std::memory_order_acquire); }
  /// Reads the file again. Returns true if the tokens changed. On an error, the previous
  /// tokens stay in force.
  absl::StatusOr<bool> Reload();

 private:
  TokenFile(std::string path, std::string text, TokenList list)
      : path_(std::move(path)),
        text_(std::move(text)),
        list_(std::make_shared<const TokenList>(std::move(list))) {}

  const std::string path_;
  std::string text_;  ///< the last read; used by Reload only
  std::atomic<std::uint64_t> changes_{1};
  mutable std::mutex mutex_;
  std::shared_ptr<const TokenList> list_;
};

/// What the sender of a call may do. Each check counts what the token file says now, and
/// looks for the token again only if the file has changed. Not thread-safe.
///
/// Errors of the checks: UNAUTHENTICATED for a token that is missing, unknown or expired;
/// PERMISSION_DENIED for one with fewer rights.
class Access {
 public:
  /// `tokens` null: everyone may do everything. `tokens` and `authorization`, the header
  /// of the call, must outlive this.
  Access(const TokenFile* tokens, std::string_view authorization);

  /// For a call that names its index later, or concerns those that the sender may use.
  absl::Status Check(Role needed, absl::Time now = absl::Now());
  /// For a call that names `index`. The outcome does not depend on whether the server has
  /// it.
  absl::Status Check(Role needed, const std::string& index, absl::Time now = absl::Now());
  /// For a call that concerns the whole server.
  absl::Status CheckAll(Role needed, absl::Time now = absl::Now());

 private:
  /// The most that the lines for which `counts` holds allow at `now`. Errors:
  /// UNAUTHENTICATED.
  absl::StatusOr<Role> Most(absl::Time now, absl::FunctionRef<bool(const Grant&)> counts);

  const TokenFile* tokens_;
  std::string_view token_;
  std::uint64_t seen_ = 0;  ///< TokenFile::changes of list_
  std::shared_ptr<const TokenList> list_;
  const Rights* rights_ = nullptr;  ///< of list_
};

/// The token in "Bearer TOKEN", the value of an `authorization` header; empty when the
/// value has another form.
std::string_view BearerToken(std::string_view authorization);

}  // namespace hmann::server
