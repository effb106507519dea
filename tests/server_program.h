/// For tests only: `hmann serve` as a user runs it.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "hmann/client.h"
#include "nlohmann/json.hpp"
#include "tests/loopback.h"
#include "tests/program.h"

namespace hmann {

inline constexpr char kQueries[] = "datasets/sample/query.u8bin";

/// A running `hmann serve` on a port that it picked. It serves `index` as "sample";
/// empty: what `more` says.
class ServerProgram {
 public:
  ServerProgram(const std::string& index, const std::vector<std::string>& more,
                const std::string& program = HmannProgram(), RunOptions options = {})
      : folder_("serve_program") {
    std::vector<std::string> command = {program, "serve", "--listen", "127.0.0.1:0", "--json"};
    if (!index.empty()) command.insert(command.end(), {"--index", absl::StrCat("sample=", index)});
    command.insert(command.end(), more.begin(), more.end());
    options.stdout_to = folder_ / "stdout";
    program_ = std::make_unique<Program>(command, options);
    std::string line;
    while (line.empty() || line.back() != '\n') {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (std::filesystem::exists(options.stdout_to)) line = ReadFile(options.stdout_to);
    }
    const nlohmann::json printed = nlohmann::json::parse(line);
    address_ = printed["listening"].get<std::string>();
    http_ = printed.value("http", "");
    EXPECT_EQ(address_, absl::StrCat("127.0.0.1:", printed["port"].get<int>()));
  }

  const std::string& address() const { return address_; }
  const std::string& http() const { return http_; }  ///< address; empty: none
  Program& program() { return *program_; }

 private:
  const TestFolder folder_;
  std::unique_ptr<Program> program_;
  std::string address_, http_;
};

/// `ca_file`: certificate of the CA that signed the server's; empty: plaintext.
inline client::Client Connected(const std::string& address, const std::string& ca_file = "") {
  auto client = client::Client::Connect(
      address, {.own_connection = true, .retry = false, .ca_file = ca_file});
  EXPECT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE(client->WaitReady("sample", {.deadline = std::chrono::seconds(60)}).ok());
  return *std::move(client);
}

/// The text of a page of `hmann serve --http`.
inline std::string Page(const std::string& address, const std::string& path) {
  const sockaddr_in to = LoopbackAddress(address);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  const std::string request = absl::StrCat("GET ", path, " HTTP/1.1\r\n\r\n");
  EXPECT_EQ(send(fd, request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
  std::string page(1 << 20, '\0');
  page.resize(static_cast<std::size_t>(
      std::max<ssize_t>(0, recv(fd, page.data(), page.size(), MSG_WAITALL))));
  close(fd);
  return page;
}

/// Creates a self-signed certificate for 127.0.0.1: cert.pem and key.pem in `folder`.
inline void MakeCertificate(const TestFolder& folder) {
  const Outcome made = RunProgram({"/usr/bin/openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                                   "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                                   folder / "key.pem", "-out", folder / "cert.pem", "-subj",
                                   "/CN=server", "-addext", "subjectAltName=IP:127.0.0.1"});
  EXPECT_EQ(made.exit_code, 0) << made.err;
}

inline std::vector<std::byte> FirstQuery() {
  const std::string file = ReadFile(kQueries);
  std::vector<std::byte> query;
  for (const char c : file.substr(8, 128)) query.push_back(static_cast<std::byte>(c));
  return query;
}

}  // namespace hmann
