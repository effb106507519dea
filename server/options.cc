#include "server/options.h"

#include <set>
#include <string>

#include "index/base/errors.h"
#include "index/base/status_macros.h"

namespace hmann::server {

absl::Status ServerOptions::Validate() const {
  if (indexes.empty())
    return InvalidArgument("--index: expected at least one NAME=FILE, or --config FILE");
  std::set<std::string> names;
  for (const IndexSpec& spec : indexes) {
    HMANN_RETURN_IF_ERROR(spec.Validate());
    if (!names.insert(spec.name).second)
      return InvalidArgument("--index: the name '", spec.name, "' is given twice");
  }
  HMANN_ASSIGN_OR_RETURN(const bool loopback, IsLoopback("--listen", listen));
  HMANN_RETURN_IF_ERROR(tls.Validate());
  if (!loopback && !tls.any() && !insecure) {
    return InvalidArgument(
        "--listen ", listen,
        " is open to other machines: expected --tls-cert and --tls-key, or --insecure");
  }
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
