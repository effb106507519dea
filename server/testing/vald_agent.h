/// For tests only: a server that is an agent of Vald, and its callers.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"
#include "server/testing/fixture.h"
#include "vald/agent.grpc.pb.h"
#include "vald/discoverer.grpc.pb.h"
#include "vald/vald.grpc.pb.h"

namespace hmann::server {

namespace vald = ::vald::v1;
namespace payload = ::payload::v1;

inline std::vector<float> FloatsOf(std::size_t query) {
  std::vector<float> floats;
  for (const std::byte component : SampleQueries(query, 1))
    floats.push_back(static_cast<float>(component));
  return floats;
}

inline payload::Search_Request Asking(const std::vector<float>& vector, std::uint32_t num) {
  payload::Search_Request request;
  request.mutable_vector()->Add(vector.begin(), vector.end());
  request.mutable_config()->set_num(num);
  return request;
}

inline std::vector<std::string> Ids(const payload::Search_Response& response) {
  std::vector<std::string> ids;
  for (const auto& result : response.results()) ids.push_back(result.id());
  return ids;
}

/// A server, and a caller of each of Vald's services.
struct Agent {
  Agent(ServerOptions options, const std::string& name) {
    options.vald.index = name;
    options.vald.agents = {"10.0.0.1", "10.0.0.2"};
    options.limits.max_k = 100;
    options.limits.max_batch = 64;
    served = std::make_unique<Served>(options);
    const auto channel = ChannelTo(served->server->address());
    search = vald::Search::NewStub(channel);
    object = vald::Object::NewStub(channel);
    index = vald::Index::NewStub(channel);
    insert = vald::Insert::NewStub(channel);
    update = vald::Update::NewStub(channel);
    upsert = vald::Upsert::NewStub(channel);
    remove = vald::Remove::NewStub(channel);
    agent = ::core::v1::Agent::NewStub(channel);
    discoverer = ::discoverer::v1::Discoverer::NewStub(channel);
  }

  /// Calls a method of a stub.
  template <typename Stub, typename Request, typename Response>
  grpc::Status Call(const std::unique_ptr<Stub>& stub,
                    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response) const {
    grpc::ClientContext context;
    if (!token.empty()) context.AddMetadata("authorization", absl::StrCat("Bearer ", token));
    return (stub.get()->*method)(&context, request, response);
  }
  grpc::Status Search(const payload::Search_Request& request,
                      payload::Search_Response* response) const {
    return Call(search, &vald::Search::Stub::Search, request, response);
  }

  std::unique_ptr<Served> served;
  std::string token;
  std::unique_ptr<vald::Search::Stub> search;
  std::unique_ptr<vald::Object::Stub> object;
  std::unique_ptr<vald::Index::Stub> index;
  std::unique_ptr<vald::Insert::Stub> insert;
  std::unique_ptr<vald::Update::Stub> update;
  std::unique_ptr<vald::Upsert::Stub> upsert;
  std::unique_ptr<vald::Remove::Stub> remove;
  std::unique_ptr<::core::v1::Agent::Stub> agent;
  std::unique_ptr<::discoverer::v1::Discoverer::Stub> discoverer;
};

inline void ExpectRefused(const grpc::Status& status, grpc::StatusCode code,
                          const std::string& words) {
  EXPECT_EQ(status.error_code(), code) << status.error_message();
  EXPECT_THAT(status.error_message(), testing::HasSubstr(words));
}

}  // namespace hmann::server
