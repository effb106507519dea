#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace hmann::server {

/// What the holder of a token may do; each may do what those before it may.
enum class Role : std::uint8_t { kNone, kRead, kAdmin };

/// The tokens that a server knows: not they, but their SHA-256, so that who reads the
/// file cannot call.
///
///     # sha256 of the token, role
///     9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 read
class TokenList {
 public:
  /// Errors: INVALID_ARGUMENT naming the line, but not what stands there: it may be a
  /// token by mistake.
  static absl::StatusOr<TokenList> Parse(std::string_view text, const std::string& path);

  /// Takes as long for one that it has as for one that it has not.
  Role Of(std::string_view token) const;
  std::size_t size() const { return entries_.size(); }

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Entry {
    Digest digest;
    Role role;
  };
  std::vector<Entry> entries_;
};

/// A file of tokens that may change while it is used. Thread-safe.
class TokenFile {
 public:
  /// Errors: of open(2); those of TokenList::Parse.
  static absl::StatusOr<std::unique_ptr<TokenFile>> Open(const std::string& path);

  Role Of(std::string_view token) const { return List()->Of(token); }
  /// Reads the file again. True: other tokens hold now. On an error those of before hold
  /// on.
  absl::StatusOr<bool> Reload();
  /// Whether Reload did not say the same the last time.
  bool IsNews(const absl::Status& status) { return std::exchange(told_, status) != status; }

 private:
  TokenFile(std::string path, std::string text, TokenList list)
      : path_(std::move(path)),
        text_(std::move(text)),
        list_(std::make_shared<const TokenList>(std::move(list))) {}
  std::shared_ptr<const TokenList> List() const {
    const std::lock_guard lock(mutex_);
    return list_;
  }

  const std::string path_;
  std::string text_;  ///< of Reload alone: as it was read last
  absl::Status told_;
  mutable std::mutex mutex_;
  std::shared_ptr<const TokenList> list_;
};

/// Whether who sent this header may do what needs a role. `tokens` null: everybody may.
/// Errors: those of NotAuthenticated and NotPermitted.
absl::Status Authorize(const TokenFile* tokens, std::string_view authorization, Role needed);

/// The token of "Bearer TOKEN", the value of a header `authorization`; empty when it is
/// none.
std::string_view BearerToken(std::string_view authorization);

}  // namespace hmann::server
