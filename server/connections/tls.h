#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "grpcpp/security/server_credentials.h"
#include "server/connections/options.h"

namespace hmann::server {

/// What connections of a server are made with. The files are read again every second, so
/// that a certificate is replaced without a restart. Without any: plaintext. Errors: of
/// open(2); INVALID_ARGUMENT naming the file, for what is no certificate or key, or for
/// two that do not belong together.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsFiles& files);

}  // namespace hmann::server
