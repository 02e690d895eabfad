"""kernels.py LIBRARY IMAGES LAUNCHES OUT - runs kernels beside PyTorch: compares what they compute, and on a GPU times both.

LIBRARY is the driver's libcuda.so.1 or the software device's, IMAGES the folder of PTX files, LAUNCHES what `go run
./scripts/gpu` printed; OUT becomes one JSON line a launch. On the software device only the small launches run, beside
PyTorch on the processor. Exits 1 if a kernel differs.
"""
import ctypes
import json
import math
import os
import sys

import torch
import torch.nn.functional as F

REPEAT = 20  # launches of a timing
SHORT = 0.2  # seconds of a timing, at most


class Driver:
    """The CUDA driver's functions, and the kernels of a folder of images."""

    def __init__(self, path, images):
        self.library = ctypes.CDLL(path)
        name = ctypes.create_string_buffer(256)
        self.context = ctypes.c_void_p()
        self.call("cuInit", ctypes.c_uint(0))
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), ctypes.c_int(0))
        self.call("cuCtxSetCurrent", self.context)
        self.call("cuDeviceGetName", name, ctypes.c_int(255), ctypes.c_int(0))
        self.name = name.value.decode()
        self.software = "software" in self.name
        self.place = "cpu" if self.software else "cuda"
        self.images, self.modules, self.kernels = images, {}, {}

    def call(self, function, *arguments):
        code = getattr(self.library, function)(*arguments)
        if code:
            raise RuntimeError(f"{function} returns {code}")

    def kernel(self, launch):
        name, module = launch["kernel"], launch["module"]
        if module not in self.modules:
            with open(os.path.join(self.images, module + ".ptx"), "rb") as file:
                image = file.read() + b"\0"
            self.modules[module] = ctypes.c_void_p()
            self.call("cuModuleLoadData", ctypes.byref(self.modules[module]), image)
        if name not in self.kernels:
            function = ctypes.c_void_p()
            self.call("cuModuleGetFunction", ctypes.byref(function), self.modules[module], name.encode())
            if launch["shared"] > 48 << 10:
                self.call("cuFuncSetAttribute", function, ctypes.c_int(8), ctypes.c_int(launch["shared"]))
            self.kernels[name] = function
        return self.kernels[name]

    def prepare(self, launch, arguments):
        """Returns a function that queues the launch, and one that brings what it wrote back to the tensors."""
        kernel, values, copies = self.kernel(launch), [], []
        for parameter, value in zip(launch["params"], arguments, strict=True):
            if parameter["type"] == "p":
                values.append(ctypes.c_uint64(self.address(value, copies)))
            else:
                values.append({"i": ctypes.c_int, "f": ctypes.c_float}[parameter["type"]](value))
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        geometry = [ctypes.c_uint(n) for n in [*launch["grid"], launch["threads"], 1, 1, launch["shared"]]]
        stream = ctypes.c_void_p(None if self.software else torch.cuda.current_stream().cuda_stream)

        def run():
            self.call("cuLaunchKernel", kernel, *geometry, stream, pointers, None)
            return values  # which the call reads

        def fetch():
            self.call("cuCtxSynchronize")
            for tensor, address in copies:
                self.call("cuMemcpyDtoH_v2", ctypes.c_void_p(tensor.data_ptr()), ctypes.c_uint64(address), ctypes.c_size_t(tensor.nbytes_))
                self.call("cuMemFree_v2", ctypes.c_uint64(address))

        return run, fetch

    def address(self, tensor, copies):
        """Where a tensor lies on the device; on the software device it is copied there."""
        if tensor is None:
            return 0
        assert tensor.is_contiguous()
        if not self.software:
            return tensor.data_ptr()
        address = ctypes.c_uint64()
        tensor.nbytes_ = tensor.numel() * tensor.element_size()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(tensor.nbytes_))
        self.call("cuMemcpyHtoD_v2", address, ctypes.c_void_p(tensor.data_ptr()), ctypes.c_size_t(tensor.nbytes_))
        copies.append((tensor, address.value))
        return address.value


