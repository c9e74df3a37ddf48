"""Kill -9 around a job of Spark that is not the demo's, with a recount that knows no Spark."""
