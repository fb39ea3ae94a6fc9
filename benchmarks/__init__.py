"""How fast it is, held against what was promised: each script measures one thing and prints rows of one table.

    python -m benchmarks                    all of them, in about ten minutes; exit code 1 if a bound is missed
    python -m benchmarks append scan        some of them
    python -m benchmarks --quick            each in its short form, which proves that it runs and judges nothing

Modules with an underscore are what the scripts share. What is compared is measured side by side in one run, in turns;
of repeated runs the best counts, since a shared machine only ever makes things slower.
"""
