// SPDX-License-Identifier: Apache-2.0
#include "wire/messages.h"

#include <array>
#include <sstream>
#include <string_view>
#include <type_traits>

#include "wire/codec.h"

namespace ringtune {
namespace {

constexpr std::array<std::string_view, kOpKindCount> kKindNames{"allreduce",     "broadcast", "allgather", "barrier",
                                                                "reducescatter", "alltoall",  "join"};
constexpr int kStatusCodeCount = 8;
// Smallest encodings, for the check of counts.
constexpr size_t kMinItemBytes = 4 + 4 + 4 + 8 + 8 + 4 + 4 + 4 + 1 + 8;
constexpr size_t kMinTensorBytes = 4 + 4 + 1;

void put_signature(Writer& writer, const Signature& signature) {
  writer.put(signature.kind);
  writer.put(signature.dtype);
  writer.put(signature.op);
  writer.put(signature.memory);
  writer.put(signature.root_rank);
  writer.put(signature.prescale);
  writer.put(signature.postscale);
  writer.put(static_cast<uint32_t>(signature.shape.size()));
  for (const int64_t extent : signature.shape) {
    writer.put(extent);
  }
  writer.put_string(signature.group);
  writer.put(signature.group_size);
  writer.put(static_cast<uint8_t>(signature.is_gradient));
}

Signature get_signature(Reader& reader) {
  Signature signature;
  signature.kind = reader.get_enum<OpKind>(kOpKindCount);
  signature.dtype = reader.get_enum<DataType>(kDataTypeCount);
  signature.op = reader.get_enum<ReduceOp>(kReduceOpCount);
  signature.memory = reader.get_enum<MemoryKind>(kMemoryKindCount);
  signature.root_rank = reader.get<int32_t>();
  signature.prescale = reader.get<double>();
  signature.postscale = reader.get<double>();
  signature.shape.resize(reader.get_count(sizeof(int64_t)));
  for (int64_t& extent : signature.shape) {
    extent = reader.get<int64_t>();
  }
  signature.group = reader.get_string();
  signature.group_size = reader.get<uint32_t>();
  signature.is_gradient = reader.get<uint8_t>() != 0;
  return signature;
}

void put_config(Writer& writer, const EngineConfig& config) {
  for_each_knob([&](const auto& knob) {
    const auto& value = config.*knob.value;
    if constexpr (std::is_same_v<decltype(value), const std::string&>) {
      writer.put_string(value);
    } else {
      writer.put(value);
    }
  });
}

EngineConfig get_config(Reader& reader) {
  EngineConfig config;
  for_each_knob([&](const auto& knob) {
    auto& value = config.*knob.value;
    if constexpr (std::is_same_v<decltype(value), std::string&>) {
      value = reader.get_string();
    } else if constexpr (std::is_same_v<decltype(value), bool&>) {
      value = reader.get<uint8_t>() != 0;
    } else {
      value = reader.get<std::remove_reference_t<decltype(value)>>();
    }
  });
  return config;
}

RequestItem get_item(Reader& reader) {
  RequestItem item;
  item.name = reader.get_string();
  item.signature = get_signature(reader);
  item.arena_offset = reader.get<ArenaOffset>();
  return item;
}

void put_tensors(Writer& writer, const std::vector<ResponseTensor>& tensors) {
  writer.put(static_cast<uint32_t>(tensors.size()));
  for (const ResponseTensor& tensor : tensors) {
    writer.put(tensor.cache_id);
    writer.put_string(tensor.name);
    writer.put(static_cast<uint8_t>(tensor.signature.has_value()));
    if (tensor.signature) {
      put_signature(writer, *tensor.signature);
    }
  }
}

std::vector<ResponseTensor> get_tensors(Reader& reader) {
  std::vector<ResponseTensor> tensors(reader.get_count(kMinTensorBytes));
  for (ResponseTensor& tensor : tensors) {
    tensor.cache_id = reader.get<CacheId>();
    tensor.name = reader.get_string();
    if (reader.get<uint8_t>() != 0) {
      tensor.signature = get_signature(reader);
    }
  }
  return tensors;
}

void put_request(Writer& writer, const Request& request) {
  writer.put(request.config_epoch);
  writer.put(request.config_hash);
  put_cache_ids(writer, request.cached);
  writer.put(static_cast<uint32_t>(request.items.size()));
  for (const RequestItem& item : request.items) {
    writer.put_string(item.name);
    put_signature(writer, item.signature);
    writer.put(item.arena_offset);
  }
}

void get_request(Reader& reader, Request& request) {
  request.config_epoch = reader.get<uint64_t>();
  request.config_hash = reader.get<uint64_t>();
  request.cached = get_cache_ids(reader);
  request.items.clear();
  const uint32_t count = reader.get_count(kMinItemBytes);
  request.items.reserve(count);
  for (uint32_t i = 0; i < count && reader.is_intact(); ++i) {
    request.items.push_back(get_item(reader));
  }
}

std::string describe_scales(const Signature& signature) {
  if (signature.prescale == 1 && signature.postscale == 1) {
    return "";
  }
  std::ostringstream text;
  text << ", prescale " << signature.prescale << ", postscale " << signature.postscale;
  return text.str();
}

std::string describe_shape(const Signature& signature) {
  std::string text = is_ragged(signature.kind) ? "rows" : "";
  for (const int64_t extent : signature.shape) {
    text += (text.empty() ? "" : ", ") + std::to_string(extent);
  }
  return "[" + text + "]";
}

}  // namespace

uint64_t Signature::elements() const {
  uint64_t count = 1;
  for (const int64_t extent : shape) {
    count *= static_cast<uint64_t>(extent);
  }
  return count;
}

std::string_view op_kind_name(OpKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

std::string Signature::describe() const {
  std::string text(op_kind_name(kind));
  if (kind == OpKind::kBarrier || kind == OpKind::kJoin) {
    return text;
  }
  if (kind == OpKind::kAllreduce || kind == OpKind::kReducescatter) {
    text += "(" + std::string(reduce_op_name(op)) + describe_scales(*this) + ")";
  }
  if (kind == OpKind::kBroadcast) {
    text += "(root rank " + std::to_string(root_rank) + ")";
  }
  text += " " + std::string(dtype_name(dtype)) + " " + describe_shape(*this);
  text += memory == MemoryKind::kCuda ? " on cuda" : "";
  return text + (group.empty() ? "" : " in group '" + group + "' of " + std::to_string(group_size));
}

Bytes encode(const Request& request) {
  Writer writer;
  put_request(writer, request);
  return writer.release();
}

bool decode(ByteSpan frame, Request& request) {
  Reader reader(frame);
  get_request(reader, request);
  return reader.is_at_end();
}

Bytes encode(const ForwardedRequest& forwarded) {
  Writer writer;
  writer.put(forwarded.rank);
  put_request(writer, forwarded.request);
  return writer.release();
}

bool decode(ByteSpan frame, ForwardedRequest& forwarded) {
  Reader reader(frame);
  forwarded.rank = reader.get<int32_t>();
  get_request(reader, forwarded.request);
  return reader.is_at_end();
}

Bytes encode(const Response& response) {
  Writer writer;
  writer.put(response.type);
  writer.put(response.cycle);
  writer.put(response.config_epoch);
  switch (response.type) {
    case Response::Type::kCollective:
      writer.put(response.algorithm);
      writer.put(response.chunk_bytes);
      writer.put(response.in_flight_bytes);
      writer.put(static_cast<uint8_t>(response.is_for_nccl));
      put_cache_ids(writer, response.cached);
      put_tensors(writer, response.tensors);
      break;
    case Response::Type::kConfigSwitch:
      put_config(writer, response.config);
      break;
    case Response::Type::kError:
      writer.put(static_cast<uint8_t>(response.error_code));
      writer.put_string(response.error_text);
      put_tensors(writer, response.tensors);
      break;
    case Response::Type::kJoined:
      writer.put(response.last_joined_rank);
      break;
    case Response::Type::kTuning:
      writer.put(static_cast<uint8_t>(response.is_tuning_finished));
      writer.put(response.from_step);
      break;
    case Response::Type::kHostRates:
      break;
  }
  return writer.release();
}

bool decode(ByteSpan frame, Response& response) {
  Reader reader(frame);
  response = Response();
  response.type = reader.get_enum<Response::Type>(Response::kTypeCount);
  response.cycle = reader.get<uint64_t>();
  response.config_epoch = reader.get<uint64_t>();
  switch (response.type) {
    case Response::Type::kCollective:
      response.algorithm = reader.get<uint8_t>();
      response.chunk_bytes = reader.get<uint64_t>();
      response.in_flight_bytes = reader.get<uint64_t>();
      response.is_for_nccl = reader.get<uint8_t>() != 0;
      response.cached = get_cache_ids(reader);
      response.tensors = get_tensors(reader);
      break;
    case Response::Type::kConfigSwitch:
      response.config = get_config(reader);
      break;
    case Response::Type::kError:
      response.error_code = reader.get_enum<StatusCode>(kStatusCodeCount);
      response.error_text = reader.get_string();
      response.tensors = get_tensors(reader);
      break;
    case Response::Type::kJoined:
      response.last_joined_rank = reader.get<int32_t>();
      break;
    case Response::Type::kTuning:
      response.is_tuning_finished = reader.get<uint8_t>() != 0;
      response.from_step = reader.get<uint64_t>();
      break;
    case Response::Type::kHostRates:
      break;
  }
  return reader.is_at_end();
}

}  // namespace ringtune
