#include "server/connections/tls.h"

#include <fcntl.h>
#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "index/base/errors.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann::server {
namespace {

constexpr unsigned kReadAgainSeconds = 1;
constexpr std::uint64_t kMostFile = 1_MiB;

template <typename T, void (*free)(T*)>
struct Freed {
  void operator()(T* one) const { free(one); }
};
using Certificate = std::unique_ptr<X509, Freed<X509, X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY, EVP_PKEY_free>>;
using Memory = std::unique_ptr<BIO, Freed<BIO, BIO_free_all>>;

enum File { kKey, kCertificate, kClientCa };

Memory Text(const std::string& text) {
  return Memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

/// The first certificate of a file, all of whose certificates can be read.
absl::StatusOr<Certificate> ReadCertificates(const std::string& option, const std::string& path,
                                             const std::string& text) {
  const Memory memory = Text(text);
  Certificate first;
  int count = 0;
  for (;;) {
    Certificate next(PEM_read_bio_X509(memory.get(), nullptr, nullptr, nullptr));
    if (next == nullptr) break;
    if (count++ == 0) first = std::move(next);
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (first == nullptr)
    return InvalidArgument(option, " ", path, ": expected a certificate in PEM, found none");
  if (!at_end) {
    return InvalidArgument(option, " ", path, ": certificate ", count + 1,
                           " of the file cannot be read");
  }
  return first;
}

/// Never prompts on a terminal: a key with a password is rejected.
int NoPassword(char*, int, int, void*) { return 0; }

absl::StatusOr<Key> ReadKey(const std::string& path, const std::string& text) {
  Key read(PEM_read_bio_PrivateKey(Text(text).get(), nullptr, NoPassword, nullptr));
  ERR_clear_error();
  if (read == nullptr) {
    return InvalidArgument("--tls-key ", path,
                           ": expected a private key in PEM, without a password");
  }
  return read;
}

std::int64_t ExpiresAt(const X509* certificate) {
  std::tm time{};
  return ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &time) == 1 ? timegm(&time) : 0;
}

/// A file in memory with this text. Each generation has its own time of modification, by
/// which gRPC notices that files changed while it read them.
absl::StatusOr<FileDescriptor> MemoryFile(const std::string& text, int generation) {
  FileDescriptor file(memfd_create("hmann-tls", MFD_CLOEXEC));
  if (file.fd() < 0) return ErrnoError(errno, "memfd_create", "TLS files");
  const timespec time{generation, 0};
  const timespec times[2] = {time, time};
  if (write(file.fd(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      futimens(file.fd(), times) != 0)
    return ErrnoError(errno, "write", "TLS files in memory");
  return file;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsWatch>> TlsWatch::Open(const TlsFiles& files) {
  std::unique_ptr<TlsWatch> watch(new TlsWatch(files));
  HMANN_RETURN_IF_ERROR(watch->Reload().status());
  return watch;
}

TlsWatch::~TlsWatch() { OPENSSL_cleanse(texts_[kKey].data(), texts_[kKey].size()); }

absl::StatusOr<std::int64_t> TlsWatch::Read(Texts* texts) const {
  HMANN_ASSIGN_OR_RETURN((*texts)[kCertificate], ReadTextFile(files_.certificate, kMostFile));
  HMANN_ASSIGN_OR_RETURN((*texts)[kKey], ReadTextFile(files_.key, kMostFile));
  if (!files_.client_ca.empty()) {
    HMANN_ASSIGN_OR_RETURN((*texts)[kClientCa], ReadTextFile(files_.client_ca, kMostFile));
    HMANN_RETURN_IF_ERROR(
        ReadCertificates("--tls-client-ca", files_.client_ca, (*texts)[kClientCa]).status());
  }
  HMANN_ASSIGN_OR_RETURN(
      const Certificate certificate,
      ReadCertificates("--tls-cert", files_.certificate, (*texts)[kCertificate]));
  HMANN_ASSIGN_OR_RETURN(const Key key, ReadKey(files_.key, (*texts)[kKey]));
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    ERR_clear_error();
    return InvalidArgument("--tls-key ", files_.key, ": is not the key of the certificate in ",
                           files_.certificate);
  }
  return ExpiresAt(certificate.get());
}

absl::StatusOr<bool> TlsWatch::Reload() {
  Texts texts;
  HMANN_ASSIGN_OR_RETURN(const std::int64_t expires, Read(&texts));
  if (texts == texts_) return false;
  const std::int64_t now = std::time(nullptr);
  if (expires <= now && expires_.load() > now)
    return InvalidArgument("--tls-cert ", files_.certificate, ": has expired");
  HMANN_RETURN_IF_ERROR(Publish(texts));
  OPENSSL_cleanse(texts_[kKey].data(), texts_[kKey].size());
  texts_ = std::move(texts);
  expires_.store(expires);
  return true;
}

/// Replaces each copy under its descriptor number, under which gRPC knows it.
absl::Status TlsWatch::Publish(const Texts& texts) {
  ++generation_;
  std::array<FileDescriptor, 3> next;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    HMANN_ASSIGN_OR_RETURN(next[i], MemoryFile(texts[i], generation_));
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (copies_[i].fd() < 0) {
      copies_[i] = std::move(next[i]);
    } else if (dup3(next[i].fd(), copies_[i].fd(), O_CLOEXEC) < 0) {
      return ErrnoError(errno, "dup3", "TLS files in memory");
    }
  }
  return absl::OkStatus();
}

std::shared_ptr<grpc::ServerCredentials> TlsWatch::Credentials() const {
  namespace tls = grpc::experimental;
  const auto copy = [this](File file) {
    return absl::StrCat("/proc/self/fd/", copies_[file].fd());
  };
  const bool clients = !files_.client_ca.empty();
  tls::TlsServerCredentialsOptions options(std::make_shared<tls::FileWatcherCertificateProvider>(
      copy(kKey), copy(kCertificate), clients ? copy(kClientCa) : "", kReadAgainSeconds));
  options.watch_identity_key_cert_pairs();
  if (clients) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return tls::TlsServerCredentials(options);
}

}  // namespace hmann::server
