#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/security/credentials.h"
#include "hmann/client.h"

namespace hmann::client {

/// The credentials that a client presents to a server.
struct Credentials {
  std::shared_ptr<grpc::ChannelCredentials> channel;
  bool tls = false;
  std::string authorization;  ///< value of the authorization header; empty: none
};

/// Errors: those of open(2); INVALID_ARGUMENT for a certificate without its key, and for
/// a token that would leave this machine unencrypted.
absl::StatusOr<Credentials> MakeCredentials(const std::string& address,
                                            const ConnectOptions& options);

}  // namespace hmann::client
