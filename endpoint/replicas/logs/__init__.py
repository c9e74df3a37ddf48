"""The logs of one endpoint: handles, consumers and sources, and what drives their cores."""
