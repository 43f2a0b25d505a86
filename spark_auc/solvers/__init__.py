"""From a quadratic and a penalty to weights with a certificate."""
