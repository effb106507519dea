#include "server/core/tokens.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "index/base/errors.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "server/core/errors.h"
#include "server/core/options.h"

namespace hmann::server {
namespace {

constexpr std::uint64_t kMostFile = 1_MiB;

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

const char* NameOf(Role role) {
  return role == Role::kAdmin ? "admin" : role == Role::kWrite ? "write" : "read";
}

Role RoleNamed(absl::string_view name) {
  for (const Role role : {Role::kRead, Role::kWrite, Role::kAdmin}) {
    if (name == NameOf(role)) return role;
  }
  return Role::kNone;
}

/// Whether `name` has the form of `glob`, in which `*` stands for any characters and `?`
/// for one.
bool IsOf(const std::string& glob, const std::string& name) {
  constexpr std::size_t kNone = std::string::npos;
  std::size_t at = 0, star = kNone, after = 0;
  for (std::size_t i = 0; i < name.size();) {
    if (at < glob.size() && glob[at] == '*') {
      star = at++;
      after = i;
    } else if (at < glob.size() && (glob[at] == '?' || glob[at] == name[i])) {
      ++at;
      ++i;
    } else if (star != kNone) {  // the last star stands for one more
      at = star + 1;
      i = ++after;
    } else {
      return false;
    }
  }
  return glob.find_first_not_of('*', at) == kNone;
}

bool IsGlob(absl::string_view text) {
  return !text.empty() && text.size() <= IndexSpec::kMostName &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return IndexSpec::MayHave(c) || c == '*' || c == '?'; });
}

/// Reads `2027-01-31` or `2027-01-31T12:00:00Z` as the first moment after it.
bool ReadUntil(absl::string_view text, absl::Time* until) {
  constexpr std::size_t kDay = 10, kMoment = 20;
  if (text.size() != kDay && text.size() != kMoment) return false;
  const char* const format = text.size() == kDay ? "%Y-%m-%d" : "%Y-%m-%dT%H:%M:%SZ";
  const absl::TimeZone utc = absl::UTCTimeZone();
  std::string error;
  // Formatted again, a day that no month has is another one.
  if (!absl::ParseTime(format, text, utc, until, &error) ||
      absl::FormatTime(format, *until, utc) != text)
    return false;
  if (text.size() == kDay) *until += absl::Hours(24);
  return true;
}

/// Reads a word that follows the role. Returns what was expected; null: it was there.
const char* ReadLimit(absl::string_view word, Grant* grant) {
  if (grant->indexes.empty() && absl::ConsumePrefix(&word, "indexes=")) {
    grant->indexes = absl::StrSplit(word, ',');
    if (std::all_of(grant->indexes.begin(), grant->indexes.end(), IsGlob)) return nullptr;
    return "indexes= with names, or globs of `*` and `?`, separated by commas";
  }
  if (grant->until == absl::InfiniteFuture() && absl::ConsumePrefix(&word, "until=")) {
    return ReadUntil(word, &grant->until) ? nullptr
                                          : "until=2027-01-31 or until=2027-01-31T12:00:00Z";
  }
  return "nothing after the role but indexes=NAMES and until=DATE, each once";
}

/// Reads a line. Returns what was expected; null: it was there.
const char* ReadLine(absl::string_view line, std::string* digest, Grant* grant) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  grant->role = words.size() < 2 ? Role::kNone : RoleNamed(words[1]);
  if (words[0].size() != std::size_t{2} * SHA256_DIGEST_LENGTH || grant->role == Role::kNone ||
      !std::all_of(words[0].begin(), words[0].end(), absl::ascii_isxdigit)) {
    return "the SHA-256 of a token (64 hexadecimal digits: printf %s TOKEN | sha256sum) and read, "
           "write or admin";
  }
  *digest = absl::HexStringToBytes(words[0]);
  const char* expected = nullptr;
  for (std::size_t i = 2; i < words.size() && expected == nullptr; ++i)
    expected = ReadLimit(words[i], grant);
  return expected;
}

}  // namespace

