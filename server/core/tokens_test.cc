#include "server/core/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "datasets/testing/temp_folder.h"

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

TEST(TokensTest, ATokenHasTheRoleOfItsHash) {
  const auto list = TokenList::Parse(Sample(), "tokens");
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->size(), 2u);
  EXPECT_EQ(list->Of("reader"), Role::kRead);
  EXPECT_EQ(list->Of("keeper"), Role::kAdmin);
  for (const char* other : {"", "Reader", "reader ", "keepe", kReader, kKeeper})
    EXPECT_EQ(list->Of(other), Role::kNone) << other;
}

TEST(TokensTest, TheHigherOfTwoRolesHolds) {
  const std::string twice = absl::StrCat(kReader, " admin\n", kReader, " read\n");
  EXPECT_EQ(TokenList::Parse(twice, "tokens")->Of("reader"), Role::kAdmin);
}

TEST(TokensTest, AWrongLineIsNamedAndNotShown) {
  for (const std::string& wrong :
       {std::string("hunter2 read"), absl::StrCat(kReader, " write"), std::string(kReader),
        absl::StrCat(kReader, " read more"), absl::StrCat(std::string(64, 'g'), " read"),
        absl::StrCat(std::string(kReader).substr(1), " read")}) {
    const absl::Status status = TokenList::Parse(absl::StrCat("\n", wrong), "the/file").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong;
    EXPECT_THAT(std::string(status.message()), HasSubstr("the/file: line 2: expected"));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr(wrong.substr(0, wrong.find(' ')))));
  }
  EXPECT_FALSE(TokenList::Parse("# nobody\n", "tokens").ok());
}

TEST(TokensTest, AFileIsReadAgainAndAWrongOneChangesNothing) {
  const TempFolder folder;
  const std::string path = folder.Write("tokens", absl::StrCat(kReader, " read\n"));
  const auto tokens = TokenFile::Open(path);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  TokenFile& file = **tokens;
  EXPECT_EQ(*file.Reload(), false);
  folder.Write("tokens", absl::StrCat(kKeeper, " admin\n"));
  EXPECT_EQ(*file.Reload(), true);
  EXPECT_EQ(file.Of("reader"), Role::kNone);
  EXPECT_EQ(file.Of("keeper"), Role::kAdmin);
  folder.Write("tokens", "half a li");
  EXPECT_FALSE(file.Reload().ok());
  EXPECT_EQ(file.Of("keeper"), Role::kAdmin);
  EXPECT_FALSE(TokenFile::Open(path).ok());
  EXPECT_FALSE(TokenFile::Open(folder / "none").ok());
}

TEST(TokensTest, ARoleMayDoWhatLowerOnesMay) {
  const TempFolder folder;
  const auto tokens = TokenFile::Open(folder.Write("tokens", Sample()));
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  const auto code = [&](const char* header, Role needed) {
    return Authorize(tokens->get(), header, needed).code();
  };
  EXPECT_EQ(code("Bearer reader", Role::kRead), absl::StatusCode::kOk);
  EXPECT_EQ(code("Bearer keeper", Role::kRead), absl::StatusCode::kOk);
  EXPECT_EQ(code("Bearer keeper", Role::kAdmin), absl::StatusCode::kOk);
  EXPECT_EQ(code("Bearer reader", Role::kAdmin), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(code("Bearer nobody", Role::kRead), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(code("", Role::kRead), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(Authorize(nullptr, "", Role::kAdmin), absl::OkStatus());
}

TEST(TokensTest, OnlyBearerTokensAreTaken) {
  EXPECT_EQ(BearerToken("Bearer abc"), "abc");
  EXPECT_EQ(BearerToken("bearer abc"), "abc");
  for (const char* other : {"", "abc", "Basic abc", "Bearer", "Bearerabc"})
    EXPECT_EQ(BearerToken(other), "") << other;
}

}  // namespace
}  // namespace hmann::server
