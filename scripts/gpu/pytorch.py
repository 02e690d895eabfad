"""pytorch.py --variant 120m - times PyTorch training the models that andrea trains, and prints JSON as `andrea bench gpu` does.

The same architecture, microbatch, step (forward, backward, clip, AdamW) and number formats: float32 weights, products in
bfloat16, V padded to a multiple of 64; torch.compile, its fused attention and its fused AdamW.
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

VARIANTS = {"12m": (384, 12, 6, 1024, 2305), "120m": (768, 12, 12, 1024, 8449), "480m": (1536, 24, 16, 1024, 8449)}
EPS = 1e-5
WARM_UP = 3


def norm(x):
    return x * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + EPS).to(x.dtype)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        windows, t, width = x.shape
        q, k, v = (p.view(windows, t, self.heads, -1).transpose(1, 2) for p in self.qkv(norm(x)).split(width, dim=2))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(windows, t, width))
        return x + self.fc2(F.relu(self.fc1(norm(x))).square())


class Model(nn.Module):
    def __init__(self, width, heads, layers, context, vocab):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, (vocab + 63) // 64 * 64, bias=False)
        self.vocab = vocab

    def forward(self, tokens):
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        x = norm(self.wte(inputs) + self.wpe.weight)
        for block in self.blocks:
            x = block(x)
        logits = self.head(x)[..., : self.vocab]
        return F.cross_entropy(logits.reshape(-1, self.vocab).float(), targets.reshape(-1))


def build(shape, place, compiled):
    torch.manual_seed(1)
    model = Model(*shape).to(place)
    decayed = [p for n, p in model.named_parameters() if n not in ("wte.weight", "wpe.weight")]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": [model.wte.weight, model.wpe.weight], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.95), eps=1e-8, **({"fused": True} if place == "cuda" else {}))
    return model, torch.compile(model) if compiled else model, optimizer


def make_step(shape, windows, microbatches, place, compiled):
    model, run, optimizer = build(shape, place, compiled)
    tokens = torch.randint(shape[4], (windows, shape[3] + 1), device=place)

    def step():
        optimizer.zero_grad(set_to_none=True)
        for _ in range(microbatches):
            with torch.autocast(place, dtype=torch.bfloat16):
                loss = run(tokens) / microbatches
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def main():
    flags = argparse.ArgumentParser()
    flags.add_argument("--variant", choices=VARIANTS, default="120m")
    flags.add_argument("--shape", help="d_model,n_head,n_layer,context,vocab")
    flags.add_argument("--windows", type=int, default=64)
    flags.add_argument("--microbatches", type=int, default=1)
    flags.add_argument("--measurements", type=int, default=5)
    flags.add_argument("--seconds", type=float, default=2)
    flags.add_argument("--eager", action="store_true", help="without torch.compile")
    f = flags.parse_args()
    shape = tuple(map(int, f.shape.split(","))) if f.shape else VARIANTS[f.variant]
    place = "cuda" if torch.cuda.is_available() else "cpu"
    wait = torch.cuda.synchronize if place == "cuda" else lambda: None
    torch.set_float32_matmul_precision("high")

    begin = time.time()
    step = make_step(shape, f.windows, f.microbatches, place, not f.eager)
    for _ in range(WARM_UP):
        step()
    wait()
    started, rates, tokens = time.time(), [], f.microbatches * f.windows * shape[3]
    for _ in range(f.measurements):
        steps, start = 0, time.perf_counter()
        while steps == 0 or time.perf_counter() - start < f.seconds:
            step()
            wait()  # as an optimizer step of a run, which needs the loss, does
            steps += 1
        rates.append(steps * tokens / (time.perf_counter() - start))
    print(json.dumps({
        "variant": "custom" if f.shape else f.variant, "windows": f.windows, "tokens_per_step": tokens, "torch": torch.__version__,
        "tokens_per_second": statistics.median(rates), "tokens_per_second_measured": rates, "warm_up_seconds": started - begin,
        "started_unix": started, "ended_unix": time.time(),
        "engine_bytes": torch.cuda.max_memory_allocated() if place == "cuda" else 0,
    }))


if __name__ == "__main__":
    main()
