rule train:
    output:
        arrays=PATHS.shard("{shard}"),
        summary=PATHS.shard_summary("{shard}"),
    log:
        STUDY / "logs" / "train" / "{shard}.log",
    benchmark:
        PATHS.train_benchmark("{shard}")
    wildcard_constraints:
        shard="[0-9a-f]{16}",
    priority: 10
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, threads, attempt: (
            PLAN.megabytes(wildcards.shard, threads) * attempt
        ),
        # A constant where it can be one: Snakemake takes a tenth of a millisecond a job to call a function.
        gpu=(
            (lambda wildcards: PLAN.gpus(wildcards.shard))
            if PLAN.study.engine.device == "gpu"
            else 0
        ),
        runtime=lambda wildcards, attempt: PLAN.minutes(wildcards.shard) * attempt,
    params:
        study=STUDY,
        identity="{shard}",
    message:
        "Training shard {wildcards.shard}"
    shell:
        "nqf train {params.study} {params.identity} --cores {threads} > {log} 2>&1"
