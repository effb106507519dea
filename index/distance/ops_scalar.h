#pragma once

#include <cstddef>
#include <cstdint>

#include "index/distance/half.h"

/// The operations of kernel_loop.h in plain C++, which the compiler may vectorize for its
/// baseline.
namespace hmann {
namespace {

struct ScalarL2 {
  template <class Value>
  static Value Term(Value a, Value b) {
    return (a - b) * (a - b);
  }
};
struct ScalarDot {
  template <class Value>
  static Value Term(Value a, Value b) {
    return a * b;
  }
};

template <class C, class V, class Term>
struct ScalarOp {
  using Component = C;
  using Value = V;
  using Block = const Component*;
  static constexpr std::size_t kStep =
      sizeof(Component) == 4 ? 4 : 8;  // sums of four rows fit 16 SSE registers
  static constexpr bool kQueryStarts = false;
  static constexpr std::size_t kQueryRegisters = 0;
  static constexpr std::size_t kTile = 1;
  struct Sum {
    Value lanes[kStep];
  };
  static Block Load(const Component* q) { return q; }
  static Block LoadTail(const Component* q, std::size_t) { return q; }
  static void Start(Sum& sum) {
    for (Value& lane : sum.lanes) lane = 0;
  }
  static void Query(Sum&, Block) {}
  /// Rows may lie at any address, and reading through an unaligned float pointer is
  /// undefined.
  static Value At(const Component* p, std::size_t i) {
    Component component;
    __builtin_memcpy(&component, p + i, sizeof(component));
    return component;
  }
  static void Add(Sum& sum, Block q, const Component* row) {
    for (std::size_t i = 0; i < kStep; ++i)
      sum.lanes[i] += Term::template Term<Value>(At(q, i), At(row, i));
  }
  static void AddTail(Sum& sum, Block q, const Component* row, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i)
      sum.lanes[i] += Term::template Term<Value>(At(q, i), At(row, i));
  }
  static void Reduce(const Sum (&sums)[4], Value* values) {
    for (std::size_t r = 0; r < 4; ++r) {
      const Value* s = sums[r].lanes;
      values[r] = (s[0] + s[2]) + (s[1] + s[3]);
      if constexpr (kStep == 8) values[r] += (s[4] + s[6]) + (s[5] + s[7]);
    }
  }
};

using F32L2 = ScalarOp<float, float, ScalarL2>;
using F32Dot = ScalarOp<float, float, ScalarDot>;
using F16L2 = ScalarOp<Half, float, ScalarL2>;
using F16Dot = ScalarOp<Half, float, ScalarDot>;
using U8L2 = ScalarOp<std::uint8_t, std::int32_t, ScalarL2>;
using U8Dot = ScalarOp<std::uint8_t, std::int32_t, ScalarDot>;
using I8L2 = ScalarOp<std::int8_t, std::int32_t, ScalarL2>;
using I8Dot = ScalarOp<std::int8_t, std::int32_t, ScalarDot>;

/// Blocks of integers are compared row by row.
struct Pairs {
  static constexpr std::size_t kLanes = 0;
};

}  // namespace
}  // namespace hmann
