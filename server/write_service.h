#pragma once

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "hmann/v1/write.grpc.pb.h"
#include "server/calls/stream_call.h"
#include "server/calls/unary_call.h"
#include "server/core/jobs.h"
#include "server/core/loader.h"
#include "server/core/tokens.h"
#include "server/core/writers.h"

namespace hmann::server {

/// Implements hmann.v1.Write over a registry: calls whose request comes after the right
/// to it was checked (SearchService). The threads of Writers do the work.
///
/// Thread safety: all methods may be called from any thread.
class WriteService
    : public v1::Write::WithGenericMethod_Put<v1::Write::WithGenericMethod_Delete<
          v1::Write::WithGenericMethod_Update<v1::Write::WithGenericMethod_WriteStream<
              v1::Write::WithGenericMethod_Compact<v1::Write::Service>>>>> {
 public:
  /// All of them outlive this.
  WriteService(const Registry& registry, const RequestLimits& limits, Writers* writers,
               Loader* loader, Metrics* metrics)
      : registry_(registry),
        limits_(limits),
        writers_(*writers),
        loader_(*loader),
        metrics_(*metrics) {}

  /// Begins a call, whose request is here.
  using Begin = void (WriteService::*)(AnyCall* call, Access& access,
                                       const grpc::ByteBuffer& bytes);
  /// nullptr: there is no such method.
  static std::pair<Method, Begin> Named(absl::string_view method);

  /// A stream of writes, to be started.
  std::shared_ptr<StreamCall> Stream(grpc::CallbackServerContext* context, ReplyWatch* replies,
                                     UnreadRequests* unread, Access access);

 private:
  class StreamOfWrites;
  template <typename Request>
  struct Pending;
  template <typename Request>
  void Start(AnyCall* call, Access& access, const grpc::ByteBuffer& bytes);
  template <typename Request>
  void Finish(AnyCall* call, Pending<Request>& pending);

  const Registry& registry_;
  const RequestLimits limits_;
  Writers& writers_;
  Loader& loader_;
  Metrics& metrics_;
};

}  // namespace hmann::server
