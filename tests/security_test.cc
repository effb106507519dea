// Access control of a server: certificates and tokens, created here by openssl.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/server_program.h"

namespace hmann {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

/// Files of an authority, or of something that it has signed.
struct Signed {
  std::string certificate, key;
};

class SecurityTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TestFolder("security");
    const Outcome built =
        RunProgram({HmannProgram(), "build", "--base", "datasets/sample/base.u8bin", "--rows",
                    "500", "--out", Index()});
    ASSERT_EQ(built.exit_code, 0) << built.err;
    for (const char* name : {"ours", "foreign"}) {
      OpenSsl({"req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
               "-keyout", *folder_ / absl::StrCat(name, ".key"), "-out", Authority(name), "-subj",
               absl::StrCat("/CN=", name), "-days", "3"});
    }
  }
  static void TearDownTestSuite() { delete folder_; }
  static std::string Index() { return *folder_ / "sample.hmann"; }
  static std::string Authority(const std::string& name) {
    return *folder_ / absl::StrCat(name, ".pem");
  }

  static void OpenSsl(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "/usr/bin/openssl");
    const Outcome ran = RunProgram(arguments);
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
  }
  /// `host`: "IP:127.0.0.1".
  static Signed Sign(const std::string& name, const std::string& authority,
                     const std::string& host = "IP:127.0.0.1", const std::string& days = "2") {
    const Signed made{*folder_ / absl::StrCat(name, ".pem"), *folder_ / absl::StrCat(name, ".key")};
    const std::string request = *folder_ / absl::StrCat(name, ".csr");
    OpenSsl({"req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
             made.key, "-out", request, "-subj", absl::StrCat("/CN=", name), "-addext",
             absl::StrCat("subjectAltName=", host)});
    OpenSsl({"x509", "-req", "-in", request, "-CA", Authority(authority), "-CAkey",
             *folder_ / absl::StrCat(authority, ".key"), "-CAcreateserial", "-copy_extensions",
             "copy", "-days", days, "-out", made.certificate});
    return made;
  }
  static std::vector<std::string> Tls(const Signed& made) {
    return {"--tls-cert", made.certificate, "--tls-key", made.key};
  }

  static absl::Status Search(const std::string& address, client::ConnectOptions options) {
    options.own_connection = true;
    options.retry = false;
    auto client = client::Client::Connect(address, options);
    if (!client.ok()) return client.status();
    return client->Search("sample", client::Vectors::Raw(FirstQuery()), {}, {.deadline = 60s})
        .status();
  }
  /// The hash of a token, in the form of a token file.
  static std::string HashOf(const std::string& token) {
    WriteFile(*folder_ / "token", token);
    return RunProgram({"/usr/bin/sha256sum", *folder_ / "token"}).out.substr(0, 64);
  }
  /// Repeats a search until the index is loaded.
  static absl::Status FirstSearch(const std::string& address,
                                  const client::ConnectOptions& options) {
    absl::Status status;
    do {
      status = Search(address, options);
    } while (absl::StrContains(status.message(), "is loading"));
    return status;
  }

  static TestFolder* folder_;
};
TestFolder* SecurityTest::folder_ = nullptr;

