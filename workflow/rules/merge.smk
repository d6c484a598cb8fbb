rule merge:
    input:
        shards=[PATHS.shard(shard.id) for shard in PLAN.training],
        summaries=[PATHS.shard_summary(shard.id) for shard in PLAN.training],
        theory=[PATHS.theory_summary(shard.id) for shard in PLAN.shards],
    output:
        PATHS.merged,
    log:
        STUDY / "logs" / "merge.log",
    benchmark:
        STUDY / "benchmarks" / "merge.tsv"
    conda:
        "../../environment.yml"
    threads: PLAN.study.engine.workers  # they compress
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        study=STUDY,
        identity=digest(sorted([cell.id, cell.experiment] for cell in PLAN.cells)),
    message:
        "Merging all shards into {PATHS.trajectories}"
    shell:
        "nqf merge {params.study} > {log} 2>&1"
