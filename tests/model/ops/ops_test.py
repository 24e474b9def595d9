"""Tests of libhydrascope_ops.so.

Every operator against its equation written out in float64 with all N x N weights; gradients against autograd's
of the same. Exit code 77 (CTest: skipped) where this Python cannot import a PyTorch that loads the library.
"""

import argparse
import itertools
import math
import sys
import unittest

SKIPPED = 77

try:
    import torch
except ImportError as error:
    print(f"skipped: {sys.executable} cannot import torch: {error}")
    sys.exit(SKIPPED)

from equations import FEATURES, VARIANTS, hedgehog, hydra, linear  # noqa: E402  (needs torch)

TOKENS = [1, 2, 33, 197]

ops = torch.ops.hydrascope


# ---- comparison ------------------------------------------------------------------------------------------------------

def normal(*shape, dtype=torch.float32, device="cpu", seed=0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype).to(device)


def tokens_of(batch, heads, tokens, width, value_width=None, dtype=torch.float32, device="cpu"):
    """q, k, v, leaves of a graph."""
    widths = (width, width, value_width or width)
    return [normal(batch, heads, tokens, w, dtype=dtype, device=device, seed=s).requires_grad_()
            for s, w in enumerate(widths)]


class Case(unittest.TestCase):
    device = "cpu"

    def assert_close(self, found, exact, share, what="", scale=None):
        """|found - exact| within `share` of `scale`, exact's largest magnitude if it is not given; NaN fails."""
        self.assertEqual(found.shape, exact.shape, what)
        if exact.numel() == 0:
            return
        error = (found.double() - exact).abs().max().item()
        bound = share * (exact.abs().max().item() if scale is None else scale) + 1e-30
        self.assertTrue(error <= bound, f"{what}: off by {error:.3g}, bound {bound:.3g}")

    def assert_agrees(self, operator, equation, inputs, share, gradient_share, what):
        """Value and gradients of `operator(*inputs)` against `equation` of the same inputs in float64."""
        exact = [None if x is None else x.detach().double().requires_grad_() for x in inputs]
        y, z = operator(*inputs), equation(*exact)
        self.assertEqual(y.dtype, inputs[0].dtype)
        self.assert_close(y.detach(), z.detach(), share, what)
        g = normal(*y.shape, dtype=y.dtype, device=y.device, seed=9)
        found = torch.autograd.grad(y, [x for x in inputs if x is not None], g)
        wanted = torch.autograd.grad(z, [x for x in exact if x is not None], g.double())
        # One scale for all: where weights sum to 1, a single token's gradient of q is a difference of equals.
        scale = max(b.abs().max().item() for b in wanted)
        for i, (a, b) in enumerate(zip(found, wanted)):
            self.assert_close(a, b, gradient_share, f"{what}, gradient of input {i}", scale)

    def assert_error(self, expected, call, *arguments, **options):
        with self.assertRaises(RuntimeError) as caught:
            call(*arguments, **options)
        for part in expected:
            self.assertIn(part, str(caught.exception))


# Shares of the largest magnitude. float32: sums of a thousand terms. bfloat16: features, S and y are rounded to 8 bits,
# and differences of the gradients' terms lose some more.
SHARES = {torch.float32: (2e-6, 2e-5), torch.bfloat16: (0.012, 0.03), torch.float16: (0.002, 0.005)}


