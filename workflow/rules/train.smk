rule train:
    output:
        arrays=PATHS.shard("{shard}"),
        summary=PATHS.shard_summary("{shard}"),
    log:
        STUDY / "logs" / "train" / "{shard}.log",
    benchmark:
        STUDY / "benchmarks" / "train" / "{shard}.tsv"
    message:
        "Training shard {wildcards.shard}"
    params:
        identity="{shard}",
    priority: 10
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=lambda wildcards, attempt: 60 * attempt,
    shell:
        "nqf train {STUDY} {params.identity} > {log} 2>&1"
