#pragma once

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "server/calls/calls.h"
#include "server/core/loader.h"
#include "server/core/writers.h"
#include "vald/vald.grpc.pb.h"

namespace hmann::server {

/// A message of one of Vald's streams: the reply to a request, or an error. (Its messages
/// differ in name only.)
grpc::ByteBuffer ValdStreamed(const absl::Status& status, const grpc::ByteBuffer& reply);

/// Answers what Vald's gateways, index managers and clients ask of an agent: v1.8, and
/// IndexInfo where v1.7 has it. It stands for one index, Serving::nameless. Its calls
/// take the way of hmann.v1: rights, queue, shares and metrics are the same.
class ValdService : public ::vald::v1::Search::WithGenericMethod_Search<
                        ::vald::v1::Search::WithGenericMethod_SearchByID<
                            ::vald::v1::Search::WithGenericMethod_MultiSearch<
                                ::vald::v1::Search::WithGenericMethod_MultiSearchByID<
                                    ::vald::v1::Search::WithGenericMethod_StreamSearch<
                                        ::vald::v1::Search::WithGenericMethod_StreamSearchByID<
                                            ::vald::v1::Search::Service>>>>>> {
 public:
  /// `agents`: the addresses that the discoverer tells. The others outlive this.
  ValdService(Calls* calls, Writers* writers, Loader* loader, std::vector<std::string> agents);

  /// Begins any other call; nullptr: Vald has no such method, or this does not answer it.
  grpc::ServerGenericBidiReactor* Begin(grpc::GenericCallbackServerContext* context);

 private:
  /// A method, and whether its requests come as a stream.
  struct Entry {
    Method method;
    Calls::Begin begin;
    bool streams = false;
  };
  /// "vald.v1.Object", "GetObject"; `stream`: the method that takes many, or empty.
  void Add(absl::string_view service, absl::string_view name, Method method,
           const Calls::Begin& begin, absl::string_view stream = {});
  template <typename Work>
  Calls::Begin Of();
  template <typename Request, typename Response>
  Calls::Begin Telling(absl::Status (ValdService::*tell)(const Request&, Response*) const);
  /// "vald.v1.Insert", ...: Insert, MultiInsert, StreamInsert.
  template <typename Request, typename MultiRequest>
  void AddWrites(const std::string& name);
  template <typename Request>
  void Write(AnyCall* call, Access& access, const grpc::ByteBuffer& bytes);
  void AddWrites();
  grpc::ServerGenericBidiReactor* List(grpc::CallbackServerContext* context);

  absl::Status Count(const ::payload::v1::Empty&, ::payload::v1::Info_Index_Count* count) const;
  absl::Status Detail(const ::payload::v1::Empty&, ::payload::v1::Info_Index_Detail* detail) const;
  absl::Status Property(const ::payload::v1::Empty&,
                        ::payload::v1::Info_Index_PropertyDetail* detail) const;
  template <typename Request>
  absl::Status Nothing(const Request&, ::payload::v1::Empty*) const {
    return absl::OkStatus();
  }
  absl::Status Pods(const ::payload::v1::Discoverer_Request&, ::payload::v1::Info_Pods* pods) const;
  absl::Status Nodes(const ::payload::v1::Discoverer_Request&,
                     ::payload::v1::Info_Nodes* nodes) const;

  const std::string& index() const { return calls_.serving().nameless; }

  Calls& calls_;
  Writers& writers_;
  Loader& loader_;
  const std::vector<std::string> agents_;
  absl::flat_hash_map<std::string, Entry> methods_;  ///< by path
  std::atomic<int> lists_{0};                        ///< calls of StreamListObject
};

}  // namespace hmann::server
