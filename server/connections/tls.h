#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "grpcpp/security/server_credentials.h"
#include "server/connections/options.h"

namespace hmann::server {

/// Makes the credentials for the connections of a server. The files are read again every
/// second, so that a certificate can be replaced without a restart. Without files:
/// plaintext. Errors: those of open(2); INVALID_ARGUMENT naming a file that is not a
/// certificate or key, or two files that do not match.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsFiles& files);

}  // namespace hmann::server