class Case:
    """What one launch reads and has to write: arguments in order, pairs of result and reference, PyTorch's own way."""

    def __init__(self, place, launch):
        self.place, self.sizes = place, launch["sizes"]
        self.kernel = launch["kernel"]
        self.type = torch.float32 if self.kernel.endswith("fp32") else torch.bfloat16
        self.generator = torch.Generator().manual_seed(1)

    def draw(self, *shape, type=None, scale=1.0):
        drawn = torch.randn(*shape, generator=self.generator) * scale
        return drawn.to(type or self.type).to(self.place)

    def empty(self, *shape, type=torch.float32):
        return torch.full(shape, math.nan, dtype=type, device=self.place)

    def build(self):
        """Returns arguments, pairs and PyTorch's way (None: it has no single call for it)."""
        for prefix, build in BUILDERS.items():
            if self.kernel.startswith(prefix):
                return build(self)
        raise KeyError(f"kernels.py knows no case for {self.kernel}")


STORE, STORE_FP32, ADD_FP32, STORE_RELU2, STORE_RELU2_BACKWARD = 0, 1, 2, 4, 6  # epilogues of package kernels


def gemm(case):
    m, n, k = (case.sizes[s] for s in "MNK")
    way = case.kernel[5:7]
    a = case.draw(*((k, m) if way == "tn" else (m, k)))
    b = case.draw(*((n, k) if way == "nt" else (k, n)))
    epilogue, aux = case.sizes["epilogue"], None
    c = case.empty(m, n, type=torch.float32 if epilogue in (STORE_FP32, ADD_FP32) else case.type)
    left, right = (a.t() if way == "tn" else a), (b.t() if way == "nt" else b)
    want = left.float() @ right.float()
    if epilogue == ADD_FP32:
        c = case.draw(m, n, type=torch.float32)
        want = c + want
    elif epilogue == STORE_RELU2:
        want = F.relu(want).square()
    elif epilogue == STORE_RELU2_BACKWARD:
        aux = case.draw(m, n).square()
        want = want * 2 * aux.float().sqrt()
    arguments = [c, a, b, aux, m, n, k, a.shape[1], b.shape[1], n, epilogue]
    return arguments, [(c, want)], lambda: left @ right


class Attention:
    """Tensors of one attention, with its gradient by PyTorch."""

    def __init__(self, case):
        s = case.sizes
        self.shape = s["windows"], s["t"], s["heads"], s["head_dim"]
        windows, t, heads, size = self.shape
        width = heads * size
        self.qkv = case.draw(windows * t, 3 * width)
        self.dmixed = case.draw(windows * t, width)
        self.scale = 1 / math.sqrt(size)
        inputs = [self.heads(x).detach().requires_grad_() for x in self.qkv.float().split(width, dim=1)]
        hidden = torch.ones(t, t, dtype=torch.bool, device=case.place).triu(1)
        scores = (inputs[0] @ inputs[1].transpose(2, 3) * self.scale).masked_fill(hidden, -math.inf)
        self.lse = scores.logsumexp(3).detach().contiguous()
        mixed = scores.softmax(3) @ inputs[2]
        mixed.backward(self.heads(self.dmixed.float()))
        self.mixed32 = self.rows(mixed.detach())
        self.mixed = self.mixed32.to(case.type)
        self.delta = self.heads(self.dmixed.float() * self.mixed.float()).sum(3).contiguous()
        self.dqkv = torch.cat([self.rows(x.grad) for x in inputs], dim=1)

    def heads(self, x):
        windows, t, heads, size = self.shape
        return x.view(windows, t, heads, size).transpose(1, 2)

    def rows(self, x):
        windows, t, heads, size = self.shape
        return x.transpose(1, 2).reshape(windows * t, heads * size)

    def flash(self, backward):
        """PyTorch's fused attention, whose backward pass is timed together with its forward pass."""
        width = self.shape[2] * self.shape[3]
        q, k, v = (self.heads(x).detach().contiguous().requires_grad_(backward) for x in self.qkv.split(width, dim=1))
        gradient = self.heads(self.dmixed).contiguous()

        def run():
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            if backward:
                out.backward(gradient)

        return run


