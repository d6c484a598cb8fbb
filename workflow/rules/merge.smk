rule merge:
    input:
        shards=[PATHS.shard_summary(shard.id) for shard in PLAN.shards],
        theory=PATHS.predicted,
    output:
        PATHS.merged,
    log:
        STUDY / "logs" / "merge.log",
    benchmark:
        STUDY / "benchmarks" / "merge.tsv"
    message:
        "Merging all shards into {PATHS.trajectories}"
    params:
        identity=digest([[cell.id, cell.experiment] for cell in PLAN.cells]),
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 60 * attempt,
    shell:
        "nqf merge {STUDY} > {log} 2>&1"
