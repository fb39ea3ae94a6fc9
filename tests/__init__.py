"""Tests mirror the source: unit, conformance, acceptance, docs."""
