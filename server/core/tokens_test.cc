#include "server/core/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datasets/testing/temp_folder.h"
#include "server/core/errors.h"
#include "server/core/options.h"

namespace hmann::server {
namespace {

using testing::HasSubstr;
using testing::Not;

// printf %s reader | sha256sum; likewise for "keeper".
const char kReader[] = "3d0941964aa3ebdcb00ccef58b1bb399f9f898465e9886d5aec7f31090a0fb30";
const char kKeeper[] = "00aa8942525b763cbe72e4a0fbfbb027b909dd8299e9c6c85c28d3d42d2cc28b";

std::string Sample() {
  return absl::StrCat("# who may\n\n", kReader, " read  # a client\n\t", kKeeper, "\tadmin\r\n");
}

/// A list, and what its tokens may do.
class Held {
 public:
  explicit Held(const std::string& text) : file_(*TokenFile::Open(folder_.Write("tokens", text))) {}

  TokenFile& file() { return *file_; }
  void Write(const std::string& text) { folder_.Write("tokens", text); }
  Access Of(const char* header) { return {file_.get(), header}; }
  /// As a letter: read (r), admin (a) or nothing (-) for an index.
  char For(const std::string& index, absl::Time now = absl::Now()) {
    Access access = Of("Bearer reader");
    if (access.Check(Role::kAdmin, index, now).ok()) return 'a';
    return access.Check(Role::kRead, index, now).ok() ? 'r' : '-';
  }

