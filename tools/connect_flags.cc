#include "tools/connect_flags.h"

namespace hmann {

void AddConnectFlags(CLI::App& app, client::ConnectOptions* connect) {
  app.add_flag("--tls", connect->tls, "encrypt; believe the certificates that this system does");
  app.add_option("--ca", connect->ca_file, "encrypt; believe the certificates in this file (PEM)");
  auto* certificate =
      app.add_option("--cert", connect->certificate_file, "this client's certificate (PEM)");
  certificate->needs(
      app.add_option("--key", connect->key_file, "its key (PEM)")->needs(certificate));
  app.add_option("--token", connect->token_file, "file with this client's token");
}

absl::StatusOr<DType> EngineType(client::DType type) {
  switch (type) {
    case client::DType::kF32:
      return DType::kF32;
    case client::DType::kU8:
      return DType::kU8;
    case client::DType::kI8:
      return DType::kI8;
    case client::DType::kF16:
      return DType::kF16;
    case client::DType::kUnknown:
      break;
  }
  return absl::InvalidArgumentError(
      "the index: its vectors are of a type that this program does not know");
}

absl::StatusOr<Metric> EngineMetric(client::Metric metric) {
  switch (metric) {
    case client::Metric::kL2:
      return Metric::kL2;
    case client::Metric::kInnerProduct:
      return Metric::kInnerProduct;
    case client::Metric::kCosine:
      return Metric::kCosine;
    case client::Metric::kUnknown:
      break;
  }
  return absl::InvalidArgumentError("the index: its metric is one that this program does not know");
}

}  // namespace hmann
