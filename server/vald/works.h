/// The work of searches and of calls that fetch vectors.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "index/base/errors.h"
#include "index/base/status_macros.h"
#include "server/calls/unary_call.h"
#include "server/vald/convert.h"

namespace hmann::server {

/// The requests of a call: one, or those of a MultiRequest.
template <typename Request>
auto Parts(const Request& request) {
  if constexpr (requires { request.requests(); }) {
    std::vector<const std::remove_cvref_t<decltype(request.requests(0))>*> parts;
    for (const auto& part : request.requests()) parts.push_back(&part);
    return parts;
  } else {
    return std::vector<const Request*>{&request};
  }
}
template <typename Request>
inline constexpr bool kIsMulti = requires(const Request& request) { request.requests(); };

/// Reads the configs of a request.
template <typename Request>
absl::StatusOr<Asked> ReadConfigsOf(const Serving& serving, const Request& request) {
  std::vector<const ::payload::v1::Search_Config*> configs;
  for (const auto* part : Parts(request)) configs.push_back(&part->config());
  return ReadConfigs(serving, configs);
}

/// A search. `kMulti`: its reply holds several answers.
template <typename Base, bool kMulti>
class Found : public Base {
 public:
  static constexpr Method kMethod = kMulti ? Method::kSearchBatch : Method::kSearch;

  Found(const typename Base::To& to, const Serving& serving, Asked asked, const CallFacts& facts)
      : Base(to, serving, std::move(asked.query), Within(facts, asked.timeout)),
        cuts_(std::move(asked.cuts)) {
    for (std::size_t i = 0; i < cuts_.size(); ++i) responses_.add_responses();
  }

 private:
  std::string Field(std::size_t i) const override { return FieldOf("vector", i, cuts_.size()); }
  void Keep(std::size_t i, const hmann::Answer& answer) override {
    if (!ToWire(answer, this->index(), cuts_[i], responses_.mutable_responses(static_cast<int>(i))))
      few_.store(true);
  }
  void KeepWork(std::size_t, const Counters&) override {}
  const google::protobuf::MessageLite& Message() override {
    if constexpr (kMulti) return responses_;
    return responses_.responses(0);
  }
  absl::Status Reply() override {
    if (few_.load()) return NotFound("config.min_num: the search found fewer");
    return Base::Reply();
  }

  const std::vector<Cut> cuts_;
  ::payload::v1::Search_Responses responses_;
  std::atomic<bool> few_{false};
};

/// A search for the vectors in a request.
template <typename Base, typename RequestOf>
class ByVectors : public Found<Base, kIsMulti<RequestOf>> {
 public:
  using Request = RequestOf;

  static absl::StatusOr<Asked> Read(const Serving& serving, const Request& request) {
    HMANN_ASSIGN_OR_RETURN(Asked asked, ReadConfigsOf(serving, request));
    std::vector<std::span<const float>> floats;
    for (const auto* part : Parts(request))
      floats.emplace_back(part->vector().data(), static_cast<std::size_t>(part->vector_size()));
    HMANN_RETURN_IF_ERROR(ReadVectors(serving, floats, &asked));
    return asked;
  }

  ByVectors(const typename Base::To& to, std::unique_ptr<Request> request, const Serving& serving,
            Asked asked, const CallFacts& facts)
      : Found<Base, kIsMulti<Request>>(to, serving, std::move(asked), facts),
        request_(std::move(request)) {}

 private:
  const std::unique_ptr<Request> request_;  // owns the floats
};

/// Vectors to fetch.
struct Fetching {
  Snapshot index;
  std::vector<std::uint64_t> labels;
  std::uint64_t vector_bytes = 0;

  /// Errors: those of LabelOf and CheckGet.
  static absl::StatusOr<Fetching> Of(const Serving& serving, const Snapshot& index,
                                     const std::vector<const std::string*>& ids) {
    Fetching out{index, {}, 0};
    for (const std::string* id : ids) {
      HMANN_ASSIGN_OR_RETURN(const VectorLabel label, LabelOf(*id, index));
      out.labels.push_back(label.number());
    }
    HMANN_ASSIGN_OR_RETURN(out.vector_bytes,
                           CheckGet(out.labels.size(), index.info(), serving.limits));
    return out;
  }
};

class Fetch : public UnaryWork<LabelsRequest> {
 protected:
  Fetch(AnyCall* call, const Serving& serving, Fetching what, const CallFacts& facts)
      : UnaryWork(call, serving, what.index, what.labels, what.vector_bytes, facts),
        labels_(std::move(what.labels)),
        vector_bytes_(what.vector_bytes) {}

