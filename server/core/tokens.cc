#include "server/core/tokens.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "index/base/errors.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "server/core/errors.h"

namespace hmann::server {
namespace {

constexpr std::uint64_t kMostFile = 1_MiB;

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

Role RoleNamed(absl::string_view name) {
  if (name == "read") return Role::kRead;
  return name == "admin" ? Role::kAdmin : Role::kNone;
}

}  // namespace

absl::StatusOr<TokenList> TokenList::Parse(std::string_view text, const std::string& path) {
  TokenList list;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(Absl(text), '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    Entry entry{};
    entry.role = words.size() == 2 ? RoleNamed(words[1]) : Role::kNone;
    const bool is_hash = words[0].size() == 2 * entry.digest.size() &&
                         std::all_of(words[0].begin(), words[0].end(), absl::ascii_isxdigit);
    if (!is_hash || entry.role == Role::kNone) {
      return InvalidArgument(
          path, ": line ", number,
          ": expected the SHA-256 of a token (64 hexadecimal digits) and read or admin; what was "
          "found is not shown, since it may be a token: printf %s TOKEN | sha256sum");
    }
    const std::string digest = absl::HexStringToBytes(words[0]);
    std::copy(digest.begin(), digest.end(), entry.digest.begin());
    list.entries_.push_back(entry);
  }
  if (list.entries_.empty())
    return InvalidArgument(path, ": expected at least one token, found none");
  return list;
}

Role TokenList::Of(std::string_view token) const {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest.data());
  unsigned role = 0;
  for (const Entry& entry : entries_) {
    const auto differs = static_cast<unsigned>(
        CRYPTO_memcmp(digest.data(), entry.digest.data(), digest.size()) != 0);
    role = std::max(role, (differs - 1) & static_cast<unsigned>(entry.role));
  }
  return static_cast<Role>(role);
}

absl::StatusOr<std::unique_ptr<TokenFile>> TokenFile::Open(const std::string& path) {
  HMANN_ASSIGN_OR_RETURN(std::string text, ReadTextFile(path, kMostFile));
  HMANN_ASSIGN_OR_RETURN(TokenList list, TokenList::Parse(text, path));
  return std::unique_ptr<TokenFile>(new TokenFile(path, std::move(text), std::move(list)));
}

absl::StatusOr<bool> TokenFile::Reload() {
  HMANN_ASSIGN_OR_RETURN(std::string text, ReadTextFile(path_, kMostFile));
  if (text == text_) return false;
  HMANN_ASSIGN_OR_RETURN(TokenList list, TokenList::Parse(text, path_));
  text_ = std::move(text);
  auto fresh = std::make_shared<const TokenList>(std::move(list));
  const std::lock_guard lock(mutex_);
  list_.swap(fresh);
  return true;
}

absl::Status Authorize(const TokenFile* tokens, std::string_view authorization, Role needed) {
  if (tokens == nullptr) return absl::OkStatus();
  const std::string_view token = BearerToken(authorization);
  const Role role = tokens->Of(token);
  if (token.empty() || role == Role::kNone) return NotAuthenticated(!token.empty());
  if (role < needed) return NotPermitted(needed == Role::kAdmin ? "admin" : "read");
  return absl::OkStatus();
}

std::string_view BearerToken(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() < kScheme.size() ||
      !absl::EqualsIgnoreCase(Absl(authorization.substr(0, kScheme.size())), Absl(kScheme)))
    return {};
  return authorization.substr(kScheme.size());
}

}  // namespace hmann::server