 private:
  const TempFolder folder_;
  std::unique_ptr<TokenFile> file_;
};

absl::Time At(const std::string& text) {
  absl::Time time;
  std::string error;
  EXPECT_TRUE(absl::ParseTime(absl::RFC3339_full, text, &time, &error)) << error;
  return time;
}

TEST(TokensTest, ATokenHasTheRoleOfItsHash) {
  const auto list = TokenList::Parse(Sample(), "tokens");
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->size(), 2u);
  ASSERT_NE(list->Of("reader"), nullptr);
  EXPECT_EQ(list->Of("reader")->front().role, Role::kRead);
  ASSERT_NE(list->Of("keeper"), nullptr);
  EXPECT_EQ(list->Of("keeper")->front().role, Role::kAdmin);
  for (const char* other : {"", "Reader", "reader ", "keepe", kReader, kKeeper})
    EXPECT_EQ(list->Of(other), nullptr) << other;
}

TEST(TokensTest, TheHigherOfTwoRolesHolds) {
  Held held(absl::StrCat(kReader, " admin\n", kReader, " read\n"));
  EXPECT_EQ(held.file().List()->size(), 1u);
  EXPECT_EQ(held.For("any"), 'a');
}

TEST(TokensTest, ARoleIsForTheIndexesOfItsLine) {
  Held held(absl::StrCat(kReader, " admin indexes=one,tenant-*,?x*y\n", kReader,
                         " read indexes=two,tenant-b\n"));
  const std::string longest(IndexSpec::kMostName - 7, 'a');
  for (const auto& [index, may] : {std::pair("one", 'a'),
                                   {"tenant-", 'a'},
                                   {"tenant-b", 'a'},
                                   {"tenant-b.c_d", 'a'},
                                   {"two", 'r'},
                                   {"axy", 'a'},
                                   {"axxyyxy", 'a'},
                                   {"xy", '-'},
                                   {"axyz", '-'},
                                   {"", '-'},
                                   {"one1", '-'},
                                   {"aone", '-'},
                                   {"ONE", '-'},
                                   {"tenan", '-'},
                                   {"three", '-'},
                                   {"*", '-'}})
    EXPECT_EQ(held.For(index), may) << index;
  EXPECT_EQ(held.For(absl::StrCat("tenant-", longest)), 'a');
  EXPECT_EQ(held.For(absl::StrCat("tenant-a", longest)), '-') << "no index has such a name";
  EXPECT_EQ(held.For(absl::StrCat("tenant-", std::string(1 << 20, 'a'))), '-');

  // One try for each way to divide a name among the stars would take years.
  std::string stars;
  while (stars.size() < IndexSpec::kMostName - 2) stars += "*a";
  Held starry(absl::StrCat(kReader, " read indexes=", stars, "*b\n"));
  const std::string name(IndexSpec::kMostName - 1, 'a');
  EXPECT_EQ(starry.For(name + 'a'), '-');
  EXPECT_EQ(starry.For(name + 'b'), 'r');

  Access access = held.Of("Bearer reader");
  EXPECT_EQ(ReasonOf(access.Check(Role::kRead, "three")), "INDEX_NOT_PERMITTED");
  EXPECT_EQ(ReasonOf(access.Check(Role::kAdmin, "three")), "INDEX_NOT_PERMITTED");
  EXPECT_EQ(ReasonOf(access.Check(Role::kAdmin, "two")), "ROLE_TOO_LOW");
  EXPECT_EQ(access.Check(Role::kAdmin), absl::OkStatus()) << "of some index";
  EXPECT_EQ(ReasonOf(access.CheckAll(Role::kAdmin)), "ROLE_TOO_LOW");
  EXPECT_EQ(ReasonOf(access.CheckAll(Role::kRead)), "ROLE_TOO_LOW");
  held.Write(absl::StrCat(kReader, " admin indexes=one\n", kReader, " read\n"));
  EXPECT_TRUE(*held.file().Reload());
  EXPECT_EQ(access.CheckAll(Role::kRead), absl::OkStatus());
  EXPECT_EQ(ReasonOf(access.CheckAll(Role::kAdmin)), "ROLE_TOO_LOW");
  EXPECT_EQ(access.Check(Role::kRead, "three"), absl::OkStatus());
  EXPECT_EQ(ReasonOf(access.Check(Role::kAdmin, "three")), "ROLE_TOO_LOW");
}

TEST(TokensTest, ALineHoldsUntilItsEnd) {
  Held held(absl::StrCat(kReader, " admin until=2027-01-31T12:00:00Z indexes=one\n", kReader,
                         " read until=2028-02-29\n"));
  for (const auto& [now, one, two] : {std::tuple("2026-11-27T00:00:00Z", 'a', 'r'),
                                      {"2027-01-31T11:59:59.999Z", 'a', 'r'},
                                      {"2027-01-31T12:00:00Z", 'r', 'r'},
                                      {"2028-02-29T23:59:59.999Z", 'r', 'r'},
                                      {"2028-02-29T23:59:59.999-01:00", '-', '-'},
                                      {"2028-03-01T00:00:00Z", '-', '-'}}) {
    EXPECT_EQ(held.For("one", At(now)), one) << now;
    EXPECT_EQ(held.For("two", At(now)), two) << now;
  }
  Access access = held.Of("Bearer reader");
  const absl::Status expired = access.Check(Role::kRead, "one", At("2028-03-01T00:00:00Z"));
  EXPECT_EQ(expired.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(ReasonOf(expired), "TOKEN_EXPIRED");
  EXPECT_EQ(ReasonOf(access.Check(Role::kAdmin, At("2027-01-31T12:00:00Z"))), "ROLE_TOO_LOW");
}

TEST(TokensTest, AWrongLineIsNamedAndNotShown) {
  const std::string right = absl::StrCat(kReader, " read ");
  for (const std::string& wrong : {std::string("hunter2 read"),
                                   absl::StrCat(kReader, " writer"),
                                   std::string(kReader),
                                   absl::StrCat(right, "more"),
                                   absl::StrCat(std::string(64, 'g'), " read"),
                                   absl::StrCat(std::string(kReader).substr(1), " read"),
                                   absl::StrCat(kReader, " indexes=a read"),
                                   absl::StrCat(right, "indexes="),
                                   absl::StrCat(right, "indexes=a,"),
                                   absl::StrCat(right, "indexes=a,,b"),
                                   absl::StrCat(right, "indexes=a, b"),
                                   absl::StrCat(right, "indexes=a/b"),
                                   absl::StrCat(right, "indexes=[ab]"),
                                   absl::StrCat(right, "indexes=\xff"),
                                   absl::StrCat(right, "indexes=", std::string(65, 'a')),
                                   absl::StrCat(right, "indexes"),
                                   absl::StrCat(right, "Indexes=a"),
                                   absl::StrCat(right, "indexes=a indexes=b"),
                                   absl::StrCat(right, "indexes=a indexes=until=2027-01-31"),
                                   absl::StrCat(right, "until="),
                                   absl::StrCat(right, "until=2027-02-29"),
                                   absl::StrCat(right, "until=2027-1-31"),
                                   absl::StrCat(right, "until=2027-13-01"),
                                   absl::StrCat(right, "until=31-01-2027"),
                                   absl::StrCat(right, "until=tomorrow"),
                                   absl::StrCat(right, "until=infinite-future"),
                                   absl::StrCat(right, "until=2027-01-31T12:00:00"),
                                   absl::StrCat(right, "until=2027-01-31T24:00:00Z"),
                                   absl::StrCat(right, "until=2027-01-31T12:00:60Z"),
                                   absl::StrCat(right, "until=2027-01-31T12:00:00+01:00"),
                                   absl::StrCat(right, "until=2027-01-31 until=2027-01-31")}) {
    const absl::Status status = TokenList::Parse(absl::StrCat("\n", wrong), "the/file").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong;
    EXPECT_THAT(std::string(status.message()), HasSubstr("the/file: line 2: expected"));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr(wrong.substr(0, wrong.find(' ')))));
  }
  for (const char* more : {"indexes=a", "until=2027-01-31 indexes=a-*,b?", "until=1999-12-31",
                           "indexes=* until=2027-01-31T12:00:00Z"})
    EXPECT_TRUE(TokenList::Parse(absl::StrCat(right, more), "tokens").ok()) << more;
  EXPECT_FALSE(TokenList::Parse("# nobody\n", "tokens").ok());
}

