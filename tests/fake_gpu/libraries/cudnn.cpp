// cuDNN: the graph API finds one plan for every convolution, which needs no workspace; batch norm
// and an LSTM need none either. Each of them is one launch, where cuDNN makes one or several.

#include <cudnn.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "cuda/stream.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

struct cudnnTensorStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::vector<int> sizes = {};
};

struct cudnnRNNStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int inputs = 0, hidden = 0;
};

namespace {

cudnnStatus_t launch(cudnnHandle_t handle, const char* name) {
  const cudaError_t error = fake_gpu::launch(handle->stream, name);
  return error == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

size_t bytes_of(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
      return 8;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
      return 2;
    default:
      return 4;
  }
}

size_t bytes_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
      return 8;
    case CUDNN_TYPE_BOOLEAN:
      return 1;
    default:
      return 4;
  }
}

}  // namespace

extern "C" {

size_t cudnnGetVersion() { return CUDNN_VERSION; }
size_t cudnnGetCudartVersion() { return CUDART_VERSION; }
cudnnStatus_t cudnnGetProperty(libraryPropertyType part, int* value) {
  *value = part == MAJOR_VERSION   ? CUDNN_MAJOR
           : part == MINOR_VERSION ? CUDNN_MINOR
                                   : CUDNN_PATCHLEVEL;
  return CUDNN_STATUS_SUCCESS;
}
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS" : "CUDNN_STATUS_EXECUTION_FAILED";
}
void cudnnGetLastErrorString(char* text, size_t size) {
  if (size > 0) *text = '\0';
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  *stream = handle->stream;
  return CUDNN_STATUS_SUCCESS;
}

// ---- the graph API ------------------------------------------------------------------------------
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t,
                                           cudnnBackendDescriptor_t* descriptor) {
  *descriptor = std::calloc(1, 1);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  std::free(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t) { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                                       cudnnBackendAttributeType_t, int64_t, const void*) {
  return CUDNN_STATUS_SUCCESS;
}

// One engine and one plan, with no notes and no knobs. All numbers are 0: so is the workspace.
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                                       cudnnBackendAttributeType_t type, int64_t requested,
                                       int64_t* count, void* values) {
  const bool is_list = type == CUDNN_TYPE_NUMERICAL_NOTE || type == CUDNN_TYPE_BEHAVIOR_NOTE;
  if (count != nullptr) *count = is_list ? 0 : 1;
  if (values == nullptr || requested < 1 || is_list) return CUDNN_STATUS_SUCCESS;
  if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR) std::memset(values, 0, bytes_of(type));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t,
                                  cudnnBackendDescriptor_t) {
  return launch(handle, "cuDNN convolution");
}

// ---- batch norm ---------------------------------------------------------------------------------
cudnnStatus_t cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, cudnnTensorDescriptor_t,
    cudnnTensorDescriptor_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t,
    cudnnActivationDescriptor_t, size_t* bytes) {
  *bytes = 0;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, cudnnActivationDescriptor_t,
    cudnnTensorDescriptor_t, size_t* bytes) {
  *bytes = 0;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, cudnnTensorDescriptor_t,
    cudnnTensorDescriptor_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t,
    cudnnTensorDescriptor_t, cudnnTensorDescriptor_t, cudnnActivationDescriptor_t, size_t* bytes) {
  *bytes = 0;
  return CUDNN_STATUS_SUCCESS;
}

// ---- tensors and LSTMs --------------------------------------------------------------------------
cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) {
  *tensor = new cudnnTensorStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  delete tensor;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensor, cudnnDataType_t type,
                                         int dimensions, const int* sizes, const int*) {
  *tensor = {type, {sizes, sizes + dimensions}};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetTensorNdDescriptor(const cudnnTensorDescriptor_t tensor, int,
                                         cudnnDataType_t* type, int* dimensions, int* sizes,
                                         int* strides) {
  *type = tensor->type;
  *dimensions = static_cast<int>(tensor->sizes.size());
  int stride = 1;
  for (size_t at = tensor->sizes.size(); at-- > 0;) {
    sizes[at] = tensor->sizes[at];
    strides[at] = stride;
    stride *= sizes[at];
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateRNNDescriptor(cudnnRNNDescriptor_t* rnn) {
  *rnn = new cudnnRNNStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyRNNDescriptor(cudnnRNNDescriptor_t rnn) {
  delete rnn;
  return CUDNN_STATUS_SUCCESS;
}
// Of an LSTM of one layer and one direction.
cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t rnn, cudnnRNNAlgo_t,
                                       cudnnRNNMode_t cell, cudnnRNNBiasMode_t,
                                       cudnnDirectionMode_t direction, cudnnRNNInputMode_t,
                                       cudnnDataType_t type, cudnnDataType_t, cudnnMathType_t,
                                       int32_t inputs, int32_t hidden, int32_t, int32_t layers,
                                       cudnnDropoutDescriptor_t, uint32_t) {
  if (cell != CUDNN_LSTM || direction != CUDNN_UNIDIRECTIONAL || layers != 1)
    return CUDNN_STATUS_NOT_SUPPORTED;
  *rnn = {type, inputs, hidden};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t, cudnnRNNDescriptor_t rnn, size_t* bytes) {
  const auto inputs = static_cast<size_t>(rnn->inputs), hidden = static_cast<size_t>(rnn->hidden);
  *bytes = bytes_of(rnn->type) * 4 * hidden * (inputs + hidden + 2);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t, cudnnRNNDescriptor_t, cudnnForwardMode_t,
                                        cudnnRNNDataDescriptor_t, size_t* work, size_t* reserve) {
  if (work != nullptr) *work = 0;
  if (reserve != nullptr) *reserve = 0;
  return CUDNN_STATUS_SUCCESS;
}
// `part`: the four gates of the inputs, then those of the hidden state. The matrices come first.
cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t, cudnnRNNDescriptor_t rnn, int32_t, size_t,
                                      const void* space, int32_t part,
                                      cudnnTensorDescriptor_t matrix, void** matrix_at,
                                      cudnnTensorDescriptor_t bias, void** bias_at) {
  const int hidden = rnn->hidden, columns = part < 4 ? rnn->inputs : hidden;
  const auto gates = static_cast<size_t>(hidden) * 4;
  const size_t matrices = gates * static_cast<size_t>(rnn->inputs + hidden);
  const size_t of_part = static_cast<size_t>(hidden) * static_cast<size_t>(columns);
  const size_t at =
      part < 4 ? static_cast<size_t>(part) * of_part
               : gates * static_cast<size_t>(rnn->inputs) + static_cast<size_t>(part - 4) * of_part;
  const size_t after = matrices + static_cast<size_t>(part) * static_cast<size_t>(hidden);
  auto* begin = static_cast<char*>(const_cast<void*>(space));
  if (matrix_at != nullptr) *matrix_at = begin + bytes_of(rnn->type) * at;
  if (bias_at != nullptr) *bias_at = begin + bytes_of(rnn->type) * after;
  if (matrix != nullptr) *matrix = {rnn->type, {1, hidden, columns}};
  if (bias != nullptr) *bias = {rnn->type, {1, hidden, 1}};
  return CUDNN_STATUS_SUCCESS;
}

int fake_gpu_launch_of(void* handle, const char* name) {
  return launch(static_cast<cudnnHandle_t>(handle), name);
}

}  // extern "C"