def attention_forward(case):
    a = Attention(case)
    windows, t, heads, size = a.shape
    mixed, lse = case.empty(*a.mixed.shape, type=case.type), case.empty(windows, heads, t)
    return [mixed, lse, a.qkv, t, heads, size, a.scale], [(mixed, a.mixed32), (lse, a.lse)], a.flash(False)


def attention_delta(case):
    a = Attention(case)
    windows, t, heads, size = a.shape
    delta = case.empty(windows, heads, t)
    return [delta, a.dmixed, a.mixed, windows * t, t, heads, size], [(delta, a.delta)], None


def attention_backward(case):
    a = Attention(case)
    _, t, heads, size = a.shape
    width = heads * size
    dqkv = case.empty(*a.qkv.shape, type=case.type)
    columns = slice(0, width) if "queries" in case.kernel else slice(width, 3 * width)
    pairs = [(dqkv[:, columns], a.dqkv[:, columns])]
    return [dqkv, a.dmixed, a.qkv, a.lse, a.delta, t, heads, size, a.scale], pairs, a.flash(True) if "keys" in case.kernel else None


EPS = 1e-5


def norm_forward(case):
    rows, width = case.sizes["rows"], case.sizes["width"]
    x = case.draw(rows, width, type=torch.float32)
    y, inverse = case.empty(rows, width, type=case.type), case.empty(rows)
    root = torch.rsqrt(x.square().mean(1) + EPS)
    return [y, inverse, x, rows, width, EPS], [(y, x * root[:, None]), (inverse, root)], lambda: (x * torch.rsqrt(x.square().mean(1, keepdim=True) + EPS)).to(case.type)


def norm_backward(case):
    rows, width = case.sizes["rows"], case.sizes["width"]
    dy, y = case.draw(rows, width), case.draw(rows, width)
    before, inverse = case.draw(rows, width, type=torch.float32), case.draw(rows, type=torch.float32).abs()
    dx, copy = before.clone(), case.empty(rows, width, type=case.type)
    wide, tall = dy.float(), y.float()
    want = before + inverse[:, None] * (wide - tall * (wide * tall).mean(1, keepdim=True))
    return [dx, copy, dy, y, inverse, rows, width, 1], [(dx, want), (copy, want)], None


