rule analyse:
    input:
        PATHS.merged,
    output:
        PATHS.tables,
    log:
        STUDY / "logs" / "analyse.log",
    benchmark:
        STUDY / "benchmarks" / "analyse.tsv"
    conda:
        "../../environment.yml"
    threads: PLAN.study.engine.dask.cores
    resources:
        mem_mb=lambda wildcards, threads, attempt: 2000 * max(threads, 2) * attempt,
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        study=STUDY,
        identity=digest(PLAN.study.analysis.model_dump(mode="json")),
    message:
        "Measuring ignition times, exponents and departures"
    shell:
        "nqf analyse {params.study} > {log} 2>&1"
