rule theory:
    output:
        # One job for all shards; it keeps the predictions that are there.
        update([PATHS.theory_summary(shard.id) for shard in PLAN.shards]),
    log:
        STUDY / "logs" / "theory.log",
    benchmark:
        STUDY / "benchmarks" / "theory.tsv"
    priority: 20
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        study=STUDY,
    message:
        "Predicting every cell, without training"
    shell:
        "nqf theory {params.study} > {log} 2>&1"
