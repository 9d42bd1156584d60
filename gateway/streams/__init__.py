"""Floor 1: bytes and text. Knows no protocol, no model family, no clock."""
