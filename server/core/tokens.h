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

/// The rights of a token. Each role includes the rights of those before it.
enum class Role : std::uint8_t { kNone, kRead, kAdmin };

/// The tokens that a server knows. It stores only their SHA-256, so that reading the file
/// does not allow calls.
///
///     # sha256 of the token, role
///     9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 read
class TokenList {
 public:
  /// Errors: INVALID_ARGUMENT naming the line, but without its text, which may be a token
  /// by mistake.
  static absl::StatusOr<TokenList> Parse(std::string_view text, const std::string& path);

  /// Takes the same time for known and unknown tokens.
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

/// A token file that may change while in use. Thread-safe.
class TokenFile {
 public:
  /// Errors: those of open(2); those of TokenList::Parse.
  static absl::StatusOr<std::unique_ptr<TokenFile>> Open(const std::string& path);

  Role Of(std::string_view token) const { return List()->Of(token); }
  /// Reads the file again. Returns true if the tokens changed. On an error, the previous
  /// tokens stay in force.
  absl::StatusOr<bool> Reload();

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
  std::string text_;  ///< the last read; used by Reload only
  mutable std::mutex mutex_;
  std::shared_ptr<const TokenList> list_;
};

/// Checks that the sender of this header may do what requires the role `needed`. `tokens`
/// null: every caller may. Errors: those of NotAuthenticated and NotPermitted.
absl::Status Authorize(const TokenFile* tokens, std::string_view authorization, Role needed);

/// The token in "Bearer TOKEN", the value of an `authorization` header; empty when the
/// value has another form.
std::string_view BearerToken(std::string_view authorization);

}  // namespace hmann::server
