"""One replica group under stores and logs: a journal whose majority decides what is committed."""
