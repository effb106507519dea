#include "server/connections/channelz.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "grpc/grpc.h"
#include "grpc/support/alloc.h"
#include "nlohmann/json.hpp"

namespace hmann::server {
namespace {

/// Text allocated by gRPC, freed on destruction.
class Text {
 public:
  explicit Text(char* text) : text_(text) {}
  ~Text() { gpr_free(text_); }
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;
  absl::string_view view() const { return text_ == nullptr ? "" : text_; }

 private:
  char* const text_;
};

/// The list `key` of the JSON object in `text`; empty when it has none.
nlohmann::json List(const Text& text, const char* key) {
  auto object = nlohmann::json::parse(text.view(), nullptr, false);
  if (!object.is_object() || !object.contains(key)) return nlohmann::json::array();
  return std::move(object[key]);
}

std::int64_t Number(const nlohmann::json& reference, const char* key) {
  std::int64_t number = 0;
  return absl::SimpleAtoi(reference.value(key, ""), &number) ? number : 0;
}

/// The integer in a member `"key":"123"`; 0 when there is none. It searches instead of
/// parsing, because the text is read every millisecond.
std::uint64_t Count(absl::string_view json, absl::string_view key) {
  const std::size_t at = json.find(absl::StrCat("\"", key, "\":\""));
  if (at == absl::string_view::npos) return 0;
  const absl::string_view rest = json.substr(at + key.size() + 4);
  std::uint64_t count = 0;
  return absl::SimpleAtoi(rest.substr(0, rest.find('"')), &count) ? count : 0;
}

}  // namespace

StreamCounts StreamsOf(std::int64_t socket) {
  const Text text(grpc_channelz_get_socket(socket));
  StreamCounts streams;
  // Reads the ends before the starts, so that the ends never exceed the starts.
  streams.messages = Count(text.view(), "messagesReceived");
  streams.succeeded = Count(text.view(), "streamsSucceeded");
  streams.failed = Count(text.view(), "streamsFailed");
  streams.started =
      std::max(Count(text.view(), "streamsStarted"), streams.succeeded + streams.failed);
  return streams;
}

std::vector<NumberedSocket> SocketsOf(std::int64_t server, std::int64_t first) {
  std::vector<NumberedSocket> sockets;
  const Text text(grpc_channelz_get_server_sockets(server, first, 0));
  for (const auto& socket : List(text, "socketRef")) {
    const std::string name = socket.value("name", "");
    sockets.push_back(
        {Number(socket, "socketId"), std::string(absl::StripPrefix(name, "chttp2 "))});
  }
  return sockets;
}

std::int64_t LastServer() {
  std::int64_t last = 0;
  for (bool end = false; !end;) {
    const std::int64_t before = last;
    const Text text(grpc_channelz_get_servers(last + 1));
    for (const auto& server : List(text, "server"))
      last = std::max(last, Number(server["ref"], "serverId"));
    end = last == before;
  }
  return last;
}

}  // namespace hmann::server
