rule theory:
    output:
        PATHS.predicted,
    log:
        STUDY / "logs" / "theory.log",
    benchmark:
        STUDY / "benchmarks" / "theory.tsv"
    message:
        "Predicting every cell, without training"
    params:
        identity=digest(sorted(shard.id for shard in PLAN.shards)),
    priority: 20
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=lambda wildcards, attempt: 60 * attempt,
    shell:
        "nqf theory {STUDY} > {log} 2>&1"
