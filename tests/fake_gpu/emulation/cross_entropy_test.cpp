// The kernels of cross entropy against LibTorch's.

#include "kernels/cross_entropy.h"

#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <vector>

#include "emulation/orders.h"

namespace dtrain::kernels {
namespace {

class CrossEntropyKernels : public emulation::InEachOrder {};
INSTANTIATE_TEST_SUITE_P(Emulated, CrossEntropyKernels, emulation::kOrders);

constexpr int64_t kIgnored = -7;

struct Form {
  int64_t samples, classes;
  bool weighted = false;
  double smoothing = 0;
};

template <typename T>
void compare(const Form& form, double bound) {
  using Number = typename CrossEntropy<T>::Number;
  constexpr auto kNumber = c10::CppTypeToScalarType<Number>::value;
  at::manual_seed(5);
  const at::Tensor logits =
      (at::randn({form.samples, form.classes}, at::kDouble) * 5).to(c10::CppTypeToScalarType<T>());
  const at::Tensor targets = at::randint(form.classes, {form.samples}, at::kLong);
  targets[0] = kIgnored;
  const at::Tensor weights =
      form.weighted ? at::rand({form.classes}, at::kDouble).to(kNumber) : at::Tensor();
  const at::Tensor of_losses = at::randn({form.samples}, at::kDouble).to(kNumber);

  const at::Tensor exact = logits.to(at::kDouble).requires_grad_();
  const at::Tensor expected =
      at::cross_entropy_loss(exact, targets, form.weighted ? weights.to(at::kDouble) : weights,
                             at::Reduction::None, kIgnored, form.smoothing);
  expected.backward(of_losses.to(at::kDouble));

  const CrossEntropy<T> of{.logits = logits.const_data_ptr<T>(),
                           .targets = targets.const_data_ptr<int64_t>(),
                           .weights = form.weighted ? weights.const_data_ptr<Number>() : nullptr,
                           .samples = form.samples,
                           .classes = form.classes,
                           .smoothing = static_cast<Number>(form.smoothing),
                           .ignore_index = kIgnored};
  const at::Tensor losses = at::full({form.samples}, 9, kNumber),
                   gradient = at::full_like(logits, 9);
  ASSERT_EQ(cross_entropy_on_gpu(of, losses.mutable_data_ptr<Number>(), nullptr), 0);
  ASSERT_EQ(cross_entropy_backward_on_gpu(of, of_losses.const_data_ptr<Number>(),
                                          gradient.mutable_data_ptr<T>(), nullptr),
            0);
  const double loss_bound = kNumber == at::kDouble ? 1e-12 : 1e-5;
  EXPECT_TRUE(at::allclose(losses.to(at::kDouble), expected.detach(), loss_bound, loss_bound));
  EXPECT_TRUE(at::allclose(gradient.to(at::kDouble), exact.grad(), bound, bound));
  EXPECT_EQ(losses[0].template item<double>(), 0);
  EXPECT_EQ(gradient[0].abs().max().template item<double>(), 0);
}

TEST_P(CrossEntropyKernels, AreThoseOfLibTorch) {
  for (const Form& form :
       {Form{5, 2}, Form{7, 40, true}, Form{6, 33, false, 0.1}, Form{9, 100, true, 0.2}}) {
    compare<float>(form, 1e-5);
    compare<double>(form, 1e-12);
    compare<c10::Half>(form, 1e-3);
    compare<c10::BFloat16>(form, 8e-3);
  }
}

TEST(CrossEntropyAtItsLimits, GoesOnBeyondItsGrid) { compare<float>({16390, 3}, 1e-5); }

TEST(CrossEntropyAtItsLimits, IsNotFiniteWhereTheLossIsNot) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> logits = {1, 2, 3, 4, 5, 6, kNaN, 1, 2}, weights = {1, 0, 1};
  const std::vector<int64_t> targets = {3, -1, 1};  // the last one is a class of weight 0
  const CrossEntropy<float> of{logits.data(), targets.data(), weights.data(), 3, 3, 0, kIgnored};
  const std::vector<float> of_losses = {1, 1, 1};
  std::vector<float> losses(3), gradient(9);
  ASSERT_EQ(cross_entropy_on_gpu(of, losses.data(), nullptr), 0);
  ASSERT_EQ(cross_entropy_backward_on_gpu(of, of_losses.data(), gradient.data(), nullptr), 0);
  for (const float number : losses) EXPECT_TRUE(std::isnan(number));
  for (const float number : gradient) EXPECT_TRUE(std::isnan(number));
}

}  // namespace
}  // namespace dtrain::kernels
