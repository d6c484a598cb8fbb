# Jobs of many shards each; they keep the predictions that are there.
for NUMBER, SHARDS in enumerate(PLAN.predicting):
    MINUTES = PLAN.minutes_of_predictions(SHARDS)
    NAME = f"theory_{NUMBER}" if NUMBER else "theory"

    rule:
        name:
            NAME
        output:
            update([PATHS.theory_summary(shard.id) for shard in SHARDS]),
        log:
            STUDY / "logs" / f"{NAME}.log",
        benchmark:
            STUDY / "benchmarks" / f"{NAME}.tsv"
        priority: 20
        conda:
            "../../environment.yml"
        threads: 1
        resources:
            mem_mb=lambda wildcards, attempt: 2000 * attempt,
            runtime=lambda wildcards, attempt, minutes=MINUTES: minutes * attempt,
        params:
            study=STUDY,
        message:
            "Predicting cells, without training"
        shell:
            # Told by its outputs, not by parameters: predictions that are there stay, however shards are shared out among jobs.
            "nqf theory {params.study} {output} > {log} 2>&1"
