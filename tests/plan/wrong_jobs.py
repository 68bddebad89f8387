"""Job files that are wrong: what a user wrote, and what the one message must say."""

# (id, YAML text, what the message contains: the key, the value or the remedy)
WRONG_JOBS: list[tuple[str, str, str]] = [
    # words that are not known
    ("unknown section", "trian: {steps: 3}", "unknown key 'trian'. Did you mean 'train'?"),
    ("unknown key", "train: {step: 3}", "unknown key 'step' in train. Did you mean 'steps'?"),
    ("unknown key, far from any", "run: {zzz: 1}", "unknown key 'zzz' in run. Known: directory, profile."),
    (
        "unknown key in parallel",
        "parallel: {pipline: 2}",
        "unknown key 'pipline' in parallel. Did you mean 'pipeline'?",
    ),
    (
        "unknown nested key",
        "parallel: {offload: {optimizr: host}}",
        "unknown key 'optimizr' in parallel.offload. Did you mean 'optimizer'?",
    ),
    ("unknown capital key", "Train: {steps: 3}", "unknown key 'Train'. Did you mean 'train'?"),
    ("a key that is a number", "1: 2", "unknown key '1'"),
    ("a key called str", "str: 2", "unknown key 'str'"),
    ("unknown model key", "model: {preset: gpt-tiny, hiden: 64}", "unknown key 'hiden'"),
    ("unknown cluster key", "cluster: {nmae: x}", "cluster"),
    ("unknown model preset", "model: gpt3", "no model preset is called 'gpt3'. Did you mean 'gpt2'?"),
    ("unknown nested model preset", "model: {preset: gpt3}", "no model preset is called 'gpt3'"),
    ("model preset that is a list", "model: {preset: [gpt2]}", "model"),
    (
        "unknown cluster preset",
        "cluster: local_cpu",
        "no cluster preset is called 'local_cpu'. Did you mean 'local-cpu'?",
    ),
    ("unknown schedule", "parallel: {schedule: 1fb1}", "Did you mean '1f1b'?"),
    (
        "schedule of split backwards",
        "parallel: {schedule: zb-h1}",
        "zb-h1 has I and W in its rows, which is not trained yet; it can be drawn: headway schedule zb-h1 --pipeline 2",
    ),
    ("schedule in a V", "parallel: {schedule: zb-v}", "zb-v has I and W in its rows, which is not trained yet"),
    ("schedule of stashed weights", "parallel: {schedule: pipedream}", "pipedream has USE in its rows, which is not"),
    (
        "schedule with evictions",
        "parallel: {schedule: bpipe, pipeline: 4}\ntrain: {global_batch: 32, microbatch: 1}",
        "bpipe has EVICT and RESTORE in its rows, which is not trained yet",
    ),
    ("unknown optimizer", "optimizer: {name: sgd}", "optimizer.name is 'sgd'. Use 'adamw'."),
    (
        "unknown shape of the rate",
        "optimizer: {schedule: step}",
        "optimizer.schedule is 'step'. Use 'cosine', 'linear', 'wsd' or 'constant'.",
    ),
    ("word for a step", "run: {profile: first}", "run.profile is 'first', but should be a whole number or 'last'."),
    (
        "word for a loss scale",
        "train: {precision: float16, loss_scale: large}",
        "train.loss_scale is 'large', but should be a number or 'dynamic'.",
    ),
    ("no loss scale", "train: {precision: float16, loss_scale: 0}", "train.loss_scale must be above 0 and finite, got"),
    (
        "loss scale of another precision",
        "train: {precision: bfloat16, loss_scale: 1024}",
        "train.loss_scale 1024 is for train.precision float16: gradients in bfloat16 do not underflow. Leave it out.",
    ),
    (
        "no window",
        "train: {precision: float16, loss_scale_window: 0}",
        "train.loss_scale_window must be at least 1, got 0.",
    ),
    (
        "unknown precision",
        "train: {precision: float8}",
        "train.precision is 'float8'. Use 'float32', 'float64', 'bfloat16' or 'float16'.",
    ),
    (
        "unknown tier",
        "parallel: {offload: {params: ssd}}",
        "parallel.offload.params is 'ssd', but should be 'device', 'host' or",
    ),
    (
        "unknown family",
        "model: {family: mamba, layers: 2, hidden: 8, heads: 2, feed_forward: 8, vocabulary: 256, positions: 256}",
        "family is 'mamba'. Use 'gpt' or 'llama'.",
    ),
    (
        "family of another preset",
        "model: {preset: gpt2, family: llama}",
        "the model preset gpt2 is of family gpt, but model.family is 'llama'. Leave family out, or preset and give all",
    ),
    # values of the wrong type
    ("quoted number", 'train: {steps: "20"}', "train.steps is '20', but should be"),
    ("number with underscores", "train: {steps: 1_000}", "train.steps is '1_000', but should be"),
    ("word for a number", "optimizer: {lr: fast}", "optimizer.lr is 'fast', but should be"),
    ("fraction for a count", "train: {steps: 2.5}", "train.steps is 2.5, but should be"),
    ("bool for a count", "train: {steps: true}", "train.steps is"),
    ("word for a bool", "checkpoint: {asynchronous: on}", "checkpoint.asynchronous is 'on', but should be"),
    ("nothing for a count", "train: {steps: null}", "train.steps is"),
    ("number for a word", "run: {directory: 2024}", "run.directory is 2024, but should be"),
    ("list for a section", "train: [steps, 3]", "train is ['steps', 3], but should be"),
    ("word for a section", "train: fast", "train is 'fast', but should be"),
    ("word for parallel", "parallel: auot", "parallel is 'auot', but should be"),
    ("list for the model", "model: [gpt-tiny]", "model is ['gpt-tiny'], but should be"),
    ("number for the cluster", "cluster: 7", "cluster is 7, but should be"),
    ("list for a count", "parallel: {pipeline: [2]}", "parallel.pipeline is [2], but should be"),
    ("one beta", "optimizer: {betas: [0.9]}", "optimizer.betas"),
    ("three betas", "optimizer: {betas: [0.9, 0.95, 0.99]}", "optimizer.betas is [0.9, 0.95, 0.99]"),
    ("number for betas", "optimizer: {betas: 0.9}", "optimizer.betas is 0.9, but should be"),
    ("words for bytes", "parallel: {unit_bytes: lots}", "parallel.unit_bytes"),
    ("half-read bytes", "parallel: {unit_bytes: 1.2.3KiB}", "parallel.unit_bytes"),
    ("endless bytes", "parallel: {whole_below: 1e400B}", "parallel.whole_below"),
    # models and clusters with something missing
    ("model without sizes", "model: {}", "model"),
    (
        "model without positions",
        "model: {layers: 4, hidden: 128, heads: 4, feed_forward: 512, vocabulary: 256}",
        "positions",
    ),
    ("cluster without nodes", "cluster: {name: mine}", "nodes"),
    ("cluster file that is not there", "cluster: missing.yaml", "missing.yaml"),
    # sizes that cannot be
    ("no steps", "train: {steps: 0}", "train.steps must be at least 1, got 0."),
    ("negative batch", "train: {global_batch: -8}", "train.global_batch must be at least 1, got -8."),
    ("negative microbatch", "train: {microbatch: -1}", "train.microbatch must be at least 1, got -1."),
    ("negative pipeline", "parallel: {pipeline: -2}", "parallel.pipeline must be at least 1, got -2."),
    ("no data axis", "parallel: {data: 0}", "parallel.data must be at least 1, got 0."),
    ("no chunks", "parallel: {chunks: 0}", "chunks must be at least 1, got 0."),
    ("no layers", "model: {preset: gpt-tiny, layers: 0}", "model.layers must be at least 1, got 0."),
    ("negative rate", "optimizer: {lr: -1e-4}", "optimizer.lr must not be negative, got -0.0001."),
    ("endless rate", "optimizer: {lr: 1e999}", "optimizer.lr"),
    ("negative eps", "optimizer: {eps: -1}", "optimizer.eps"),
    ("negative evaluation", "train: {evaluate_every: -1}", "train.evaluate_every must not be negative, got -1."),
    ("negative unit bytes", "parallel: {unit_bytes: -5}", "parallel.unit_bytes"),
    ("negative workers", "data: {workers: -1}", "data.workers"),
    ("too many workers", "data: {workers: 1000}", "data.workers 1000 is more than 64 threads on each rank."),
    ("negative decay", "optimizer: {decay_steps: -1}", "optimizer.decay_steps must not be negative, got -1."),
    ("step before the first", "run: {profile: 0}", "run.profile is step 0, but the run has the steps 1 to 200"),
    ("step after the last", "run: {profile: 9}\ntrain: {steps: 8}", "has the steps 1 to 8 (train.steps). Use one of"),
    ("negative keep", "checkpoint: {keep: -1}", "checkpoint.keep must not be negative, got -1."),
    ("negative steps to a checkpoint", "checkpoint: {every: -5}", "checkpoint.every must not be negative, got -5."),
    ("unknown end of a failed save", "checkpoint: {on_error: skip}", "on_error is 'skip'. Use 'stop' or 'continue'."),
    ("checkpoints nowhere", "checkpoint: {directory: ''}", "checkpoint.directory is empty. Name a directory, or leave"),
    (
        "checkpoints by time",
        "checkpoint: {directory: 'x/{name}-{time}'}",
        "x/{name}-{time} has {time} in it, with which the same command would never find them again.",
    ),
    (
        "checkpoints by a word",
        "checkpoint: {directory: '{job}'}",
        "has {job} in it, which is not known. Use a plain path",
    ),
    ("beta of one", "optimizer: {betas: [0.9, 1.0]}", "optimizer.betas must lie in [0, 1), got [0.9, 1.0]."),
    ("everything held out", "data: {validation: 1}", "data.validation is the fraction held out"),
    ("empty path", 'data: {path: ""}', "data.path"),
    # numbers that do not fit together
    (
        "batch that does not divide",
        "train: {global_batch: 33, microbatch: 16}\nparallel: {data: 2}",
        "train.global_batch 33 is not a multiple of train.microbatch 16 × parallel.data 2 = 32 sequences. "
        "Use train.global_batch 32 or 64",
    ),
    (
        "warm-up and decay longer than the run",
        "optimizer: {schedule: wsd, warmup_steps: 6}\ntrain: {steps: 20}",
        "warmup_steps 6 + decay_steps 20 = 26 steps, but train.steps is 20. Use train.steps 26 or more",
    ),
    (
        "batch smaller than one round",
        "train: {global_batch: 4, microbatch: 4}\nparallel: {data: 2}",
        "Use train.global_batch 8,",
    ),
    (
        "interleaved in broken groups",
        "train: {global_batch: 24, microbatch: 4}\nparallel: {pipeline: 4, data: 1, chunks: 1, schedule: interleaved}",
        "got 6 micro-batches for 4 ranks. Use 4 or 8",
    ),
    ("chunks without interleaving", "parallel: {chunks: 2}", "Use schedule interleaved, or chunks 1."),
    (
        "heads that do not divide",
        "model: {preset: gpt-tiny, heads: 3}",
        "model.heads must divide model.hidden: 128 over 3 heads leaves 2. Use heads 2, or hidden 126.",
    ),
    # splits by hand
    (
        "split over too few stages",
        "parallel: {pipeline: 3, split: [2, 2]}",
        "parallel.split has 2 stages, but parallel.pipeline 3 × parallel.chunks 1 makes 3. Say for each of the 3 how",
    ),
    (
        "split over stages for two chunks",
        "parallel: {split: [1, 1, 1, 1]}",
        "parallel.split has 4 stages, but parallel.pipeline 2 × parallel.chunks 1 makes 2. Say for each of the 2 how "
        "many layers it holds (0 is a stage that passes on what it gets), or set parallel.chunks 2.",
    ),
    (
        "split with a layer too many",
        "parallel: {split: [3, 2]}",
        "parallel.split holds 3 + 2 = 5 layers, but the model has 4. Take away 1, or set model.layers.",
    ),
    (
        "split with a layer too few",
        'parallel: {split: "E|t*3L"}',
        "parallel.split holds 0 + 3 = 3 layers, but the model has 4. Add 1, or set model.layers.",
    ),
    ("split with a negative stage", "parallel: {split: [5, -1]}", "parallel.split has a stage of -1 layers. Use 0"),
    ("split of nothing", "parallel: {split: []}", "parallel.split has 0 stages, but parallel.pipeline 2"),
    ("split of words", "parallel: {split: [two, 2]}", "parallel.split.0 is 'two', but should be a whole number."),
    ("split of halves", "parallel: {split: [2, 1.5]}", "parallel.split.1 is 1.5, but should be a whole number."),
    ("split that is a number", "parallel: {split: 2}", "parallel.split is 2, but should be a word or a list."),
    ("split misspelt", "parallel: {split: balancd}", "has b at position 1, which means nothing there. E is the"),
    ("layout without embedding", 'parallel: {split: "tt|ttL"}', "has no E: the embedding, which comes first."),
    ("layout without head", 'parallel: {split: "Ett|tt"}', "has no L: the head, which comes last."),
    ("layout with two heads", 'parallel: {split: "Ett|ttLL"}', "has the head L 2 times, the second at position 8."),
    (
        "layout with multi-token prediction",
        'parallel: {split: "Ett|ttmL"}',
        "has m at position 7: a multi-token-prediction layer, which Headway's models do not have.",
    ),
    ("layout with an open group", 'parallel: {split: "E(t|t"}', "opens a ( at position 2 that nothing closes."),
    ("layout with an empty repeat", 'parallel: {split: "Et*|tL"}', "has a * at position 3 without a number from 1 on"),
    (
        "key-value heads that do not divide",
        "model: {preset: llama-tiny, key_value_heads: 3}",
        "model.key_value_heads must divide model.heads: 4 over 3 leaves 1. Use key_value_heads 2.",
    ),
    (
        "no key-value heads",
        "model: {preset: llama-tiny, key_value_heads: 0}",
        "model.key_value_heads must be at least 1, got 0.",
    ),
    (
        "key-value heads of a gpt",
        "model: {preset: gpt-tiny, key_value_heads: 2}",
        "model.key_value_heads 2 for 4 heads: only family llama shares keys and values. Use key_value_heads 4, or",
    ),
    (
        "a head of no pairs",
        "model: {preset: llama-tiny, hidden: 12}",
        "a head has 3 (model.hidden 12 over 4 heads). Use hidden 16, or other heads.",
    ),
    (
        "rotation of a gpt",
        "model: {preset: gpt-tiny, rope_theta: 10000}",
        "model.rope_theta 10000 is for family llama; gpt learns its positions.",
    ),
    ("no rotation", "model: {preset: llama-tiny, rope_theta: 0}", "model.rope_theta must be a number above 1, got 0."),
    (
        "everything dropped",
        "model: {preset: gpt-tiny, hidden_dropout: 1}",
        "model.hidden_dropout is the share that is dropped, at least 0 and below 1, got 1.0.",
    ),
    (
        "less than nothing dropped",
        "model: {preset: gpt-tiny, attention_dropout: -0.1}",
        "model.attention_dropout is the share that is dropped, at least 0 and below 1, got -0.1.",
    ),
    ("dropout in percent", "model: {preset: gpt-tiny, hidden_dropout: 10%}", "hidden_dropout is '10%', but should be"),
    ("sequence longer than a llama's", "model: llama-tiny\ndata: {sequence_length: 512}", "the model's 256 positions."),
    (
        "layout larger than the cluster",
        "parallel: {pipeline: 5, data: 16}\ntrain: {global_batch: 64}",
        "the layout needs 80 devices (tensor 1 × pipeline 5 × data 16)",
    ),
    (
        "tensor ranks that heads do not divide over",
        "parallel: {tensor: 3}",
        "parallel.tensor 3 does not divide model.heads 4 (leaves 1)",
    ),
    (
        "tensor ranks that key-value heads do not divide over",
        "model: llama-tiny\nparallel: {tensor: 4}",
        "model.key_value_heads 2 (leaves 2): each tensor rank has whole heads and an equal part of the feed-forward. "
        "Use parallel.tensor 1 or 2.",
    ),
    (
        "sequence parallel on one rank",
        "parallel: {sequence_parallel: true}",
        "parallel.sequence_parallel cuts the sequence over tensor ranks, of which there is 1 (parallel.tensor). "
        "Use parallel.tensor 2 or more, or leave sequence_parallel out.",
    ),
    (
        "sequence that tensor ranks do not divide",
        "parallel: {tensor: 4, sequence_parallel: true}\ndata: {sequence_length: 30}",
        "cuts data.sequence_length 30 over 4 tensor ranks, which leaves 2. Use data.sequence_length 28 or 32",
    ),
    ("no tensor ranks", "parallel: {tensor: 0}", "parallel.tensor must be at least 1, got 0."),
    (
        "sequence longer than the positions",
        "data: {sequence_length: 512}",
        "data.sequence_length 512 is longer than the model's 256 positions. Use at most 256",
    ),
    ("vocabulary too small", "model: {preset: gpt-tiny, vocabulary: 100}", "model.vocabulary 100"),
    (
        "everything smoothed",
        "train: {label_smoothing: 1}",
        "train.label_smoothing is the share of a target that is spread over the vocabulary, at least 0 and below 1, "
        "got 1.0.",
    ),
    ("less than nothing smoothed", "train: {label_smoothing: -0.1}", "at least 0 and below 1, got -0.1."),
    ("word for smoothing", "train: {label_smoothing: some}", "train.label_smoothing is 'some', but should be a number"),
    (
        "reduce_dtype wider",
        "train: {reduce_dtype: float64}",
        "train.reduce_dtype float64 adds nothing to the float32 gradients of train.precision float32. "
        "Use train.reduce_dtype float32.",
    ),
    (
        "reduce_dtype too narrow",
        "train: {precision: float64}",
        "train.reduce_dtype float32 would round the float64 gradients of train.precision float64. "
        "Use train.reduce_dtype float64.",
    ),
    (
        "reduce_dtype narrower than float32's",
        "train: {reduce_dtype: bfloat16}",
        "train.reduce_dtype bfloat16 would round the float32 gradients of train.precision float32. "
        "Use train.reduce_dtype float32.",
    ),
    (
        "reduce_dtype of neither state",
        "train: {precision: bfloat16, reduce_dtype: float16}",
        "of train.precision bfloat16. Use train.reduce_dtype float32 or bfloat16.",
    ),
    (
        "precision without a rate",
        "cluster: {name: box, nodes: 1, devices_per_node: 8, device: {name: box, kind: cpu, memory: 80000000000, "
        "peak: {float32: 1e12}, matmul: {float32: 1e12}, memory_bandwidth: 1e10, launch: 1e-6}, "
        "inside: {name: wire, latency: 1e-6, bandwidth: 1e9}, between: {name: wire, latency: 1e-6, bandwidth: 1e9}}\n"
        "train: {precision: bfloat16}",
        "box has no rate for train.precision bfloat16: its device.peak knows float32. Add device.peak.bfloat16, or",
    ),
    # networks that are not this cluster's, or too small for the job
    (
        "unknown fabric",
        "cluster: {preset: h800-hpn, fabric: hpnn}",
        "no fabric is called 'hpnn'. Did you mean 'hpn'?",
    ),
    (
        "fabric that is no word",
        "cluster: {preset: h800-hpn, fabric: [hpn]}",
        "fabric is ['hpn'], but should be a word.",
    ),
    ("fabric file that is not there", "cluster: {preset: h800-hpn, fabric: gone.yaml}", "there is no file"),
    (
        "fabric with other hosts",
        "cluster: {preset: local-cpu, fabric: hpn}",
        "cluster.fabric hpn has 8 GPUs a host, but local-cpu has 64 devices a node. Use a fabric with "
        "gpus_per_host=64, or another cluster.",
    ),
    (
        "fabric with other network cards",
        "cluster: {preset: a100-80gb-hdr, fabric: hpn}",
        "the network cards of a100-80gb-hdr have 200 Gbps (cluster.between.line), but the ports of a card of hpn have "
        "400 Gbps together. Use a fabric with another nic_speed or nic_ports, or another cluster.",
    ),
    (
        "fabric with slower cards than collectives reach",
        "cluster: {preset: h800-hpn, between: {line: 0}, fabric: hpn nic_speed=100Gbps}",
        "collectives reach 260 Gbps of a network card of h800-hpn (cluster.between.bandwidth), but the ports of a card "
        "of hpn nic_speed=100Gbps have 200 Gbps together.",
    ),
    (
        "fabric with too few hosts",
        "cluster: {preset: h800-hpn, fabric: dcn+ segments=1 hosts=2}\nparallel: {data: 32}\n"
        "train: {global_batch: 128}",
        "the layout needs 8 hosts of 8 devices, but cluster.fabric dcn+ segments=1 hosts=2 has 2 active ones. Use "
        "smaller axes, or more pods: dcn+ segments=1 hosts=2 pods=4.",
    ),
    (
        "fabric without cores with too few hosts",
        "cluster: {preset: h800-hpn, fabric: rail-only segments=1 hosts=2}\nparallel: {data: 32}\n"
        "train: {global_batch: 128}",
        "has 2 active ones. Use smaller axes or a larger fabric.",
    ),
    ("change that a preset lacks", "cluster: {preset: h800-hpn, fabrik: hpn}", "unknown key 'fabrik'"),
    # the design has it, the code not yet
    ("parallel auto", "parallel: auto", "parallel: auto needs the planner, which is not built yet."),
    ("zero", "parallel: {zero: 4}", "parallel.zero is a stage of ZeRO from 0 (nothing is cut) to 3, got 4."),
    ("negative prefetch", "parallel: {prefetch: -1}", "parallel.prefetch must not be negative, got -1."),
    ("offload", "parallel: {offload: {optimizer: host}}", "parallel.offload"),
    ("offload by name", "parallel: {offload: zero-offload}", "parallel.offload"),
    (
        "recompute of a mode that there is not",
        "parallel: {recompute: everything}",
        "parallel.recompute is everything. Use none, selective, full, or {mode: full, layers: 8} for the first 8",
    ),
    (
        "recompute without a mode",
        "parallel: {recompute: {layers: 2}}",
        'parallel.recompute is {"layers": 2}. Use none,',
    ),
    (
        "recompute of a wrong key",
        "parallel: {recompute: {mode: full, layer: 2}}",
        "Use none, selective, full, or {mode",
    ),
    (
        "recompute of no layers",
        "parallel: {recompute: {mode: full, layers: 0}}",
        "parallel.recompute.layers is 0, but should be a whole number from 1 to the model's 4",
    ),
    (
        "recompute of more layers than there are",
        "parallel: {recompute: {mode: full, layers: 5}}",
        "parallel.recompute.layers is 5, but should be a whole number from 1 to the model's 4",
    ),
    (
        "recompute of half a layer",
        "parallel: {recompute: {mode: full, layers: 1.5}}",
        "parallel.recompute.layers is 1.5",
    ),
    ("recompute of true layers", "parallel: {recompute: {mode: full, layers: true}}", "recompute.layers is true, but"),
    (
        "selective recompute of some layers",
        "parallel: {recompute: {mode: selective, layers: 2}}",
        "parallel.recompute.layers is for mode full, but the mode is selective. Leave layers out.",
    ),
    ("recompute that is a number", "parallel: {recompute: 1}", "parallel.recompute"),
    ("disk path", "parallel: {disk_path: /tmp}", "parallel.disk_path"),
    (
        "tokenizer",
        "data: {tokenizer: gpt2}",
        "data.tokenizer is gpt2. Use bytes, the path of a tokenizer.json, or none",
    ),
    # not a job file at all
    ("not YAML", "train: {steps: 3", "is not YAML"),
    ("a tab", "train:\n\tsteps: 3", "is not YAML"),
    ("a key twice", "train: {steps: 3, steps: 4}", "the key 'steps' stands twice"),
    ("a section twice", "train: {steps: 3}\ntrain: {seed: 1}", "the key 'train' stands twice"),
    ("a list", "- train", "holds a list, not a mapping of sections"),
    ("a word", "train", "not a mapping of sections"),
    ("a list as a key", "[1]: 2", "is not YAML"),
    ("two documents", "train: {steps: 3}\n---\ntrain: {steps: 3}", "is not YAML"),
    ("a circle", "train: &a {steps: *a}", "ircular data. Use plain"),
    ("a false tag", "train: {steps: !!int abc}", "is not YAML"),
    ("a Python object", "train: !!python/object:os.system {}", "is not YAML"),
    ("binary data", "data: {path: !!binary aGVsbG8=}", "Use plain numbers, words, lists and mappings."),
]
