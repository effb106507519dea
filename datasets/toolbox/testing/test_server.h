/// For tests only.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace hmann {

/// A small HTTP/1.1 server on a free port of 127.0.0.1, which serves one connection after
/// another. It supports GET, Range (with If-Range), ETag, redirects and deliberate
/// misbehavior. Files may be virtual: longer than their stored content, zeros behind.
class TestServer {
 public:
  struct File {
    std::string content;
    std::uint64_t total_bytes = 0;  ///< 0: content.size()
    std::string etag = "\"v1\"";    ///< "": none
    bool ranges = true;             ///< false: sends the whole file whatever the request
    std::uint64_t cut_after = 0;    ///< body bytes after which the connection is closed; 0: never
    int cuts = 0;                   ///< number of answers that are cut
    int unavailable = 0;            ///< number of first answers that are 503
    std::string redirect = {};      ///< answers 302 to this path instead
  };

  TestServer();
  ~TestServer();
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  std::string url() const;
  void Put(const std::string& path, File file);

  struct Request {
    std::string path, range, if_range;
    std::uint64_t sent = 0;  ///< body bytes
  };
  std::vector<Request> requests();

 private:
  struct Response {
    std::string head = {};
    std::uint64_t first = 0;  ///< offset in the file at which the body begins
    std::uint64_t bytes = 0;  ///< bytes of the body to send
    std::string content = {};
  };

  void Serve();
  static bool ReadRequest(int connection, Request* request);
  Response Respond(const Request& request);
  void Answer(int connection);

  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::map<std::string, File> files_;
  std::vector<Request> requests_;
  std::thread thread_;
};

}  // namespace hmann