class Values(Case):
    """Forward and backward, float32 and the half types."""
    dtypes = (torch.float32, torch.bfloat16)
    kernels = dtypes  # the types of linear attention's kernels, in heads of 64

    def test_hydra(self):
        for dtype, tokens, (heads, width) in itertools.product(self.dtypes, TOKENS, [(1, 5), (3, 16), (2, 64)]):
            inputs = tokens_of(2, heads, tokens, width, dtype=dtype, device=self.device)
            self.assert_agrees(ops.hydra_attention, hydra, inputs, *SHARES[dtype], f"{dtype} N={tokens} d={width}")

    def test_hydra_options(self):
        for dtype, norm_q, norm_k in itertools.product(self.dtypes, ["l2", "l1", "none"], ["l2", "l1", "none"]):
            options = dict(norm_q=norm_q, norm_k=norm_k, eps=0.01, num_prefix=2, prefix_weight=1.5, patch_weight=0.25)
            inputs = tokens_of(2, 3, 33, 8, dtype=dtype, device=self.device)
            inputs.append(normal(24, device=self.device).requires_grad_())
            self.assert_agrees(lambda q, k, v, s: ops.hydra_attention(q, k, v, feature_scale=s, **options),
                               lambda q, k, v, s: hydra(q, k, v, feature_scale=s, **options),
                               inputs, *SHARES[dtype], f"{dtype} {options}")

    def test_hydra_rows_below_eps(self):
        """A row of zeros gives 0 and counts as constant."""
        q, k, v = tokens_of(1, 2, 5, 4, device=self.device)
        with torch.no_grad():
            q[:, :, 1] = 0
            k[:, :, 2] = 1e-9
        y = ops.hydra_attention(q, k, v)
        self.assert_close(y.detach(), hydra(q.double(), k.double(), v.double()).detach(), 1e-6)
        dq, dk, _ = torch.autograd.grad(y.sum(), [q, k, v])
        self.assertEqual(y[:, :, 1].abs().max().item(), 0)
        self.assertEqual(dq[:, :, 1].abs().max().item(), 0)
        self.assertEqual(dk[:, :, 2].abs().max().item(), 0)

    def test_linear(self):
        for dtype, feature, tokens, (heads, width, value_width) in itertools.product(
                self.dtypes, FEATURES, TOKENS, [(1, 5, 3), (2, 64, 64)]):
            # Signed weights are not divided by their sum, which may be 0; nor is what rounded features leave of few.
            few = feature == "relu" and width < 64 and dtype != torch.float32
            normaliser = "none" if feature == "unit" or few else "add_eps"
            inputs = tokens_of(2, heads, tokens, width, value_width, dtype=dtype, device=self.device)
            self.assert_agrees(
                lambda q, k, v: ops.linear_attention(q, k, v, feature=feature, normaliser=normaliser),
                lambda q, k, v: linear(q, k, v, feature, normaliser),
                inputs, *SHARES[dtype], f"{dtype} {feature} N={tokens} w={width}")

    def test_linear_of_many_tiles_with_late_maxima(self):
        for feature in ("elu", "exp_pair", "softmax_pair"):
            q, k, v = tokens_of(1, 2, 1100, 8, device=self.device)
            with torch.no_grad():
                k *= torch.linspace(0.1, 3, 1100, device=self.device)[:, None]
            options = dict(num_prefix=600, prefix_weight=0.5, patch_weight=2.0)
            self.assert_agrees(lambda *x: ops.linear_attention(*x, feature=feature, **options),
                               lambda *x: linear(*x, feature, **options), [q, k, v], 4e-6, 4e-5, feature)

    def test_linear_of_large_exponents(self):
        q, k, v = [(100 * x).detach().requires_grad_() for x in tokens_of(1, 2, 33, 8, device=self.device)]
        for variant in VARIANTS:
            self.assert_agrees(lambda *x: ops.hedgehog_attention(*x, variant=variant),
                               lambda *x: hedgehog(*x, variant=variant), [q, k, v], 1e-4, 1e-3, variant)

    def test_hedgehog(self):
        for dtype, variant, per_head in itertools.product(self.dtypes, VARIANTS, [True, False]):
            if variant == "expdim" and dtype != torch.float32:
                continue  # rounding u may change which of its values is the largest: another gradient
            q, k, v = tokens_of(2, 3, 33, 8, dtype=dtype, device=self.device)
            shape = (3,) if per_head else ()
            networks = [(0.3 * normal(*shape, *size, device=self.device, seed=seed)).requires_grad_()
                        for seed, size in enumerate([(8, 16), (16,), (8, 16), (16,)])]
            # In bfloat16 u itself is rounded, which exponentials enlarge.
            grow = 1 if dtype == torch.float32 else 2
            share, gradient_share = SHARES[dtype]
            self.assert_agrees(lambda *x: ops.hedgehog_attention(*x, variant=variant),
                               lambda *x: hedgehog(*x, variant=variant),
                               [q, k, v, *networks], grow * share, grow * gradient_share, f"{dtype} {variant}")

    def test_float16_without_kernels(self):
        """The CPU's kernels know no float16: it is the formula that computes, in float32."""
        inputs = tokens_of(2, 3, 33, 16, dtype=torch.float16, device=self.device)
        self.assert_agrees(ops.hydra_attention, hydra, inputs, *SHARES[torch.float16], "hydra")
        self.assert_agrees(ops.linear_attention, linear, inputs, *SHARES[torch.float16], "linear")

    def test_nan_propagates(self):
        q, k, v = [x.detach() for x in tokens_of(2, 2, 9, 8, device=self.device)]
        k[0, 1, 3, 2] = math.nan
        for y in (ops.hydra_attention(q, k, v), ops.linear_attention(q, k, v, feature="exp_pair")[:, 1:]):
            self.assertTrue(y[0].isnan().all())
            self.assertFalse(y[1].isnan().any())

    def test_empty(self):
        for shape in [(0, 2, 9, 8), (2, 2, 0, 8)]:
            for call in (ops.hydra_attention, ops.linear_attention, ops.hedgehog_attention):
                x = torch.zeros(shape, device=self.device, requires_grad=True)
                y = call(x, x, x)
                self.assertEqual(y.shape, shape)
                (gradient,) = torch.autograd.grad(y.sum(), x)
                self.assertEqual(gradient.shape, shape)

    def test_layouts(self):
        """Kernels give the same bits for any strides as for (B, N, H, d) in memory, which needs no copy."""
        for dtype in self.kernels:
            packed = normal(2, 33, 3, 4, 64, dtype=dtype, device=self.device)
            views = [x.transpose(1, 2) for x in packed.unbind(2)]
            one = views[0][:, :, :1].expand(-1, -1, 33, -1)
            layouts = {
                "contiguous": [x.contiguous() for x in views],
                "transposed": [x.transpose(2, 3).contiguous().transpose(2, 3) for x in views],
                "of their own": [views[0], views[1].transpose(1, 2).contiguous().transpose(1, 2), views[2]],
                "stepped": [torch.stack([x, x], -1)[..., 0] for x in views],
            }
            for call in (ops.hydra_attention, ops.hedgehog_attention):
                expected = call(*views)
                for name, inputs in layouts.items():
                    self.assertTrue(torch.equal(call(*inputs), expected), f"{dtype} {call} {name}")
                self.assertTrue(torch.equal(call(one, one, views[2]),
                                            call(one.contiguous(), one.contiguous(), views[2])), f"{dtype} {call}")

    def test_batch_changes_nothing(self):
        for dtype in self.kernels:
            q, k, v = [x.detach() for x in tokens_of(2, 3, 1100, 64, dtype=dtype, device=self.device)]
            for call in (ops.hydra_attention, lambda *x: ops.linear_attention(*x, feature="exp_pair")):
                both = call(q, k, v)
                single = [call(q[i:i + 1], k[i:i + 1], v[i:i + 1]) for i in range(2)]
                self.assertTrue(torch.equal(both, torch.cat(single)))


