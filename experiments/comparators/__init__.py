"""Online learners that the papers compare with, one file per learner."""
