#include "server/connections/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "index/base/errors.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "spdlog/spdlog.h"

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

absl::StatusOr<Memory> Read(const std::string& path, std::string* text) {
  HMANN_ASSIGN_OR_RETURN(*text, ReadTextFile(path, kMostFile));
  return Memory(BIO_new_mem_buf(text->data(), static_cast<int>(text->size())));
}

absl::StatusOr<Certificate> ReadCertificate(const std::string& option, const std::string& path) {
  std::string text;
  HMANN_ASSIGN_OR_RETURN(const Memory memory, Read(path, &text));
  Certificate read(PEM_read_bio_X509(memory.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (read == nullptr) {
    return InvalidArgument(option, " ", path, ": expected a certificate in PEM, found none");
  }
  return read;
}

/// Never prompts on a terminal: a key with a password is rejected.
int NoPassword(char*, int, int, void*) { return 0; }

absl::StatusOr<Key> ReadKey(const std::string& path) {
  std::string text;
  HMANN_ASSIGN_OR_RETURN(const Memory memory, Read(path, &text));
  Key read(PEM_read_bio_PrivateKey(memory.get(), nullptr, NoPassword, nullptr));
  ERR_clear_error();
  OPENSSL_cleanse(text.data(), text.size());
  if (read == nullptr) {
    return InvalidArgument("--tls-key ", path,
                           ": expected a private key in PEM, without a password");
  }
  return read;
}

absl::Status Check(const TlsFiles& files) {
  HMANN_ASSIGN_OR_RETURN(const Certificate certificate,
                         ReadCertificate("--tls-cert", files.certificate));
  HMANN_ASSIGN_OR_RETURN(const Key key, ReadKey(files.key));
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    ERR_clear_error();
    return InvalidArgument("--tls-key ", files.key, ": is not the key of the certificate in ",
                           files.certificate);
  }
  if (X509_cmp_current_time(X509_get0_notAfter(certificate.get())) < 0)
    spdlog::warn("--tls-cert {}: has expired: clients will refuse it", files.certificate);
  if (files.client_ca.empty()) return absl::OkStatus();
  return ReadCertificate("--tls-client-ca", files.client_ca).status();
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsFiles& files) {
  if (!files.any()) return grpc::InsecureServerCredentials();
  HMANN_RETURN_IF_ERROR(Check(files));
  namespace tls = grpc::experimental;
  tls::TlsServerCredentialsOptions options(std::make_shared<tls::FileWatcherCertificateProvider>(
      files.key, files.certificate, files.client_ca, kReadAgainSeconds));
  options.watch_identity_key_cert_pairs();
  if (!files.client_ca.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return tls::TlsServerCredentials(options);
}

}  // namespace hmann::server
