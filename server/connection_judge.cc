// What a connection may do.
#include <algorithm>

#include "server/connection_guard.h"
#include "server/socket_facts.h"

namespace hmann {
namespace {

/// Calls without a message, to those that were allowed; and calls of any kind, of which
/// gRPC keeps some that are over until their deadline.
constexpr std::int64_t kMoreStreams = 2, kMostStreams = 16;

}  // namespace

void ConnectionGuard::Judge(int descriptor, Connection& connection, Clock::time_point now) {
  const StreamCounts streams = StreamsOf(connection.socket);
  connection.bytes = BytesReceived(descriptor);
  connection.looked = now;
  const std::int64_t without_message = WithoutMessage(connection, streams);
  if (streams.messages != connection.streams.messages) connection.bytes_then = connection.bytes;
  const bool half_sent = HalfSent(connection, streams, without_message > 0, now) ||
                         TooLong(connection, streams.open());
  connection.streams = streams;
  if (now - connection.second_began >= std::chrono::seconds(1)) {
    connection.second_began = now;
    connection.failed_before = streams.failed;
  }
  if (without_message > kMoreStreams * limits_.streams ||
      streams.open() > std::uint64_t{kMostStreams} * limits_.streams) {
    ShutDown(descriptor, connection, Refusal::kStreams);
  } else if (streams.failed - connection.failed_before > limits_.cancels_per_second) {
    ShutDown(descriptor, connection, Refusal::kCancels);
  } else if (half_sent) {
    ShutDown(descriptor, connection, Refusal::kHalfSent);
  }
}

/// Each call here has one message from its client. So of the messages, those that belong
/// to no call that ended well are of calls that failed or are open: there are at least so
/// many open calls without theirs as there are open calls more than such messages.
std::int64_t ConnectionGuard::WithoutMessage(Connection& connection, const StreamCounts& now) {
  const auto unclaimed =
      static_cast<std::int64_t>(now.messages) - static_cast<std::int64_t>(now.succeeded);
  if (now.open() == 0) connection.unclaimed_of_ended = unclaimed;
  return static_cast<std::int64_t>(now.open()) - (unclaimed - connection.unclaimed_of_ended);
}

/// While there are such calls, and no message comes at all, somebody has begun a request
/// and does not go on.
bool ConnectionGuard::HalfSent(Connection& connection, const StreamCounts& now, bool half,
                               Clock::time_point time) const {
  if (!half || connection.half_sent_since == Clock::time_point() ||
      now.messages != connection.messages_then) {
    connection.half_sent_since = half ? time : Clock::time_point();
    connection.messages_then = now.messages;
    return false;
  }
  return time - connection.half_sent_since >= limits_.request_timeout;
}

/// More has come without any message than all that are open may have. (gRPC looks at the
/// length of one when it is there whole.)
bool ConnectionGuard::TooLong(const Connection& connection, std::uint64_t open) const {
  // An eighth is more than frames and TLS take.
  const std::uint64_t most = limits_.request_bytes * std::max<std::uint64_t>(open, 1);
  return connection.bytes - connection.bytes_then > most + most / 8;
}

}  // namespace hmann
