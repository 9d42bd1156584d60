"""Floor 2: rule files (`rules/`) to immutable objects. Knows files and schemas, no stream and no protocol."""
