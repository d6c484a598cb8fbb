rule analyse:
    input:
        PATHS.merged,
    output:
        PATHS.tables,
    log:
        STUDY / "logs" / "analyse.log",
    benchmark:
        STUDY / "benchmarks" / "analyse.tsv"
    message:
        "Measuring ignition times, exponents and departures"
    params:
        identity=digest(PLAN.study.analysis.model_dump(mode="json")),
    threads: workflow.cores
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 60 * attempt,
    shell:
        "nqf analyse {STUDY} > {log} 2>&1"
