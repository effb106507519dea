#include "client/cpp/credentials.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann::client {
namespace {

constexpr std::uint64_t kMostFile = 1_MiB;

bool IsThisMachine(const std::string& address) {
  if (absl::StartsWith(address, "unix:")) return true;
  const std::string host = address.substr(0, address.rfind(':'));
  return host == "localhost" || host == "[::1]" ||
         (absl::StartsWith(host, "127.") && std::all_of(host.begin(), host.end(), [](char c) {
            return absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '.';
          }));
}

absl::StatusOr<std::string> ReadIfNamed(const std::string& path) {
  if (path.empty()) return std::string();
  HMANN_ASSIGN_OR_RETURN(std::string text, ReadTextFile(path, kMostFile));
  // gRPC logs its reason and says nothing.
  if (!absl::StrContains(text, "-----BEGIN "))
    return InvalidArgument(path, ": expected PEM, a text with -----BEGIN");
  return text;
}

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadTextFile(path, kMostFile);
  if (absl::IsNotFound(text.status()))
    return NotFound("the file that holds the token: ", text.status().message());
  HMANN_RETURN_IF_ERROR(text.status());
  const absl::string_view token = absl::StripAsciiWhitespace(*text);
  if (token.empty() || !std::all_of(token.begin(), token.end(), [](char c) {
        return absl::ascii_isgraph(static_cast<unsigned char>(c));
      })) {
    return InvalidArgument(
        path, ": expected a token of visible characters on one line; it is not shown here");
  }
  return std::string(token);
}

}  // namespace

absl::StatusOr<Credentials> MakeCredentials(const std::string& address,
                                            const ConnectOptions& options) {
  Credentials credentials;
  const bool tls = credentials.tls =
      options.tls || !options.ca_file.empty() || !options.certificate_file.empty();
  if (options.certificate_file.empty() != options.key_file.empty())
    return InvalidArgument("a client's certificate and its key go together");
  if (!options.token_file.empty()) {
    if (!tls && !IsThisMachine(address)) {
      return InvalidArgument("the token would go to ", address,
                             " unencrypted: use TLS (a CA file, or the system's)");
    }
    HMANN_ASSIGN_OR_RETURN(const std::string token, ReadToken(options.token_file));
    credentials.authorization = absl::StrCat("Bearer ", token);
  }
  if (!tls) {
    credentials.channel = grpc::InsecureChannelCredentials();
    return credentials;
  }
  grpc::SslCredentialsOptions ssl;
  HMANN_ASSIGN_OR_RETURN(ssl.pem_root_certs, ReadIfNamed(options.ca_file));
  HMANN_ASSIGN_OR_RETURN(ssl.pem_cert_chain, ReadIfNamed(options.certificate_file));
  HMANN_ASSIGN_OR_RETURN(ssl.pem_private_key, ReadIfNamed(options.key_file));
  credentials.channel = grpc::SslCredentials(ssl);
  return credentials;
}

}  // namespace hmann::client