def gradcheck(function, inputs):
    """Along random directions: the components are compared with autograd's by `Values` and `test_values`."""
    return torch.autograd.gradcheck(function, inputs, fast_mode=True)


class Gradients(Case):
    """Finite differences in float64."""

    def inputs(self, tokens=5, width=4, value_width=None):
        return tokens_of(2, 2, tokens, width, value_width, dtype=torch.float64, device=self.device)

    def test_values(self):
        inputs = self.inputs(197, 8)
        for feature in FEATURES:
            normaliser = "none" if feature == "unit" else "add_eps"
            self.assert_agrees(lambda *x: ops.linear_attention(*x, feature=feature, normaliser=normaliser),
                               lambda *x: linear(*x, feature, normaliser), inputs, 1e-12, 1e-11, feature)
        self.assert_agrees(ops.hydra_attention, hydra, inputs, 1e-13, 1e-12, "hydra")

    def test_hydra(self):
        for norm in ["l2", "l1", "none"]:
            scale = normal(8, dtype=torch.float64, device=self.device).requires_grad_()
            self.assertTrue(gradcheck(
                lambda q, k, v, s: ops.hydra_attention(q, k, v, norm_q=norm, norm_k=norm, eps=0.1, feature_scale=s,
                                                       num_prefix=1, prefix_weight=2.0, patch_weight=0.5),
                (*self.inputs(), scale)))

    def test_linear(self):
        for feature, normaliser in itertools.product(FEATURES, ["add_eps", "none"]):
            self.assertTrue(gradcheck(
                lambda q, k, v: ops.linear_attention(q, k, v, feature=feature, normaliser=normaliser, eps=0.5,
                                                     num_prefix=1, prefix_weight=2.0, patch_weight=0.5),
                self.inputs(value_width=3)), feature)

    def test_hedgehog(self):
        for variant, per_head in itertools.product(VARIANTS, [True, False]):
            shape = (2,) if per_head else ()
            networks = [normal(*shape, *size, dtype=torch.float64, device=self.device, seed=seed).requires_grad_()
                        for seed, size in enumerate([(4, 3), (3,), (4, 3), (3,)])]
            self.assertTrue(gradcheck(
                lambda *x: ops.hedgehog_attention(*x, variant=variant), (*self.inputs(), *networks)), variant)

    def test_some_inputs_only(self):
        q, k, v = [x.detach() for x in tokens_of(1, 2, 5, 4, device=self.device)]
        for call in (ops.hydra_attention, ops.linear_attention):
            call(q, k, v.requires_grad_()).sum().backward()
            self.assertEqual(v.grad.shape, v.shape)
            v = v.detach()
        self.assertFalse(ops.hydra_attention(q, k, v).requires_grad)
        scale = torch.ones(8, device=self.device, requires_grad=True)
        ops.hydra_attention(q, k, v, feature_scale=scale).sum().backward()
        self.assertEqual(scale.grad.shape, (8,))
        half = torch.ones(8, device=self.device, dtype=torch.bfloat16, requires_grad=True)
        ops.hydra_attention(q, k, v, feature_scale=half).sum().backward()
        self.assertEqual(half.grad.dtype, torch.bfloat16)

    def test_second_derivatives_are_refused(self):
        for call, name in ((ops.hydra_attention, "_hydra_attention_backward"),
                           (ops.linear_attention, "_linear_attention_backward")):
            inputs = self.inputs()
            (first,) = torch.autograd.grad(call(*inputs).square().sum(), inputs[0], create_graph=True)
            self.assert_error(["hydrascope::" + name, "not implemented"], lambda: first.sum().backward())