TEST(TokensTest, AFileIsReadAgainAndAWrongOneChangesNothing) {
  const TempFolder folder;
  const std::string path = folder.Write("tokens", absl::StrCat(kReader, " read\n"));
  const auto tokens = TokenFile::Open(path);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  TokenFile& file = **tokens;
  EXPECT_EQ(*file.Reload(), false);
  Access reader(&file, "Bearer reader"), keeper(&file, "Bearer keeper");  // as of open streams
  EXPECT_EQ(reader.Check(Role::kRead, "any"), absl::OkStatus());
  EXPECT_EQ(ReasonOf(keeper.Check(Role::kRead, "any")), "TOKEN_UNKNOWN");
  folder.Write("tokens", absl::StrCat(kKeeper, " admin\n"));
  EXPECT_EQ(*file.Reload(), true);
  EXPECT_EQ(ReasonOf(reader.Check(Role::kRead, "any")), "TOKEN_UNKNOWN");
  EXPECT_EQ(keeper.Check(Role::kAdmin, "any"), absl::OkStatus());
  folder.Write("tokens", "half a li");
  EXPECT_FALSE(file.Reload().ok());
  EXPECT_EQ(keeper.Check(Role::kAdmin, "any"), absl::OkStatus());
  EXPECT_FALSE(TokenFile::Open(path).ok());
  EXPECT_FALSE(TokenFile::Open(folder / "none").ok());
}

TEST(TokensTest, ARoleMayDoWhatLowerOnesMay) {
  Held held(Sample());
  const auto code = [&](const char* header, Role needed) {
    const absl::Status status = held.Of(header).Check(needed);
    EXPECT_EQ(held.Of(header).Check(needed, "any"), status);
    EXPECT_EQ(held.Of(header).CheckAll(needed).code(), status.code());
    return status.code();
  };
  EXPECT_EQ(code("Bearer reader", Role::kRead), absl::StatusCode::kOk);
  EXPECT_EQ(code("Bearer keeper", Role::kRead), absl::StatusCode::kOk);
  EXPECT_EQ(code("Bearer keeper", Role::kAdmin), absl::StatusCode::kOk);
  EXPECT_EQ(code("Bearer reader", Role::kAdmin), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(code("Bearer nobody", Role::kRead), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(code("", Role::kRead), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(Access(nullptr, "").Check(Role::kAdmin, "any"), absl::OkStatus());
  EXPECT_EQ(Access(nullptr, "").CheckAll(Role::kAdmin), absl::OkStatus());
}

TEST(TokensTest, OnlyBearerTokensAreTaken) {
  EXPECT_EQ(BearerToken("Bearer abc"), "abc");
  EXPECT_EQ(BearerToken("bearer abc"), "abc");
  for (const char* other : {"", "abc", "Basic abc", "Bearer", "Bearerabc"})
    EXPECT_EQ(BearerToken(other), "") << other;
}

}  // namespace
}  // namespace hmann::server
