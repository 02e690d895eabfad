# Turns the output of 'andrea bench --json' into a row of the table in README.md.
def share: if . == null then "" else "\(. * 1000 | round / 10) %" end;
def whole: if . == null then "" else "\(round)" end;
"| " + ([
  .started[:10], ."machine.cpu", ."machine.threads", .path, .version, ."machine.go", "`\(.command)`", (.quiet | share),
  (."peak.\(.path).gflops" | whole), (."peak.\(.path).flop_per_cycle" * 10 | round / 10),
  (."memory.copy.gbps" | whole), (."memory.read.gbps" | whole),
  (."gemm.12m.fp32.share" | share),
  (("train.12m.fp32.w1", "train.12m.fp32.w4", "train.120m.fp32.w2", "train.480m.fp32.w1") as $key
    | .[$key + ".tokens_per_second"], .[$key + ".share"]
    | if . == null then "" elif . < 2 then share else whole end),
  (."decode.12m.fp32.tokens_per_second" | whole)
] | map(tostring) | join(" | ")) + " |"
