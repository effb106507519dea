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

/// A small HTTP/1.1 server on a free port of 127.0.0.1, one connection after another. It
/// knows GET, Range (with If-Range), ETag, redirects and how to misbehave. Files may be
/// virtual: longer than what is held, zeros behind.
class TestServer {
 public:
  struct File {
    std::string content;
    std::uint64_t total_bytes = 0;  ///< 0: content.size()
    std::string etag = "\"v1\"";    ///< "": none
    bool ranges = true;             ///< false: sends the whole file whatever is asked
    std::uint64_t cut_after = 0;    ///< body bytes after which the connection is closed; 0: never
    int cuts = 0;                   ///< how many answers are cut
    int unavailable = 0;            ///< how many answers are 503 first
    std::string redirect = {};      ///< 302 to this path instead
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
    std::uint64_t first = 0;  ///< byte of the file that the body begins with
    std::uint64_t bytes = 0;  ///< of the body, as far as it is sent
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
