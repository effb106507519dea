#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/security/server_credentials.h"
#include "index/base/file.h"
#include "server/connections/options.h"

namespace hmann::server {

/// The TLS files of a server, which may be replaced while it runs. gRPC's own watcher
/// takes whatever the files hold, also a certificate without its key, and then refuses
/// every connection without a word. So the files are checked here first, and gRPC watches
/// copies in memory (memfd) that change only when a check succeeds.
///
/// Thread safety: Reload by one thread at a time; the rest by any thread.
class TlsWatch {
 public:
  /// Errors: those of open(2); INVALID_ARGUMENT naming a file that is not a certificate
  /// or key, or two files that do not match.
  static absl::StatusOr<std::unique_ptr<TlsWatch>> Open(const TlsFiles& files);
  ~TlsWatch();
  TlsWatch(const TlsWatch&) = delete;
  TlsWatch& operator=(const TlsWatch&) = delete;

  /// Credentials that follow the checked files within a second.
  std::shared_ptr<grpc::ServerCredentials> Credentials() const;
  /// Reads the files again. Returns true if others are in force now. Errors: those of
  /// Open, and INVALID_ARGUMENT for an expired certificate in place of a valid one; what
  /// was in force stays.
  absl::StatusOr<bool> Reload();
  /// When the certificate in force expires, in seconds since 1970.
  std::int64_t expires() const { return expires_.load(); }

 private:
  /// The text of the key, the certificate chain, and the CA of clients.
  using Texts = std::array<std::string, 3>;

  explicit TlsWatch(const TlsFiles& files) : files_(files) {}
  /// Returns when the certificate expires.
  absl::StatusOr<std::int64_t> Read(Texts* texts) const;
  absl::Status Publish(const Texts& texts);

  const TlsFiles files_;
  Texts texts_;
  std::array<FileDescriptor, 3> copies_;
  int generation_ = 0;
  std::atomic<std::int64_t> expires_{0};
};

}  // namespace hmann::server
