#include "server/options.h"

#include <arpa/inet.h>

#include <set>
#include <string>

#include "index/base/errors.h"
#include "index/base/status_macros.h"

namespace hmann::server {

namespace {

absl::Status CheckVald(const ServerOptions& options) {
  const auto& [index, listen, agents] = options.vald;
  if (index.empty()) {
    if (listen.empty() && agents.empty()) return absl::OkStatus();
    return InvalidArgument("--vald-listen and --vald-agents: expected --vald NAME, too");
  }
  bool known = options.aliases.contains(index);
  for (const IndexSpec& spec : options.indexes) known |= spec.name == index;
  if (!known) return InvalidArgument("--vald: no --index has the name '", index, "'");
  for (const std::string& agent : agents) {
    in_addr address{};
    if (inet_pton(AF_INET, agent.c_str(), &address) != 1)
      return InvalidArgument("--vald-agents: expected IPv4 addresses, found '", agent, "'");
  }
  return absl::OkStatus();
}

/// Errors: INVALID_ARGUMENT for an address that others may reach without encryption.
absl::Status CheckAddress(const char* flag, const std::string& listen,
                          const ServerOptions& options) {
  HMANN_ASSIGN_OR_RETURN(const bool loopback, IsLoopback(flag, listen));
  if (loopback || options.tls.any() || options.insecure) return absl::OkStatus();
  return InvalidArgument(
      flag, " ", listen,
      " is open to other machines: expected --tls-cert and --tls-key, or --insecure");
}

}  // namespace

absl::Status ServerOptions::Validate() const {
  if (indexes.empty())
    return InvalidArgument("--index: expected at least one NAME=FILE, or --config FILE");
  std::set<std::string> names;
  for (const IndexSpec& spec : indexes) {
    HMANN_RETURN_IF_ERROR(spec.Validate());
    if (!names.insert(spec.name).second)
      return InvalidArgument("--index: the name '", spec.name, "' is given twice");
  }
  HMANN_RETURN_IF_ERROR(tls.Validate());
  HMANN_RETURN_IF_ERROR(CheckAddress("--listen", listen, *this));
  if (!vald.listen.empty())
    HMANN_RETURN_IF_ERROR(CheckAddress("--vald-listen", vald.listen, *this));
  HMANN_RETURN_IF_ERROR(CheckVald(*this));
  if (!http.empty()) {
    HMANN_ASSIGN_OR_RETURN(const bool http_loopback, IsLoopback("--http", http));
    if (!http_loopback && !insecure) {
      return InvalidArgument("--http ", http,
                             " is open to other machines, unencrypted: expected --insecure");
    }
  }
  HMANN_RETURN_IF_ERROR(connections.Validate());
  if (socket_mode < 0 || socket_mode > 0777)
    return InvalidArgument("--socket-mode: expected 000 to 777, octal");
  if (threads < 0 || threads > 4096)
    return InvalidArgument("--threads: expected 0 to 4096, found ", threads);
  if (queue == 0) return InvalidArgument("--queue: expected at least 1, found 0");
  if (most_work <= std::chrono::nanoseconds::zero())
    return InvalidArgument("--max-work: expected more than 0");
  if (default_deadline <= std::chrono::nanoseconds::zero())
    return InvalidArgument("default deadline: expected more than 0");
  if (limits.max_batch == 0 || limits.max_k == 0 || limits.max_ef == 0 || limits.max_ef > kMaxEf) {
    return InvalidArgument("limits: expected at least 1, and max_ef at most ", kMaxEf);
  }
  return absl::OkStatus();
}

}  // namespace hmann::server