def cross_entropy(case):
    rows, t, vocab, stride = (case.sizes[s] for s in ("rows", "t", "vocab", "ld"))
    logits = case.draw(rows, stride, type=torch.float32)
    tokens = torch.randint(vocab, (rows // t, t + 1), generator=case.generator, dtype=torch.int32).to(case.place)
    loss, gradient = case.empty(rows, type=torch.float64), case.empty(rows, stride, type=case.type)
    inputs, targets = logits[:, :vocab], tokens[:, 1:].reshape(-1).long()
    wanted = torch.zeros_like(logits)
    wanted[:, :vocab] = inputs.softmax(1)
    wanted[torch.arange(rows, device=case.place), targets] -= 1
    pairs = [(loss, F.cross_entropy(inputs.double(), targets, reduction="none")), (gradient, wanted)]
    return [loss, gradient, logits, tokens, 0, rows, t, vocab, stride], pairs, lambda: F.cross_entropy(inputs, targets, reduction="sum")


def adamw(case):
    n = case.sizes["count"]
    w, m, g = (case.draw(n, type=torch.float32) for _ in range(3))
    v = case.draw(n, type=torch.float32).square()
    copy, digest = case.empty(n, type=torch.bfloat16), torch.zeros(2, dtype=torch.int64, device=case.place)
    scale, lr, beta1, beta2, correction1, correction2, eps, decay = 0.5, 0.01, 0.9, 0.95, 0.1, 0.05, 1e-8, 0.1
    gradient = g * scale
    m1, v1 = beta1 * m + (1 - beta1) * gradient, beta2 * v + (1 - beta2) * gradient.square()
    w1 = w - lr * (m1 / correction1 / ((v1 / correction2).sqrt() + eps) + decay * w)
    parameter = w.clone().requires_grad_()
    parameter.grad = g.clone()
    optimizer = torch.optim.AdamW([parameter], lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=decay, **({"fused": True} if case.place == "cuda" else {}))
    arguments = [digest, w, m, v, g, copy, 0, n, 0, scale, lr, beta1, 1 - beta1, beta2, 1 - beta2, correction1, correction2, eps, decay]
    return arguments, [(w, w1), (m, m1), (v, v1), (copy, w1)], optimizer.step


def fold(case):
    n = case.sizes["count"]
    to, what = case.draw(n, type=torch.float32), case.draw(n, type=torch.float32)
    return [to, what, n], [(to, to + what)], lambda: to.add_(what)


def narrow(case):
    n = case.sizes["count"]
    to, what = case.empty(n, type=torch.bfloat16), case.draw(n, type=torch.float32)
    return [to, what, n], [(to, what)], lambda: what.to(torch.bfloat16)


def add_parts(case):
    n, parts = case.sizes["count"], case.sizes["parts"]
    to, what = case.draw(n, type=torch.float32), case.draw(parts, n, type=torch.float32)
    return [to, what, n, parts], [(to, to + what.sum(0))], lambda: to.add_(what.sum(0))


def sum_squares(case):
    n, buckets, size = (case.sizes[s] for s in ("count", "buckets", "bucket"))
    sums, x = case.empty(buckets, type=torch.float64), case.draw(n, type=torch.float32)
    want = torch.stack([part.double().square().sum() for part in x.split(size)])
    return [sums, x, n], [(sums, want)], lambda: x.square().sum()


def loss_sum(case):
    n = case.sizes["count"]
    total, losses = case.empty(1, type=torch.float64), case.draw(n, type=torch.float64).abs()
    return [total, losses, n], [(total, losses.sum().reshape(1))], losses.sum


RELU2 = 1  # the kind of activation


def act_forward(case):
    n = case.sizes["count"]
    y, x = case.empty(n, type=case.type), case.draw(n, type=torch.float32)
    return [y, x, n, RELU2], [(y, F.relu(x).square())], lambda: F.relu(x).square().to(case.type)


def act_backward(case):
    n = case.sizes["count"]
    dx, dy, y = case.empty(n, type=case.type), case.draw(n, type=torch.float32), case.draw(n).square()
    return [dx, dy, y, n, RELU2], [(dx, dy * 2 * y.float().sqrt())], lambda: (dy * 2 * y.sqrt()).to(case.type)


def tokens_of(case):
    """The token of every row, as main.go has them."""
    rows, vocab = case.sizes["rows"], case.sizes["vocab"]
    return torch.arange(rows, device=case.place) * 31 % vocab


def embed_forward(case):
    rows, windows, t, width, vocab = (case.sizes[s] for s in ("rows", "windows", "t", "width", "vocab"))
    token = tokens_of(case)
    batch = torch.zeros(windows, t + 1, dtype=torch.int32, device=case.place)
    batch[:, :t] = token.view(windows, t)
    wte, wpe = case.draw(vocab, width, type=torch.float32), case.draw(t, width, type=torch.float32)

    def theirs():
        both = (F.embedding(token, wte).view(windows, t, width) + wpe).view(rows, width)
        root = torch.rsqrt(both.square().mean(1) + EPS)
        return both * root[:, None], root

    x, embedded, inverse = case.empty(rows, width), case.empty(rows, width), case.empty(rows)
    want, root = theirs()
    return [x, embedded, inverse, wte, wpe, batch, rows, t, width, EPS], [(x, want), (embedded, want), (inverse, root)], theirs


def embed_tokens(case):
    rows, width, vocab = (case.sizes[s] for s in ("rows", "width", "vocab"))
    token = tokens_of(case)
    order = torch.sort(token, stable=True).indices.int()
    ids, counts = torch.unique(token, return_counts=True)
    starts = torch.cat([torch.zeros(1, device=case.place), counts.cumsum(0)]).int()
    assert len(ids) == case.sizes["count"]
    dwte, dx = case.draw(vocab, width, type=torch.float32), case.draw(rows, width, type=torch.float32)
    want = dwte.index_add(0, token, dx)
    return [dwte, dx, order, starts, ids.int(), len(ids), width], [(dwte, want)], lambda: dwte.index_add(0, token, dx)


def embed_positions(case):
    windows, t, width = (case.sizes[s] for s in ("windows", "t", "width"))
    dwpe, dx = case.draw(t, width, type=torch.float32), case.draw(windows * t, width, type=torch.float32)
    want = dwpe + dx.view(windows, t, width).sum(0)
    return [dwpe, dx, windows, t, width], [(dwpe, want)], lambda: dwpe.add_(dx.view(windows, t, width).sum(0))


BUILDERS = {
    "gemm_": gemm, "act_forward": act_forward, "act_backward": act_backward, "narrow": narrow, "add_parts": add_parts, "sum_squares": sum_squares,
    "loss_sum": loss_sum, "embed_forward": embed_forward, "embed_tokens": embed_tokens, "embed_positions": embed_positions, "attention_forward": attention_forward, "attention_delta": attention_delta, "attention_keys": attention_backward,
    "attention_queries": attention_backward, "norm_forward": norm_forward, "norm_backward": norm_backward, "cross_entropy": cross_entropy,
    "adamw": adamw, "fold": fold,
}


def distance(got, want):
    """The largest difference relative to the largest element; NaN counts as infinite."""
    difference = (got.double() - want.double()).abs().max() / want.double().abs().max()
    return float("inf") if torch.isnan(difference) else difference.item()


def milliseconds(run):
    """Median time of a launch on the GPU, each behind the last one."""
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    times, total = [], 0.0
    while len(times) < REPEAT and total < SHORT * 1e3:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
        total += times[-1]
    return sorted(times)[len(times) // 2]


def measure(driver, launch):
    case = Case(driver.place, launch)
    arguments, pairs, theirs = case.build()
    run, fetch = driver.prepare(launch, arguments)
    run()
    fetch()
    limit = 2**-6 if "bf16" in launch["kernel"] or launch["kernel"] in ("adamw", "narrow") else 1e-4  # the last two store bf16
    result = {"name": launch["name"], "kernel": launch["kernel"], "distance": max(distance(*pair) for pair in pairs), "ms": None, "torch_ms": None}
    result["agrees"] = result["distance"] <= limit
    if not driver.software and not launch["small"]:
        result["ms"] = milliseconds(run)
        if theirs:
            result["torch_ms"] = milliseconds(theirs)
        if launch["flops"]:
            result["tflops"] = launch["flops"] / result["ms"] / 1e9
        result["gb_per_s"] = launch["bytes"] / result["ms"] / 1e6
    return result


def main(library, images, launches, out):
    driver, good = Driver(library, images), True
    torch.backends.cuda.matmul.allow_tf32 = False
    with open(launches) as file:
        todo = json.load(file)
    with open(out, "w") as file:
        for launch in todo:
            if driver.software and not launch["small"]:
                continue
            result = measure(driver, launch)
            good = good and result["agrees"]
            print(json.dumps(result), file=file, flush=True)
            if not result["agrees"]:
                print(f"kernels.py: {result['kernel']} of {result['name']} differs from PyTorch by {result['distance']:.2g}", file=sys.stderr)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