  std::size_t size() const { return labels_.size(); }
  const std::byte* Row(std::size_t i) const { return rows_.data() + i * vector_bytes_; }

 private:
  char* Room(std::size_t bytes) override {
    rows_.resize(bytes);
    return reinterpret_cast<char*>(rows_.data());
  }

  const std::vector<std::uint64_t> labels_;
  const std::uint64_t vector_bytes_;
  std::vector<std::byte> rows_;
};

/// A search for vectors of the index: fetches them, then searches.
template <typename RequestOf>
class ByIds : public Fetch {
 public:
  using Request = RequestOf;
  static constexpr Method kMethod = Method::kGet;
  using What = std::pair<Asked, Fetching>;

  static absl::StatusOr<What> Read(const Serving& serving, const Request& request) {
    HMANN_ASSIGN_OR_RETURN(Asked asked, ReadConfigsOf(serving, request));
    std::vector<const std::string*> ids;
    for (const auto* part : Parts(request)) ids.push_back(&part->id());
    HMANN_ASSIGN_OR_RETURN(Fetching what, Fetching::Of(serving, asked.query.index, ids));
    return What(std::move(asked), std::move(what));
  }

  ByIds(AnyCall* call, std::unique_ptr<Request>, const Serving& serving, What read,
        const CallFacts& facts)
      : Fetch(call, serving, std::move(read.second), facts),
        serving_(serving),
        asked_(std::move(read.first)),
        facts_(facts) {}

 private:
  using Search = Found<UnaryWork<QueryRequest>, kIsMulti<Request>>;

  const google::protobuf::MessageLite& Message() override { return none_; }
  void End(const absl::Status& fetched) override {
    absl::Status status = fetched;
    if (status.ok()) status = ReadRows();
    if (!status.ok()) return on_call().End(status);
    on_call().reply()->Clear();
    CallFacts facts = facts_;
    facts.method = Search::kMethod;
    on_call().Queue(std::make_unique<Search>(&on_call(), serving_, std::move(asked_), facts),
                    false);
  }
  absl::Status ReadRows() {
    const IndexInfo& info = index().info();
    for (std::size_t i = 0; i < size(); ++i) AppendFloats(Row(i), info, &floats_);
    std::vector<std::span<const float>> floats;
    for (std::size_t i = 0; i < size(); ++i)
      floats.emplace_back(floats_.data() + i * info.dim, info.dim);
    return ReadVectors(serving_, floats, &asked_);
  }

  const Serving& serving_;
  Asked asked_;
  const CallFacts facts_;
  google::protobuf::RepeatedField<float> floats_;
  ::payload::v1::Empty none_;
};

/// Object.Exists, GetObject and GetTimestamp.
template <typename RequestOf, typename Response>
class ObjectWork : public Fetch {
 public:
  using Request = RequestOf;
  static constexpr Method kMethod = Method::kGet;

  static absl::StatusOr<Fetching> Read(const Serving& serving, const Request& request) {
    HMANN_ASSIGN_OR_RETURN(const Snapshot index, serving.registry.Get(serving.nameless));
    return Fetching::Of(serving, index, {&IdIn(request)});
  }

  ObjectWork(AnyCall* call, std::unique_ptr<Request> request, const Serving& serving, Fetching what,
             const CallFacts& facts)
      : Fetch(call, serving, std::move(what), facts) {
    response_.set_id(IdIn(*request));
  }

 private:
  static const std::string& IdIn(const Request& request) {
    if constexpr (requires { request.id().id(); }) {
      return request.id().id();
    } else {
      return request.id();
    }
  }
  const google::protobuf::MessageLite& Message() override {
    if constexpr (requires { response_.vector(); })
      AppendFloats(Row(0), index().info(), response_.mutable_vector());
    return response_;
  }

  Response response_;
};

}  // namespace hmann::server