TEST_F(SecurityTest, AClientBelievesOnlyAServerOfItsAuthorityAndHost) {
  const client::ConnectOptions ours{.ca_file = Authority("ours")};
  ServerProgram server(Index(), Tls(Sign("server", "ours")));
  EXPECT_EQ(FirstSearch(server.address(), ours), absl::OkStatus());
  EXPECT_EQ(Search(server.address(), {.ca_file = Authority("foreign")}).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(Search(server.address(), {}).code(), absl::StatusCode::kUnavailable) << "plaintext";
  EXPECT_EQ(Search(server.address(), ours), absl::OkStatus());
  const Outcome queried = Hmann({"query", "--server", server.address(), "--index", "sample",
                                 "--queries", kQueries, "--ca", Authority("ours"), "--json"});
  EXPECT_EQ(queried.exit_code, 0) << queried.err;
  const auto refused = [&](const std::string& address, std::vector<std::string> how) {
    how.insert(how.begin(), {"query", "--server", address, "--index", "sample", kQueries});
    const Outcome ran = Hmann(how);
    EXPECT_EQ(ran.exit_code, 75) << ran.err;
    return ran.err;
  };
  EXPECT_THAT(refused(server.address(), {}), HasSubstr("it may require TLS (--ca or --tls)"));
  EXPECT_THAT(refused(server.address(), {"--tls"}), HasSubstr("of no authority that this client"));
  EXPECT_THAT(refused(server.address(), {"--ca", Authority("foreign")}),
              HasSubstr("of no authority that this client trusts"));
  ServerProgram plain(Index(), {});
  EXPECT_THAT(refused(plain.address(), {"--ca", Authority("ours")}),
              HasSubstr("the server does not use TLS"));

  ServerProgram expired(Index(), Tls(Sign("expired", "ours", "IP:127.0.0.1", "-1")));
  EXPECT_EQ(FirstSearch(expired.address(), ours).code(), absl::StatusCode::kUnavailable);
  ServerProgram elsewhere(Index(), Tls(Sign("elsewhere", "ours", "DNS:elsewhere.example")));
  EXPECT_EQ(FirstSearch(elsewhere.address(), ours).code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(refused(elsewhere.address(), {"--ca", Authority("ours")}),
              HasSubstr("certificate is for other names"));
  EXPECT_THAT(refused(expired.address(), {"--ca", Authority("ours")}),
              HasSubstr("the server's certificate has expired"));
}

TEST_F(SecurityTest, AServerBelievesOnlyClientsOfItsAuthority) {
  std::vector<std::string> flags = Tls(Sign("server", "ours"));
  flags.insert(flags.end(), {"--tls-client-ca", Authority("ours")});
  ServerProgram server(Index(), flags);
  const auto as = [&](const Signed& made) {
    return FirstSearch(
        server.address(),
        {.ca_file = Authority("ours"), .certificate_file = made.certificate, .key_file = made.key});
  };
  EXPECT_EQ(as(Sign("client", "ours")), absl::OkStatus());
  EXPECT_EQ(as(Sign("stranger", "foreign")).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(as(Sign("late", "ours", "IP:127.0.0.1", "-1")).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Search(server.address(), {.ca_file = Authority("ours")}).code(),
            absl::StatusCode::kUnavailable)
      << "without a certificate";
}

TEST_F(SecurityTest, ACertificateIsReplacedUnderLoad) {
  const Signed live = Sign("live", "ours"), next = Sign("next", "foreign");
  ServerProgram server(Index(), Tls(live));
  ASSERT_EQ(FirstSearch(server.address(), {.ca_file = Authority("ours")}), absl::OkStatus());
  std::atomic<bool> stop{false};
  absl::Status lost;
  std::thread load([&] {
    auto client = client::Client::Connect(server.address(),
                                          {.own_connection = true, .ca_file = Authority("ours")});
    while (!stop) {
      lost.Update(
          client->Search("sample", client::Vectors::Raw(FirstQuery()), {}, {.deadline = 60s})
              .status());
    }
  });
  std::filesystem::rename(next.key, live.key);
  std::filesystem::rename(next.certificate, live.certificate);
  const client::ConnectOptions foreign{.ca_file = Authority("foreign")};
  while (!Search(server.address(), foreign).ok()) std::this_thread::sleep_for(20ms);
  stop = true;
  load.join();
  EXPECT_EQ(lost, absl::OkStatus()) << "who is connected stays so";
  EXPECT_EQ(Search(server.address(), {.ca_file = Authority("ours")}).code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(SecurityTest, AFileThatIsNoCertificateChangesNothingAndIsTold) {
  const Signed live = Sign("held", "ours"), next = Sign("next", "ours"),
               old = Sign("old", "ours", "IP:127.0.0.1", "-1");
  const client::ConnectOptions ours{.ca_file = Authority("ours")};
  std::vector<std::string> flags = Tls(live);
  flags.insert(flags.end(), {"--drain", "50ms"});
  ServerProgram server(Index(), flags);
  ASSERT_EQ(FirstSearch(server.address(), ours), absl::OkStatus());
  const std::string good = ReadFile(live.certificate);
  // A certificate without its key yet, none, half of one, nothing, an expired pair.
  for (const std::string& content : std::vector<std::string>{ReadFile(next.certificate), "garbage",
                                                             good.substr(0, good.size() / 2), ""}) {
    WriteFile(live.certificate, content);
    std::this_thread::sleep_for(2200ms);
    EXPECT_EQ(Search(server.address(), ours), absl::OkStatus()) << content;
  }
  std::filesystem::remove(live.certificate);
  std::this_thread::sleep_for(2200ms);
  EXPECT_EQ(Search(server.address(), ours), absl::OkStatus()) << "a file that is gone";
  WriteFile(live.key, ReadFile(old.key));
  WriteFile(live.certificate, ReadFile(old.certificate));
  std::this_thread::sleep_for(2200ms);
  EXPECT_EQ(Search(server.address(), ours), absl::OkStatus()) << "an expired pair";
  EXPECT_EQ(Search(server.address(), {.ca_file = Authority("foreign")}).code(),
            absl::StatusCode::kUnavailable);
  server.program().Signal(SIGTERM);
  const std::string log = server.program().Wait().err;
  for (const char* words : {"is not the key of", "expected a certificate in PEM", "No such file",
                            "has expired", "handshakes failed"})
    EXPECT_THAT(log, HasSubstr(words));
}

TEST_F(SecurityTest, AStreamEndsWhenItsTokenIsRevoked) {
  const std::string file = *folder_ / "tokens_of_stream";
  WriteFile(file, absl::StrCat(HashOf("streams"), " read\n"));
  WriteFile(*folder_ / "token", "streams");
  ServerProgram server(Index(), {"--tokens", file});
  auto client = client::Client::Connect(server.address(), {.token_file = *folder_ / "token"});
  ASSERT_TRUE(client->WaitReady("sample", {.deadline = 60s}).ok());
  auto stream = client->OpenStream("sample", {}, {.deadline = 60s});
  const auto ask = [&] {
    const absl::Status sent = stream.Send(0, client::Vectors::Raw(FirstQuery()));
    const absl::Status received = stream.Receive().status();
    return received.ok() ? sent : received;
  };
  ASSERT_EQ(ask(), absl::OkStatus());
  WriteFile(file, absl::StrCat(std::string(64, '0'), " read\n"));
  absl::Status status;
  while ((status = ask()).ok()) std::this_thread::sleep_for(50ms);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
}

TEST_F(SecurityTest, TokensSayWhoMayCall) {
  const std::string file = *folder_ / "tokens";
  WriteFile(file, absl::StrCat(HashOf("one-of-ours"), " read\n"));
  ServerProgram server(Index(), {"--tokens", file});
  const auto with = [&](const std::string& token) {
    WriteFile(*folder_ / "token", absl::StrCat(token, "\n"));
    return FirstSearch(server.address(), {.token_file = *folder_ / "token"});
  };
  EXPECT_EQ(with("one-of-ours"), absl::OkStatus());
  EXPECT_EQ(with("one-of-other").code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(Search(server.address(), {}).code(), absl::StatusCode::kUnauthenticated);
  auto nobody = client::Client::Connect(server.address(), {.retry = false});
  EXPECT_EQ(nobody->List().status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(nobody->Describe("sample").status().code(), absl::StatusCode::kUnauthenticated);

  WriteFile(absl::StrCat(file, ".new"), absl::StrCat(HashOf("the-next"), " admin\n"));
  std::filesystem::rename(absl::StrCat(file, ".new"), file);
  while (!with("the-next").ok()) std::this_thread::sleep_for(20ms);
  EXPECT_EQ(with("one-of-ours").code(), absl::StatusCode::kUnauthenticated);
  // A mistake: the token itself. The earlier tokens stay valid, and nothing of it is
  // logged.
  WriteFile(file, "the-secret-itself read\n");
  std::this_thread::sleep_for(2s);
  EXPECT_EQ(with("the-next"), absl::OkStatus());
  server.program().Signal(SIGTERM);
  const Outcome ended = server.program().Wait();
  for (const char* secret : {"one-of", "the-next", "the-secret"})
    EXPECT_THAT(ended.err, Not(HasSubstr(secret)));
  EXPECT_THAT(ended.err, HasSubstr("line 1: expected the SHA-256"));
}

TEST_F(SecurityTest, WhereFilesLieIsForWhoRunsTheServer) {
  const std::string file = *folder_ / "roles", token_file = *folder_ / "token";
  WriteFile(file, absl::StrCat(HashOf("runs-it"), " admin\n", HashOf("reads"), " read\n"));
  ServerProgram server(Index(), {"--tokens", file});
  const auto described = [&](const std::string& token, bool where) {
    WriteFile(token_file, token);
    auto client = client::Client::Connect(server.address(),
                                          {.own_connection = true, .token_file = token_file});
    EXPECT_EQ(FirstSearch(server.address(), {.token_file = token_file}).ok(), token != "other");
    return client->Describe("sample", {}, where);
  };
  for (const char* token : {"runs-it", "reads"}) {
    const auto plain = described(token, false);
    ASSERT_TRUE(plain.ok()) << plain.status();
    EXPECT_FALSE(plain->placements.empty());
    for (const Placement& placement : plain->placements) EXPECT_EQ(placement.where, "");
  }
  const auto admin = described("runs-it", true);
  ASSERT_TRUE(admin.ok()) << admin.status();
  for (const Placement& placement : admin->placements) EXPECT_NE(placement.where, "");
  EXPECT_EQ(described("other", true).status().code(), absl::StatusCode::kUnauthenticated);
  const absl::Status denied = described("reads", true).status();
  EXPECT_EQ(denied.code(), absl::StatusCode::kPermissionDenied) << denied;
  EXPECT_THAT(std::string(denied.message()), HasSubstr("ROLE_TOO_LOW"));
  const Outcome live =
      Hmann({"info", "sample", "--live", "--server", server.address(), "--token", token_file});
  EXPECT_EQ(live.exit_code, 1);
  EXPECT_THAT(live.err, HasSubstr("role admin"));
}

TEST_F(SecurityTest, AnOperatorChangesWhatIsServed) {
  const std::string file = *folder_ / "operators", token_file = *folder_ / "operator";
  WriteFile(file, absl::StrCat(HashOf("runs-it"), " admin\n"));
  WriteFile(token_file, "runs-it");
  ServerProgram server(Index(), {"--tokens", file});
  ASSERT_TRUE(FirstSearch(server.address(), {.token_file = token_file}).ok());
  const auto admin = [&](std::vector<std::string> words, bool with_token = true) {
    words.insert(words.begin(), "admin");
    words.insert(words.begin() + 2, server.address());
    if (with_token) words.insert(words.end(), {"--token", token_file});
    return Hmann(words);
  };
  const auto swapped = nlohmann::json::parse(admin({"swap", "sample", Index(), "--json"}).out);
  EXPECT_GT(swapped["generation"], 1);
  const Outcome loaded = admin({"load", "more", Index(), "--slow", "dram", "--sq", "0"});
  EXPECT_EQ(loaded.exit_code, 0) << loaded.err;
  EXPECT_THAT(loaded.out, HasSubstr("index more, generation "));
  const auto status = nlohmann::json::parse(admin({"status", "--json"}).out)["indexes"];
  ASSERT_EQ(status.size(), 2u);
  EXPECT_EQ(status[0]["index"], "sample");
  EXPECT_EQ(status[0]["generation"], swapped["generation"]);
  EXPECT_EQ(status[0]["swaps"], 1);
  EXPECT_EQ(status[1]["state"], "serving");
  EXPECT_THAT(admin({"status", "more"}).out, HasSubstr("index more, state serving"));
  EXPECT_EQ(admin({"unload", "more"}).exit_code, 0);
  const Outcome gone = admin({"swap", "more"});
  EXPECT_EQ(gone.exit_code, 1);
  EXPECT_THAT(gone.err, HasSubstr("none of that name"));
  const auto checked =
      nlohmann::json::parse(admin({"check", "sample", kQueries, "--rows", "50", "--json"}).out);
  EXPECT_EQ(checked["queries"], 50);
  EXPECT_EQ(checked["k"], 10);
  EXPECT_EQ(checked["generation"], swapped["generation"]);
  EXPECT_GT(checked["recall"], 0.9);
  EXPECT_LE(checked["recall"], 1.0);
  EXPECT_THAT(admin({"check", "sample", kQueries, "--k", "1"}).out, HasSubstr("queries 200, k 1"));
  EXPECT_THAT(admin({"check", "more", kQueries}).err, HasSubstr("none of that name"));
  const Outcome missing = admin({"swap", "sample", "/none.hmann"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("/none.hmann"));
  const Outcome late = admin({"swap", "sample", Index(), "--probe", kQueries, "--groundtruth",
                              "datasets/sample/query.gt100", "--p99", "1ns"});
  EXPECT_EQ(late.exit_code, 1);
  EXPECT_THAT(late.err, HasSubstr("99 of 100 queries of the probe"));
  EXPECT_THAT(admin({"status"}, false).err, HasSubstr("TOKEN_MISSING"));
  EXPECT_EQ(admin({"drain"}).exit_code, 0);
}

TEST_F(SecurityTest, WhatCannotBeMeantIsRefusedAtOnce) {
  const Signed one = Sign("one", "ours"), other = Sign("other", "ours");
  const auto serve = [](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"serve", "--index", absl::StrCat("sample=", Index()),
                                    "--listen", "127.0.0.1:0"};
    all.insert(all.end(), more.begin(), more.end());
    return Hmann(all);
  };
  const auto fails = [](const Outcome& ran, int exit_code, const std::string& words) {
    EXPECT_EQ(ran.exit_code, exit_code) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(words));
  };
  fails(serve({"--tls-cert", one.certificate, "--tls-key", other.key}), 1, "is not the key of");
  fails(serve({"--tls-cert", one.key, "--tls-key", one.key}), 1, "expected a certificate");
  fails(serve({"--tls-cert", one.certificate, "--tls-key", *folder_ / "none"}), 1, "none");
  fails(serve({"--tls-cert", one.certificate}), 2, "--tls-key");
  fails(serve({"--tls-client-ca", one.certificate}), 2, "--tls-cert");
  fails(serve({"--tokens", *folder_ / "none"}), 1, "none");
  WriteFile(*folder_ / "token", "a-token");
  const auto connected =
      client::Client::Connect("db.example:50051", {.token_file = *folder_ / "token"});
  EXPECT_THAT(std::string(connected.status().message()), HasSubstr("unencrypted"));
  EXPECT_THAT(std::string(connected.status().message()), Not(HasSubstr("a-token")));
}

TEST_F(SecurityTest, TheEndOfTheCertificateIsShown) {
  const Signed made = Sign("shown", "ours");
  std::vector<std::string> flags = Tls(made);
  flags.insert(flags.end(), {"--http", "127.0.0.1:0"});
  ServerProgram server(Index(), flags);
  const Outcome end = RunProgram({"/bin/sh", "-c",
                                  absl::StrCat("date +%s -d \"$(openssl x509 -noout -enddate -in ",
                                               made.certificate, " | cut -d= -f2)\"")});
  ASSERT_EQ(end.exit_code, 0) << end.err;
  EXPECT_THAT(Page(server.http(), "/metrics"),
              HasSubstr(absl::StrCat("\nhmann_certificate_expiry_timestamp_seconds ", end.out)));
}

TEST_F(SecurityTest, ADebugLogHasTheLinesOfGrpcAndNoToken) {
  const std::string file = *folder_ / "tokens_of_debug", token = *folder_ / "token";
  WriteFile(file, absl::StrCat(HashOf("a-secret-token"), " read\n"));
  WriteFile(token, "a-secret-token");
  std::vector<std::string> flags = Tls(Sign("debug", "ours"));
  flags.insert(flags.end(), {"--tokens", file, "--log-level", "debug", "--drain", "50ms"});
  ServerProgram server(Index(), flags);
  EXPECT_EQ(FirstSearch(server.address(), {.ca_file = Authority("ours"), .token_file = token}),
            absl::OkStatus());
  EXPECT_FALSE(Search(server.address(), {}).ok()) << "plaintext";
  server.program().Signal(SIGTERM);
  const std::string log = server.program().Wait().err;
  EXPECT_THAT(log, HasSubstr("grpc: Handshaking failed"));
  EXPECT_THAT(log, Not(HasSubstr("a-secret-token")));
}

}  // namespace
}  // namespace hmann
