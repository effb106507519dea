#pragma once

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "client/cpp/client.h"
#include "index/distance/distance.h"

namespace hmann {

/// What a command that talks to a server shows it, and believes of it.
void AddConnectFlags(CLI::App& app, client::ConnectOptions* connect);

/// The engine's names for what a server says of an index. Errors: INVALID_ARGUMENT for
/// what this program does not know.
absl::StatusOr<DType> EngineType(client::DType type);
absl::StatusOr<Metric> EngineMetric(client::Metric metric);

}  // namespace hmann
