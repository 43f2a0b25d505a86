"""Maps from ``d`` features to ``F`` features that any learner takes."""