class Tracing(Case):
    """Shapes without values, and torch.compile."""

    def test_shapes_without_values(self):
        for device in ("meta", "cuda", "cpu"):
            with torch._subclasses.FakeTensorMode() if device != "meta" else torch.device("meta"):
                q, k = [torch.empty(2, 3, 33, 8, device=device, dtype=torch.bfloat16) for _ in range(2)]
                v = torch.empty(2, 3, 33, 16, device=device, dtype=torch.bfloat16)
                network = torch.empty(3, 8, 4, device=device)
                for y in (ops.linear_attention(q, k, v), ops.hedgehog_attention(q, k, v, network, None, network)):
                    self.assertEqual((y.shape, y.dtype, y.device.type), (v.shape, v.dtype, device))
                self.assertEqual(ops.hydra_attention(q, k, q).stride(), (33 * 24, 8, 24, 1))
        real = ops.hydra_attention(*[x.detach() for x in tokens_of(2, 3, 33, 8)])
        self.assertEqual(real.stride(), (33 * 24, 8, 24, 1))

    def test_opcheck(self):
        for dtype in (torch.float32, torch.float64):
            q, k, v = tokens_of(2, 3, 9, 4, dtype=dtype)
            scale = normal(12).requires_grad_()
            network = normal(3, 4, 5, dtype=dtype).requires_grad_()
            torch.library.opcheck(ops.hydra_attention.default, (q, k, v), {"feature_scale": scale})
            torch.library.opcheck(ops.hydra_attention.default, (q, k, v.detach()))
            torch.library.opcheck(ops.linear_attention.default, (q, k, v), {"feature": "exp_pair"})
            torch.library.opcheck(ops.linear_attention.default, tuple(x.detach() for x in (q, k, v)))
            torch.library.opcheck(ops.hedgehog_attention.default, (q, k, v, network, None, network))

    def test_compile(self):
        def model(q, k, v, scale, network):
            y = ops.hydra_attention(q, k, v, feature_scale=scale.relu())
            y = y + ops.linear_attention(q, k, v, feature="softmax_pair", num_prefix=1, prefix_weight=0.5)
            return ops.hedgehog_attention(y, k, v, network, None, network).square().sum()

        for backend, dynamic in itertools.product(("eager", "aot_eager"), (False, True)):
            torch._dynamo.reset()
            compiled = torch.compile(model, backend=backend, fullgraph=True, dynamic=dynamic)
            for tokens in (9, 33, 34):
                inputs = [*tokens_of(2, 3, tokens, 4), normal(12).requires_grad_(), normal(3, 4, 5).requires_grad_()]
                loss, expected = compiled(*inputs), model(*inputs)
                self.assert_close(loss.detach(), expected.detach().double(), 1e-6)
                for a, b in zip(torch.autograd.grad(loss, inputs), torch.autograd.grad(expected, inputs)):
                    self.assert_close(a, b.double(), 1e-5, f"{backend} dynamic={dynamic} N={tokens}")
            with torch.no_grad():
                self.assert_close(compiled(*inputs), expected.detach().double(), 1e-6)

    def test_autocast_and_inference_mode(self):
        q, k, v = [x.detach() for x in tokens_of(1, 2, 9, 4)]
        network = normal(2, 4, 4)
        with torch.autocast("cpu", torch.bfloat16), torch.inference_mode():
            self.assertEqual(ops.hedgehog_attention(q, k, v, network).dtype, torch.float32)
            half = [x.bfloat16() for x in (q, k, v)]
            self.assertEqual(ops.hedgehog_attention(*half, network).dtype, torch.bfloat16)


