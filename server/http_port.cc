#include "server/http_port.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "httplib.h"
#include "index/base/errors.h"

namespace hmann::server {
namespace {

constexpr char kText[] = "text/plain; version=0.0.4; charset=utf-8";
constexpr std::size_t kThreads = 2;
constexpr time_t kSeconds = 5;
constexpr std::size_t kMostBody = 4096;

}  // namespace

HttpPort::HttpPort() : server_(std::make_unique<httplib::Server>()) {
  server_->new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  // Without SO_REUSEPORT, the default of httplib: a port in use has to be an error.
  server_->set_socket_options([](socket_t socket) {
    const int on = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  });
  server_->set_read_timeout(kSeconds);
  server_->set_write_timeout(kSeconds);
  server_->set_keep_alive_max_count(1);
  server_->set_payload_max_length(kMostBody);
}

absl::StatusOr<std::unique_ptr<HttpPort>> HttpPort::Listen(const std::string& listen) {
  std::unique_ptr<HttpPort> http(new HttpPort);
  const std::size_t colon = listen.rfind(':');
  std::string host = listen.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  int port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(listen.substr(colon + 1), &port) ||
      port < 0 || port > 65535) {
    return InvalidArgument("--http: expected HOST:PORT, found '", listen, "'");
  }
  http->port_ = port == 0 ? http->server_->bind_to_any_port(host)
                          : (http->server_->bind_to_port(host, port) ? port : -1);
  if (http->port_ < 0) return Unavailable("http ", listen, ": cannot be bound");
  return http;
}

HttpPort::~HttpPort() {
  if (!thread_.joinable()) return;
  server_->stop();
  thread_.join();
}

void HttpPort::Add(const std::string& path, Page page) {
  server_->Get(path, [page = std::move(page)](const httplib::Request&, httplib::Response& reply) {
    const Reply made = page();
    reply.status = made.status;
    reply.set_content(made.text, kText);
  });
}

void HttpPort::Start() {
  thread_ = std::thread([this] { server_->listen_after_bind(); });
  // A stop() before the server runs would be lost.
  while (!server_->is_running()) std::this_thread::yield();
}

}  // namespace hmann::server
