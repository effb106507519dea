// Functions(): reads the declarations of a file token by token, whatever its layout.
#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>

#include "tests/house.h"

namespace hmann {
namespace {

struct Token {
  std::string_view text;  ///< a word, "::", "->" or one character
  std::size_t line = 0;   ///< from 1
};

bool InWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::vector<Token> Tokens(std::string_view code) {
  std::vector<Token> tokens;
  std::size_t line = 1;
  bool line_is_empty = true;  // so far: '#' opens a directive there
  for (std::size_t i = 0; i < code.size();) {
    std::size_t end = i + 1;
    if (code[i] == '\n') {
      ++line;
      line_is_empty = true;
    } else if (code[i] == '#' && line_is_empty) {
      for (end = i; end < code.size() && (code[end] != '\n' || code[end - 1] == '\\'); ++end)
        line += code[end] == '\n' ? 1 : 0;
    } else if (std::isspace(static_cast<unsigned char>(code[i])) == 0) {
      while (InWord(code[i]) && end < code.size() && InWord(code[end])) ++end;
      if (code.substr(i, 2) == "::" || code.substr(i, 2) == "->") end = i + 2;
      tokens.push_back({code.substr(i, end - i), line});
      line_is_empty = false;
    }
    i = end;
  }
  return tokens;
}

/// Walks namespaces and classes, declaration by declaration, and skips function bodies.
class FunctionFinder {
 public:
  explicit FunctionFinder(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  std::vector<Function> Find() {
    while (at_ < tokens_.size()) Declare();
    return std::move(functions_);
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  /// The part of a declaration read so far.
  struct Declaration {
    std::size_t name = kNone;   ///< the word before its parameters
    bool assigned = false;      ///< "=" was seen: braces are a value
    bool initializes = false;   ///< a constructor's ":" was seen
    bool holds_others = false;  ///< a namespace or a class
    bool enumerates = false;
  };

  bool Is(std::size_t i, std::string_view text) const {
    return i < tokens_.size() && tokens_[i].text == text;
  }
  bool IsWord(std::size_t i) const { return i < tokens_.size() && InWord(tokens_[i].text[0]); }

  /// Moves at_ past the bracket that closes the one at at_.
  void SkipGroup() {
    std::size_t depth = 0;
    for (; at_ < tokens_.size(); ++at_) {
      const char c = tokens_[at_].text[0];
      if (c == '(' || c == '[' || c == '{') ++depth;
      if ((c == ')' || c == ']' || c == '}') && --depth == 0) break;
    }
    ++at_;
  }

  /// Reads one declaration: to its ';', to the end of its body, or into the scope that it
  /// opens. A '}' that ends a scope also counts as one.
  void Declare() {
    Declaration seen;
    while (at_ < tokens_.size()) {
      const std::string_view text = tokens_[at_].text;
      if (text == "{") {
        if (Open(seen)) return;
      } else if (text == ";" || text == "}" || (text == ":" && EndsAccess())) {
        ++at_;
        return;
      } else if (text == "(" || text == "[") {
        SkipGroup();
      } else if (text == "<" && seen.name == kNone && !seen.assigned) {
        SkipAngles(seen);
      } else {
        Word(seen);
      }
    }
  }

  bool EndsAccess() const {
    static const std::set<std::string_view> kAccess = {"public", "private", "protected"};
    return at_ > 0 && kAccess.contains(tokens_[at_ - 1].text);
  }

  void SkipAngles(Declaration& seen) {
    const std::size_t before = at_ - 1;
    for (std::size_t depth = 0; at_ < tokens_.size();) {
      if (Is(at_, "(") || Is(at_, "[") || Is(at_, "{")) {
        SkipGroup();
        continue;
      }
      if (Is(at_, "<")) ++depth;
      if (Is(at_++, ">") && --depth == 0) break;
    }
    if (Is(at_, "(") && !Is(before, "template"))
      seen.name = before;  // a specialization, F<int>(...)
  }

  void Word(Declaration& seen) {
    static const std::set<std::string_view> kNotNames = {"alignas",  "decltype", "noexcept",
                                                         "requires", "explicit", "__attribute__"};
    const std::string_view text = tokens_[at_].text;
    if (text == "operator" && seen.name == kNone) {
      seen.name = at_++;
      if (Is(at_, "(")) ++at_;
      while (at_ < tokens_.size() && !Is(at_, "(")) ++at_;
      return;
    }
    if (seen.name == kNone && !seen.assigned) {
      if (IsWord(at_) && Is(at_ + 1, "(") && !kNotNames.contains(text)) seen.name = at_;
      seen.holds_others |= text == "namespace" || text == "class" || text == "struct" ||
                           text == "union" || text == "extern";
      seen.enumerates |= text == "enum";
    }
    seen.assigned |= text == "=";
    seen.initializes |= text == ":" && seen.name != kNone;
    ++at_;
  }

  /// Handles a '{'. Returns whether the declaration ends with it, or with what it
  /// encloses.
  bool Open(const Declaration& seen) {
    const bool value = seen.assigned || (seen.initializes && (IsWord(at_ - 1) || Is(at_ - 1, ">")));
    if (!value && seen.name == kNone && seen.holds_others && !seen.enumerates) {
      ++at_;
      return true;
    }
    SkipGroup();
    if (value || seen.name == kNone) return false;
    const std::size_t first = tokens_[seen.name].line;
    const std::size_t last = tokens_[std::min(at_, tokens_.size()) - 1].line;
    functions_.push_back({NameAt(seen.name), first, last - first + 1});
    return true;
  }

  std::string NameAt(std::size_t at) const {
    std::size_t end = at + 1;
    if (Is(at, "operator")) {
      if (Is(end, "(")) ++end;
      while (!Is(end, "(")) ++end;
    }
    const auto qualifies = [&](std::size_t i) {
      return Is(i, "~") || (Is(i, "::") && i > 0 && IsWord(i - 1));
    };
    while (at > 0 && qualifies(at - 1)) at -= Is(at - 1, "~") ? 1 : 2;
    std::string name;
    for (std::size_t i = at; i < end; ++i) {
      if (i > at && IsWord(i) && IsWord(i - 1)) name += ' ';
      name += tokens_[i].text;
    }
    return name;
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  std::vector<Function> functions_;
};

}  // namespace

std::vector<Function> Functions(const SourceFile& file) {
  const std::string code = CodeOnly(file.text);
  return FunctionFinder(Tokens(code)).Find();
}

}  // namespace hmann