class Refusals(Case):
    """Errors name the operator, what was expected and what was found."""

    def test_shapes(self):
        x = normal(2, 3, 9, 4)
        for name in ("hydra_attention", "linear_attention", "hedgehog_attention"):
            call = getattr(ops, name)
            self.assert_error([name, "q has shape [3, 9, 4]", "expected (batch, heads"], call, x[0], x[0], x[0])
            self.assert_error([name, "k has shape [2, 3, 8, 4]", "[2, 3, 9, 4]"], call, x, x[:, :, 1:], x)
            self.assert_error([name, "v has shape [2, 2, 9, 4]", "[2, 3, 9, 4]"], call, x, x, x[:, 1:])
        self.assert_error(["v has shape [2, 3, 9, 2]", "q's"], ops.hydra_attention, x, x, x[..., 2:])
        self.assert_error(["feature_scale has shape [3]", "[12]"], ops.hydra_attention, x, x, x,
                          feature_scale=torch.ones(3))
        self.assert_error(["weight_q has shape [5, 4]", "head_dim 4"], ops.hedgehog_attention, x, x, x,
                          torch.ones(5, 4))
        self.assert_error(["bias_k has shape [3, 5]", "width 4"], ops.hedgehog_attention, x, x, x,
                          bias_k=torch.ones(3, 5))

    def test_kinds(self):
        x = normal(2, 3, 9, 4)
        for name in ("hydra_attention", "linear_attention", "hedgehog_attention"):
            call = getattr(ops, name)
            self.assert_error([name, "k is BFloat16", "Float"], call, x, x.bfloat16(), x)
            self.assert_error([name, "v is on meta", "cpu"], call, x, x, x.to("meta"))
            self.assert_error([name, "q is Int"], call, x.int(), x.int(), x.int())

    def test_options(self):
        x = normal(2, 3, 9, 4)
        self.assert_error(["norm_k is 'l3'", "l2, l1, none"], ops.hydra_attention, x, x, x, norm_k="l3")
        self.assert_error(["eps is -1"], ops.hydra_attention, x, x, x, eps=-1.0)
        self.assert_error(["num_prefix is 10", "9"], ops.hydra_attention, x, x, x, num_prefix=10)
        self.assert_error(["num_prefix is -1"], ops.linear_attention, x, x, x, num_prefix=-1)
        self.assert_error(["feature is 'cos'", "exp_pair"], ops.linear_attention, x, x, x, feature="cos")
        self.assert_error(["normaliser is ''", "add_eps, none"], ops.linear_attention, x, x, x, normaliser="")
        self.assert_error(["variant is 'softmax'", "softmax2"], ops.hedgehog_attention, x, x, x, variant="softmax")

    def test_numbers_of_choices(self):
        """The private operators take choices as numbers."""
        x = normal(2, 3, 9, 4)
        places = {"num_prefix": 0, "prefix_weight": 1.0, "patch_weight": 1.0}
        families = {"hydra": {"norm_q": 0, "eps_q": 0.0, "norm_k": 2, "eps_k": 0.0, **places},
                    "linear": {"feature": 0, "normaliser": 2, "eps": 0.0, "unit_eps": 0.0, **places}}
        saved = {"sums": x, "grad_y": x, "with_feature_scale": False}
        for family, arguments in families.items():
            forward = getattr(ops, f"_{family}_attention_forward")
            backward = getattr(ops, f"_{family}_attention_backward")
            forward(x, x, x, None, **arguments, save=False)
            for argument, numbers in (("norm_q", (-1, 3)), ("norm_k", (3, 1 << 40)), ("feature", (-1, 8)),
                                      ("normaliser", (-1, 1, 3))):  # 1: no kernel has it
                for number in numbers if argument in arguments else ():
                    wrong = {**arguments, argument: number}
                    message = [f"{family}_attention: {argument} is {number}, which is no choice"]
                    self.assert_error(message, forward, x, x, x, None, **wrong, save=False)
                    self.assert_error(message, backward, x, x, x, None, **wrong, **saved)


