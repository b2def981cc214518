// SPDX-License-Identifier: Apache-2.0
#include "base/config.h"

#include <array>
#include <sstream>
#include <type_traits>

#include "base/hash.h"

namespace ringtune {
namespace {

// "auto or 16384 to 4194304", as the search space writes it.
template <typename T>
std::string in_words(const Range<T>& allowed) {
  constexpr std::array<const char*, 3> kZeros{"", "0 or ", "auto or "};
  std::ostringstream text;
  text << kZeros[static_cast<size_t>(allowed.zero)] << allowed.low << " to " << allowed.high;
  return text.str();
}

std::string in_words(AnyValue) { return "any value"; }

template <size_t kCount>
std::string in_words(const OneOf<kCount>& allowed) {
  std::string text;
  for (const std::string_view name : allowed.names) {
    text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return text;
}

template <typename T>
bool is_auto(const Range<T>& allowed, T value) {
  return allowed.zero == Zero::kAuto && value == 0;
}

template <typename Names, typename T>
bool is_auto(const Names&, const T&) {
  return false;
}

}  // namespace

Status validate(const EngineConfig& config) {
  Status status;
  for_each_knob([&](const auto& knob) {
    if (const auto& value = config.*knob.value; status.ok() && !knob.allowed.allows(value)) {
      std::ostringstream text;
      text << knob.name << '=' << value << " is not allowed; allowed: " << in_words(knob.allowed);
      status = {StatusCode::kConfigError, text.str()};
    }
  });
  return status;
}

std::string describe(const EngineConfig& config) {
  std::ostringstream text;
  text << std::boolalpha;
  const char* separator = "";
  for_each_knob([&](const auto& knob) {
    const auto& value = config.*knob.value;
    text << separator << knob.name << ' ';
    is_auto(knob.allowed, value) ? text << "auto" : text << value;
    separator = ", ";
  });
  return text.str();
}

std::string canonical_text(const EngineConfig& config) {
  std::ostringstream text;
  text << std::hexfloat;
  bool is_first = true;
  bool was_switch = false;
  for_each_knob([&](const auto& knob) {
    const auto& value = config.*knob.value;
    constexpr bool kIsSwitch = std::is_same_v<std::remove_cvref_t<decltype(value)>, bool>;
    text << (is_first || (was_switch && kIsSwitch) ? "" : "|") << value;
    is_first = false;
    was_switch = kIsSwitch;
  });
  return text.str();
}

uint64_t config_hash(const EngineConfig& config) {
  const std::string text = canonical_text(config);
  return fnv1a(text.data(), text.size());
}

}  // namespace ringtune
