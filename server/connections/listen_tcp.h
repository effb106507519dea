#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "index/base/file.h"

namespace hmann::server {

/// Listens at "HOST:PORT", at every address of HOST ("127.0.0.1", "[::1]", or a name).
/// Port 0 picks a free one. Appends to `listeners`, and sets `port`. Errors:
/// INVALID_ARGUMENT for a host or port that means nothing; UNAVAILABLE if no address can
/// be bound, or if others use the port at one of them (a client might ask those), as
/// "Address already in use".
absl::Status ListenTcp(const std::string& listen, std::vector<FileDescriptor>* listeners,
                       int* port);

}  // namespace hmann::server
