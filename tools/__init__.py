"""What builds the wheel and tests it. No part of the wheel itself."""
