"""Floor 6: the commands, one module each. Nothing below may import from here."""
