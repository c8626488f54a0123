"""The fused engine: a learner's step, lowered from its jaxpr to native loops over many lanes."""
