"""The stores of one endpoint: handles, reads and watches, and what drives their cores."""
