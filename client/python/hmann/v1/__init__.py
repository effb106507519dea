"""The wire of hmann (proto/hmann/v1), generated at build time."""