bool Grant::Covers(const std::string& index) const {
  return indexes.empty() ||
         (index.size() <= IndexSpec::kMostName &&
          std::any_of(indexes.begin(), indexes.end(),
                      [&index](const std::string& glob) { return IsOf(glob, index); }));
}

absl::StatusOr<TokenList> TokenList::Parse(std::string_view text, const std::string& path) {
  std::map<Digest, Rights> rights;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(Absl(text), '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    std::string bytes;
    Grant grant;
    if (const char* expected = ReadLine(line, &bytes, &grant); expected != nullptr) {
      return InvalidArgument(path, ": line ", number, ": expected ", expected,
                             "; what was found is not shown, since it may be a token");
    }
    Digest digest;
    std::copy(bytes.begin(), bytes.end(), digest.begin());
    rights[digest].push_back(std::move(grant));
  }
  if (rights.empty()) return InvalidArgument(path, ": expected at least one token, found none");
  TokenList list;
  for (auto& [digest, grants] : rights) list.entries_.push_back({digest, std::move(grants)});
  return list;
}

const Rights* TokenList::Of(std::string_view token) const {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest.data());
  std::size_t found = 0;  // its place, from 1
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const auto differs = static_cast<std::size_t>(
        CRYPTO_memcmp(digest.data(), entries_[i].digest.data(), digest.size()) != 0);
    found |= (differs - 1) & (i + 1);
  }
  return found == 0 ? nullptr : &entries_[found - 1].rights;
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
  changes_.fetch_add(1, std::memory_order_release);
  return true;
}

Access::Access(const TokenFile* tokens, std::string_view authorization)
    : tokens_(tokens), token_(BearerToken(authorization)) {}

absl::StatusOr<Role> Access::Most(absl::Time now, absl::FunctionRef<bool(const Grant&)> counts) {
  if (tokens_ == nullptr) return Role::kAdmin;
  if (token_.empty()) return NotAuthenticated(Token::kMissing);
  if (const std::uint64_t changes = tokens_->changes(); changes != seen_) {
    seen_ = changes;
    list_ = tokens_->List();
    rights_ = list_->Of(token_);
  }
  if (rights_ == nullptr) return NotAuthenticated(Token::kUnknown);
  bool expired = true;
  Role most = Role::kNone;
  for (const Grant& grant : *rights_) {
    if (now >= grant.until) continue;
    expired = false;
    if (counts(grant)) most = std::max(most, grant.role);
  }
  if (expired) return NotAuthenticated(Token::kExpired);
  return most;
}

absl::Status Access::Check(Role needed, absl::Time now) {
  HMANN_ASSIGN_OR_RETURN(const Role most, Most(now, [](const Grant&) { return true; }));
  return most >= needed ? absl::OkStatus() : NotPermitted(NameOf(needed));
}

absl::Status Access::Check(Role needed, const std::string& index, absl::Time now) {
  HMANN_ASSIGN_OR_RETURN(const Role most,
                         Most(now, [&index](const Grant& grant) { return grant.Covers(index); }));
  if (most == Role::kNone) return NotForIndex(index);
  return most >= needed ? absl::OkStatus() : NotPermitted(NameOf(needed));
}

absl::Status Access::CheckAll(Role needed, absl::Time now) {
  HMANN_ASSIGN_OR_RETURN(const Role most,
                         Most(now, [](const Grant& grant) { return grant.indexes.empty(); }));
  return most >= needed ? absl::OkStatus()
                        : NotPermitted(absl::StrCat(NameOf(needed), " for all indexes"));
}

std::string_view BearerToken(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() < kScheme.size() ||
      !absl::EqualsIgnoreCase(Absl(authorization.substr(0, kScheme.size())), Absl(kScheme)))
    return {};
  return authorization.substr(kScheme.size());
}

}  // namespace hmann::server