class Threads(Case):
    def test_their_number_changes_nothing(self):
        before = torch.get_num_threads()
        try:
            for dtype in (torch.float32, torch.bfloat16):
                inputs = tokens_of(2, 3, 1100, 64, dtype=dtype)
                for call in (ops.hydra_attention, lambda *x: ops.linear_attention(*x, feature="exp_pair")):
                    results = []
                    for threads in (1, 3):
                        torch.set_num_threads(threads)
                        results.append(call(*inputs))
                    self.assertTrue(torch.equal(*results))
        finally:
            torch.set_num_threads(before)


# ---- the program -----------------------------------------------------------------------------------------------------

def on(device, case):
    """`case` for the GPU's half of the library."""
    name = case.__name__ + ("OnGpu" if device == "cuda" else "Emulated")
    half = (torch.bfloat16, torch.float16)
    return type(name, (case,), {"device": device, "dtypes": (torch.float32, *half), "kernels": half})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", help="libhydrascope_ops.so")
    parser.add_argument("--torch", metavar="VERSION", help="the version of PyTorch that the library is built for")
    parser.add_argument("--emulated", action="store_true", help="its CUDA kernels run on the block emulator")
    arguments, rest = parser.parse_known_args()
    if arguments.torch and torch.__version__.split("+")[0] != arguments.torch:
        print(f"skipped: {sys.executable} has torch {torch.__version__}, the library is for {arguments.torch}")
        sys.exit(SKIPPED)
    torch.ops.load_library(arguments.library)
    torch.set_num_threads(min(2, torch.get_num_threads()))
    built = hasattr(ops, "_has_gpu_kernels")
    if arguments.emulated:
        cases = [on("cpu", Values), on("cpu", Gradients)]
    else:
        cases = [Values, Gradients, Tracing, Refusals, Threads]
        if built and torch.cuda.is_available():
            cases += [on("cuda", Values), on("cuda", Gradients)]
        else:
            print("left out, the tests on a GPU:", "there is none" if built else "the library is built without CUDA")
            if any(name.endswith("OnGpu") for name in rest):
                sys.exit(SKIPPED)

    def load_tests(loader, _, pattern):
        return unittest.TestSuite(loader.loadTestsFromTestCase(case) for case in cases)

    module = sys.modules["__main__"]
    module.load_tests = load_tests
    for case in cases:
        setattr(module, case.__name__, case)
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
