#pragma once

// What every communicator promises (dist/communicator.h), as cases that each rank runs with its own
// communicator: the MPI and the staged one under mpirun, threads in one process, and NCCL on GPUs.
//
// Inputs are small integers, whose sums are exact in every dtype and in any order, except where the
// case is about rounding.

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "core/error.h"
#include "dist/communicator.h"
#include "text/strings.h"

namespace dtrain::dist::contract {

struct Case {
  std::string name;
  std::function<void(Communicator&, at::Device)> run;
};

inline const std::vector<at::ScalarType>& dtypes() {
  static const std::vector<at::ScalarType> all = {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf,
                                                  at::kLong};
  return all;
}

inline const std::vector<int64_t>& lengths() {
  // None divides among 2 or 4 ranks
  static const std::vector<int64_t> all = {0, 1, 7, 4099, (1 << 20) + 3};
  return all;
}

inline std::string op_name(ReduceOp op) { return op == ReduceOp::kSum ? "sum" : "max"; }

// The first elements of whole_numbers(), which repeats them: expected sums are computed from these
// alone, because computing them for whole tensors took most of the test's time. A prime, so that a
// part in the wrong place differs.
constexpr int64_t kPeriod = 509;

inline at::Tensor one_period(int rank, int64_t salt) {
  return at::arange(kPeriod, at::kLong)
      .pow_(3)
      .remainder_(kPeriod)
      .add_(rank * 5 + salt)
      .remainder_(21)
      .sub_(10);
}

inline at::Tensor repeated(const at::Tensor& period, int64_t n) {
  return period.repeat({n / kPeriod + 1}).narrow(0, 0, n).clone();
}

// Element i of rank r, in [-10, 10].
inline at::Tensor whole_numbers(int rank, int64_t n, at::ScalarType dtype, int64_t salt = 0) {
  return repeated(one_period(rank, salt).to(dtype), n);
}

// Different numbers on each rank, with rounding in every sum.
inline at::Tensor rough_numbers(int rank, int64_t n, at::ScalarType dtype) {
  return at::arange(n, at::kDouble).mul_(0.37).add_(rank * 1.1).sin_().mul_(3.7).to(dtype);
}

inline at::Tensor reduced(int size, int64_t n, at::ScalarType dtype, ReduceOp op,
                          int64_t salt = 0) {
  at::Tensor result = one_period(0, salt);
  for (int rank = 1; rank < size; ++rank) {
    const at::Tensor next = one_period(rank, salt);
    result = op == ReduceOp::kSum   ? result + next
             : op == ReduceOp::kMax ? at::maximum(result, next)
                                    : at::minimum(result, next);
  }
  return repeated(result.to(dtype), n);
}

inline at::Tensor bytes_of(const at::Tensor& tensor) {
  return tensor.contiguous().view({-1}).view(at::kByte);
}

inline void expect_equal(const at::Tensor& got, const at::Tensor& want, const std::string& what) {
  const at::Tensor host = got.cpu();
  EXPECT_TRUE(host.sizes() == want.sizes() && host.dtype() == want.dtype() && at::equal(host, want))
      << what;
}

inline void expect_same_bits_on_every_rank(Communicator& comm, const at::Tensor& tensor,
                                           const std::string& what) {
  const at::Tensor mine = bytes_of(tensor);
  const at::Tensor all = at::empty({comm.size(), mine.numel()}, mine.options());
  comm.all_gather(all, mine).wait();
  for (int rank = 0; rank < comm.size(); ++rank) {
    EXPECT_TRUE(at::equal(all[rank], all[0]))
        << what << ": rank " << rank << " differs from rank 0";
  }
}

inline void all_reduce_case(Communicator& comm, at::Device device, at::ScalarType dtype,
                            ReduceOp op) {
  for (const int64_t n : lengths()) {
    const std::string what =
        str("all_reduce ", op_name(op), " of ", n, " x ", c10::toString(dtype));
    const at::Tensor tensor = whole_numbers(comm.rank(), n, dtype).to(device);
    comm.all_reduce(tensor, op).wait();
    expect_equal(tensor, reduced(comm.size(), n, dtype, op), what);
  }
}

inline void same_bits_case(Communicator& comm, at::Device device, at::ScalarType dtype) {
  for (const int64_t n : {int64_t{5}, int64_t{40'001}}) {
    const at::Tensor first = rough_numbers(comm.rank(), n, dtype).to(device), again = first.clone();
    comm.all_reduce(first, ReduceOp::kSum).wait();
    expect_same_bits_on_every_rank(comm, first, str("sum of ", n, " x ", c10::toString(dtype)));
    comm.all_reduce(again, ReduceOp::kSum).wait();
    EXPECT_TRUE(at::equal(bytes_of(first), bytes_of(again))) << "the same inputs gave another sum";
    at::Tensor exact = at::zeros({n}, at::kDouble);
    for (int rank = 0; rank < comm.size(); ++rank)
      exact += rough_numbers(rank, n, dtype).to(at::kDouble);
    const double half_step = dtype == at::kBFloat16 ? 0x1p-8
                             : dtype == at::kHalf   ? 0x1p-11
                             : dtype == at::kFloat  ? 0x1p-22
                                                    : 0x1p-50;
    const double error = (first.cpu().to(at::kDouble) - exact).abs().max().item<double>();
    EXPECT_LE(error, half_step * comm.size() * 4 * comm.size()) << c10::toString(dtype);
  }
}

inline void all_gather_case(Communicator& comm, at::Device device) {
  std::vector<at::ScalarType> types = dtypes();
  types.push_back(at::kByte);
  for (const at::ScalarType dtype : types) {
    for (const int64_t n : {0, 1, 4099}) {
      const auto part = [&](int rank) {
        return whole_numbers(rank, n, at::kLong).add_(10).to(dtype);
      };
      const at::Tensor out = at::empty({comm.size(), n}, at::TensorOptions(dtype).device(device));
      comm.all_gather(out, part(comm.rank()).to(device)).wait();
      for (int rank = 0; rank < comm.size(); ++rank) {
        expect_equal(out[rank], part(rank),
                     str("all_gather ", n, " x ", c10::toString(dtype), ", part ", rank));
      }
    }
  }
}

inline void broadcast_case(Communicator& comm, at::Device device) {
  std::vector<at::ScalarType> types = dtypes();
  types.push_back(at::kByte);
  for (int root = 0; root < comm.size(); ++root) {
    for (const at::ScalarType dtype : types) {
      for (const int64_t n : {int64_t{0}, int64_t{1}, int64_t{70'001}}) {
        const auto value = [&](int rank) {
          return whole_numbers(rank, n, at::kLong, root).add_(10).to(dtype);
        };
        const at::Tensor tensor = value(comm.rank()).to(device);
        comm.broadcast(tensor, root).wait();
        expect_equal(tensor, value(root),
                     str("broadcast of ", n, " x ", c10::toString(dtype), " from ", root));
      }
    }
  }
}

// Several operations of different sizes and kinds in flight, waited for in reverse order.
inline void several_in_flight_case(Communicator& comm, at::Device device) {
  const std::vector<int64_t> sizes = {300'000, 3, 70'000, 0, 1, 200'001};
  std::vector<at::Tensor> tensors;
  std::vector<Work> works;
  for (size_t i = 0; i < sizes.size(); ++i) {
    tensors.push_back(
        whole_numbers(comm.rank(), sizes[i], at::kFloat, static_cast<int64_t>(i)).to(device));
    works.push_back(comm.all_reduce(tensors.back(), ReduceOp::kSum));
  }
  const at::Tensor gathered =
      at::empty({comm.size(), 9}, at::TensorOptions(at::kLong).device(device));
  // Of a tensor that the caller drops at once
  Work gathering = comm.all_gather(gathered, whole_numbers(comm.rank(), 9, at::kLong).to(device));
  gathering.wait();
  std::for_each(works.rbegin(), works.rend(), [](Work& work) { work.wait(); });
  for (size_t i = 0; i < sizes.size(); ++i) {
    expect_equal(
        tensors[i],
        reduced(comm.size(), sizes[i], at::kFloat, ReduceOp::kSum, static_cast<int64_t>(i)),
        str("tensor ", i));
  }
  for (int rank = 0; rank < comm.size(); ++rank)
    expect_equal(gathered[rank], whole_numbers(rank, 9, at::kLong),
                 "gathered while others are in flight");
  works.front().wait();  // idempotent
}

// The caller drops tensors before wait(): their memory is reused only after the operation. Rounds,
// because what overlaps is chance.
inline void dropped_case(Communicator& comm, at::Device device) {
  constexpr int64_t kCount = 10'000;
  const auto filled = [](at::Device on, float value) {
    return at::full({kCount}, value, at::TensorOptions(at::kFloat).device(on));
  };
  const at::Tensor gathered =
      at::empty({comm.size(), kCount}, at::TensorOptions(at::kFloat).device(device));
  for (int round = 0; round < 20; ++round) {
    Work reducing = comm.all_reduce(filled(device, 1), ReduceOp::kSum);
    comm.barrier();  // the sum may be on its way to the device
    const at::Tensor next = filled(device, 7);
    Work gathering = comm.all_gather(gathered, filled(device, static_cast<float>(comm.rank())));
    gathering.wait();
    reducing.wait();
    expect_equal(next, filled(at::kCPU, 7), "a tensor made after another one was dropped");
    for (int rank = 0; rank < comm.size(); ++rank)
      expect_equal(gathered[rank], filled(at::kCPU, static_cast<float>(rank)), "of dropped ones");
  }
}

// The operation runs after what the caller did before, and what the caller does after wait() runs
// after the operation.
inline void order_with_the_caller_case(Communicator& comm, at::Device device) {
  const at::Tensor tensor = at::zeros({100'000}, at::TensorOptions(at::kFloat).device(device));
  float expected = 0;
  for (int round = 0; round < 20; ++round) {
    tensor.add_(1);
    comm.all_reduce(tensor, ReduceOp::kSum).wait();
    tensor.mul_(0.5);
    expected = (expected + 1) * static_cast<float>(comm.size()) * 0.5f;
  }
  expect_equal(tensor, at::full({100'000}, expected, at::kFloat),
               "20 rounds of add, reduce, multiply");
}

inline void allocate_case(Communicator& comm, at::Device device) {
  const at::Tensor tensor = comm.allocate({3, 5}, at::TensorOptions(at::kDouble).device(device));
  ASSERT_EQ(tensor.sizes(), at::IntArrayRef({3, 5}));
  ASSERT_TRUE(tensor.is_contiguous() && tensor.device() == device && tensor.dtype() == at::kDouble);
  tensor.fill_(comm.rank() + 1);
  comm.all_reduce(tensor, ReduceOp::kMax).wait();
  expect_equal(tensor, at::full({3, 5}, comm.size(), at::kDouble), "a tensor of allocate()");
  for (const at::ScalarType dtype :
       dtypes()) {  // sizes at which implementations change their ways; whole and in part
    for (const int64_t n : {int64_t{0}, int64_t{1}, int64_t{3001}, int64_t{(1 << 18) + 3}}) {
      for (const int64_t begin : {int64_t{0}, std::min<int64_t>(n, 5)}) {
        const std::string what =
            str("a tensor of allocate(), ", n, " x ", c10::toString(dtype), " from ", begin);
        const at::Tensor large = comm.allocate({n}, at::TensorOptions(dtype).device(device));
        EXPECT_EQ(reinterpret_cast<uintptr_t>(large.data_ptr()) % 64, 0u);
        large.copy_(rough_numbers(comm.rank(), n, dtype));
        const at::Tensor other = large.clone();  // of other memory: the same bits
        Work first = comm.all_reduce(large.narrow(0, begin, n - begin), ReduceOp::kSum);
        comm.all_reduce(other.narrow(0, begin, n - begin), ReduceOp::kSum).wait();
        first.wait();
        EXPECT_TRUE(at::equal(bytes_of(large), bytes_of(other))) << what;
      }
    }
  }
}

// A phase of training has tensors of its own, made before or after those of the last phase are
// freed. Some outlive the communicator here.
inline void allocate_again_case(Communicator& comm, at::Device device) {
  std::vector<at::Tensor> kept;
  for (int phase = 0; phase < 6; ++phase) {
    const at::Tensor tensor =
        comm.allocate({50'000 + phase}, at::TensorOptions(at::kFloat).device(device));
    if (phase % 2 == 0) kept.clear();
    kept.push_back(tensor);
    tensor.fill_(phase - comm.rank());
    comm.all_reduce(tensor, ReduceOp::kMax).wait();
    expect_equal(tensor, at::full({50'000 + phase}, phase, at::kFloat), str("phase ", phase));
  }
}

inline void barrier_case(Communicator& comm, at::Device device) {
  for (int i = 0; i < 5; ++i) comm.barrier();
  const at::Tensor one = at::ones({1}, at::TensorOptions(at::kLong).device(device));
  Work work = comm.all_reduce(one, ReduceOp::kSum);
  comm.barrier();
  work.wait();
  expect_equal(one, at::full({1}, comm.size(), at::kLong), "an operation before a barrier");
}

// After abort(), waiting and later operations throw CommError with the reason.
inline void abort_case(Communicator& comm, at::Device device) {
  const at::Tensor tensor = at::ones({1000}, at::TensorOptions(at::kFloat).device(device));
  comm.all_reduce(tensor, ReduceOp::kSum).wait();
  comm.barrier();
  comm.abort("the test asks for it");
  comm.abort("a second reason is ignored");
  try {
    comm.all_reduce(tensor, ReduceOp::kSum).wait();
    ADD_FAILURE() << "an aborted communicator still works";
  } catch (const CommError& error) {
    EXPECT_NE(std::string(error.what()).find("the test asks for it"), std::string::npos)
        << error.what();
  }
  EXPECT_THROW(comm.barrier(), CommError);
}

// For communicators that sum half precision in float32 (all but NCCL): 2048 + 1 + 1 is 2048 in
// float16 when rounded each time.
inline void half_in_float32_case(Communicator& comm, at::Device device) {
  const int size = comm.size();
  const at::Tensor half =
      at::full({1000}, comm.rank() == 0 ? 2048 : 1, at::TensorOptions(at::kHalf).device(device));
  comm.all_reduce(half, ReduceOp::kSum).wait();
  expect_equal(half,
               at::full({1000}, 2048.0f + static_cast<float>(size - 1), at::kFloat).to(at::kHalf),
               "float16");
  const at::Tensor large = at::full({1000}, comm.rank() % 2 ? -60000.0 : 60000.0,
                                    at::TensorOptions(at::kHalf).device(device));
  comm.all_reduce(large, ReduceOp::kSum).wait();
  expect_equal(large, at::full({1000}, size % 2 ? 60000.0 : 0.0, at::kHalf),
               "no overflow in between");
}

// The cases that every communicator passes; abort_case comes last.
inline std::vector<Case> cases() {
  std::vector<Case> all;
  for (const at::ScalarType dtype : dtypes()) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
      all.push_back({str("AllReduce_", op_name(op), "_", c10::toString(dtype)),
                     [=](Communicator& comm, at::Device device) {
                       all_reduce_case(comm, device, dtype, op);
                     }});
    }
    if (dtype == at::kLong) continue;
    all.push_back(
        {str("SameBits_", c10::toString(dtype)),
         [=](Communicator& comm, at::Device device) { same_bits_case(comm, device, dtype); }});
  }
  all.push_back({"AllGather", all_gather_case});
  all.push_back({"Broadcast", broadcast_case});
  all.push_back({"SeveralInFlight", several_in_flight_case});
  all.push_back({"Dropped", dropped_case});
  all.push_back({"OrderWithTheCaller", order_with_the_caller_case});
  all.push_back({"Allocate", allocate_case});
  all.push_back({"AllocateAgain", allocate_again_case});
  all.push_back({"Barrier", barrier_case});
  all.push_back({"Abort", abort_case});
  return all;
}

}  // namespace dtrain::dist::contract
